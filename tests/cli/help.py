# ctest: name=help timeout=300 labels=cli,without-cuda
"""--help of every program fits a screen and begins with examples; --help GROUP and --help-all print the rest, each
option once."""

import json
import re
import shlex

import zpp

LINES, COLUMNS = 64, 100
ROW = re.compile(r"^  (-.*?)(?:  |$)", re.MULTILINE)
HEADING = re.compile(r"^\S.* \(--help (\w+)\):$", re.MULTILINE)


def asked(command, *words):
    return zpp.Process([zpp.BIN / command[0], *command[1:], *words]).end()


def printed(command, *words):
    done = asked(command, *words)
    assert (done.code, done.stderr) == (zpp.OK, ""), done
    return done.stdout


def commands_in(text):
    """The commands of zpp_plan; no other program has a list of commands."""
    return re.findall(r"^  ([a-z]+)  +\S", text.partition("Commands (")[2], re.MULTILINE)


PROGRAMS = [[path.name] for path in sorted(zpp.BIN.glob("zpp_*"))]
# `report` is zpp-validate html.
OF_PLAN = [["zpp_plan", name] for name in commands_in(printed(["zpp_plan"], "--help")) if name != "report"]
COMMANDS = [*PROGRAMS, *OF_PLAN]


def flags_of(text):
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))


def rows(text):
    """The long name of each flag that a line of a help begins with; where it has several, the first."""
    return [re.search(r"--[\w-]+", names)[0] for names in ROW.findall(text)]


def last_line(lines):
    """Which is filled."""
    return " ".join(lines).rpartition(" --no-FLAG. ")[2]


class Help(zpp.TestCase):
    def test_programs_are_found(self):
        self.assertGreaterEqual(len(PROGRAMS), 7)
        self.assertGreaterEqual(len(OF_PLAN), 6)

    def test_a_screen(self):
        for command in COMMANDS:
            with self.subTest(command):
                lines = printed(command, "--help").splitlines()
                self.assertLessEqual(len(lines), LINES)
                self.assertLessEqual(max(map(len, lines)), COLUMNS)
                self.assertRegex(lines[0], rf"^{command[0]}: [A-Z].*\.$")
                self.assertEqual(lines[1:3], ["", "Examples:"])
                self.assertTrue(last_line(lines).startswith("--help-all prints every flag in full, --help GROUP one "
                                                            "group: general, "))
                everything = printed(command, "--help-all").splitlines()
                self.assertLessEqual(max(map(len, everything)), COLUMNS)

    def test_examples_have_flags_that_exist(self):
        for command in COMMANDS:
            text = printed(command, "--help-all")
            examples = text.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
            self.assertTrue(examples)
            for example in examples:
                with self.subTest(example):
                    words = shlex.split(example)
                    self.assertIn(command[0], words)
                    given = {word for word in words[words.index(command[0]):] if re.match("--?[a-zA-Z]", word)}
                    self.assertEqual(given - flags_of(text.partition("\n\n")[2].partition("\n\n")[2]), set())

    def test_groups(self):
        """Each is printed alone, as in --help-all; --help has no flag that is in none, and no flag is in two."""
        for command in COMMANDS:
            with self.subTest(command):
                everything, brief = printed(command, "--help-all"), printed(command, "--help")
                groups = HEADING.findall(everything)
                self.assertEqual(groups, re.findall(r"\w+", last_line(brief.splitlines()).partition("one group: ")[2]))
                self.assertTrue(set(HEADING.findall(brief)) <= set(groups))
                listed = []
                for group in groups:
                    alone = printed(command, "--help", group)
                    self.assertEqual(alone, printed(command, f"--help={group}"))
                    self.assertIn(alone, everything)
                    listed += rows(alone)
                self.assertEqual(len(listed), len(set(listed)))
                self.assertEqual(sorted(listed), sorted(rows(everything.partition("\nGeneral ")[2])))
                self.assertTrue(set(rows(brief.partition("\nGeneral ")[2])) <= set(listed))
                self.assertEqual(printed(command, "-h"), brief)

    def test_every_option_is_in_its_group(self):
        path = self.folder / "info.json"
        self.check_ok(zpp.Process([zpp.INFO, "--json", path]).end())
        info = json.loads(path.read_text())
        for command in (["zpp_train"], ["zpp_info"], ["zpp_plan", "search"]):
            sections = {group["name"]: printed(command, "--help", group["name"]) for group in info["option_groups"]}
            for option in info["options"]:
                with self.subTest(option["path"]):
                    beginning = re.compile(rf"^  (-\w,)?{option['flag']}(?= |\n|$)", re.MULTILINE)
                    found = [name for name, text in sections.items() if beginning.search(text)]
                    self.assertEqual(found, [option["group"]])
                    self.assertIn(option["path"], re.sub(r"\s+", " ", sections[option["group"]]))

    def test_texts_are_sentences(self):
        """A text that begins with one of these is half of a sentence whose other half is elsewhere."""
        for command in COMMANDS:
            for text in re.findall(r"^(?:  -\S+(?: [A-Z\[\].a-z]+)? {2,}| {34})(\S+ \S+)", printed(command, "--help"),
                                   re.MULTILINE):
                self.assertNotRegex(text, "^(Of|In place|Likewise|The same|As|Its|Those) ")

    def test_an_unknown_group(self):
        done = asked(["zpp_train"], "--help", "modle")
        self.check_fails(done, zpp.USAGE, 'no group of flags is called "modle" (nearest: model)')
        done = zpp.launch([(2, [zpp.TRAIN, "--help", "modle"])]).end()
        self.check_fails(done, zpp.USAGE, "nearest: model")


if __name__ == "__main__":
    zpp.main()
