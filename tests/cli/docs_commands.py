# ctest: name=docs_commands timeout=600 labels=cli,nightly processors=4
"""The commands in README and docs/. The blocks of language `sh` of a page are run one after another in one folder, and
train for one step. A comment before a block that is not run gives the reason: <!-- not run: REASON -->. Every flag in
such a block has to exist."""

import json
import re
import subprocess

import command_blocks
import zpp

PAGES = {page.relative_to(zpp.SOURCE).as_posix(): page.read_text()
         for page in [zpp.SOURCE / "README.md", *sorted((zpp.SOURCE / "docs").rglob("*.md"))]}
REASON = re.compile(r"<!-- not run: [^\n]+ -->\n\n(?=```sh\n)")
SKIPPED = re.compile(REASON.pattern + command_blocks.FENCE.pattern.replace("^", "", 1), re.MULTILINE | re.DOTALL)
BUILD = re.compile(r"cmake --build --preset ([\w-]+)(?: --target ([\w-]+))?")
PROGRAM = re.compile(r"build(?:-cuda)?/bin/(zpp_\w+(?: [a-z]+)?)")


class Pages(zpp.TestCase):
    def test_a_shell_takes_every_block(self):
        blocks = [block for text in PAGES.values() for block in command_blocks.fenced(text, "sh")]
        self.assertGreater(len(blocks), 15)
        for block in blocks:
            self.assertEqual(command_blocks.complaint(block), "", block)

    def test_no_block_is_without_a_language(self):
        for name, text in PAGES.items():
            self.assertEqual(command_blocks.fenced(text), [], f"{name}: say sh for commands, text for what is printed")

    def test_a_reason_leaves_out_its_own_block_alone(self):
        text = "".join(f"{reason}```sh\n{word}\n```\n\ntext\n\n" for reason, word in (
            ("<!-- not run: once -->\n\n", "first"), ("", "second"), ("<!-- not run: again -->\n\n", "third")))
        self.assertEqual(command_blocks.fenced(SKIPPED.sub("", text), "sh"), ["second\n"])
        self.assertEqual([found[2] for found in SKIPPED.finditer(text)], ["first\n", "third\n"])

    def run_page(self, name):
        folder, done = command_blocks.clone(self.folder), []
        for block in command_blocks.fenced(SKIPPED.sub("", PAGES[name]), "sh"):
            for line in command_blocks.lines(block):
                done.append((name, command_blocks.pasted(line, folder)))
        return done

    def test_every_command_runs(self):
        done = [each for page in zpp.side_by_side(self.run_page, list(PAGES)) for each in page]
        self.assertGreater(len(done), 15)
        for name, result in done:
            with self.subTest(page=name, command=result.command):
                self.assertEqual(result.code, zpp.OK, result)
                self.assertNotIn("no size of a model", result.stderr)

    def test_the_search_is_as_large_as_it_says(self):
        text = PAGES["docs/howto/planning.md"]
        said = re.search(r"The ([\d,]+)\s+combinations on 4,096 GPUs\s+of\s+this\s+example", text).group(1)
        [command] = [line for block in command_blocks.fenced(text, "sh") for line in command_blocks.lines(block)
                     if "16,64,512" in line]
        done = self.check_ok(command_blocks.pasted(command.replace("16,64,512", "512"),
                                                   command_blocks.clone(self.folder)))
        self.assertIn(f"512 nodes x 8 ranks: {said.replace(',', '')} combinations", done.stdout)

    def test_what_is_built_can_be_built(self):
        """Presets and targets of `cmake --build`, also in sentences and in blocks that are not run."""
        presets = {preset["name"]
                   for preset in json.loads((zpp.SOURCE / "CMakePresets.json").read_text())["buildPresets"]}
        known = subprocess.run(["cmake", "--build", zpp.BIN.parent, "--target", "help"], capture_output=True, text=True,
                               check=True).stdout
        builds = [build for text in PAGES.values() for build in BUILD.findall(text)]
        self.assertIn(("cpu", "zpp_plan"), builds)
        for preset, target in builds:
            self.assertIn(preset, presets)
            self.assertTrue(target in ("", "all") or re.search(rf"(?m)^(?:\.\.\. )?{re.escape(target)}\b", known),
                            target)

    def test_flags_of_what_is_not_run_exist(self):
        helps = {}
        lines = [line for text in PAGES.values() for found in SKIPPED.finditer(text)
                 for line in command_blocks.lines(found[2])]
        for line in lines:
            program = PROGRAM.search(line)
            if not program:
                continue
            name = program[1]
            if name not in helps:
                helps[name] = zpp.Process([zpp.BIN / name.split()[0], *name.split()[1:], "--help-all"]).end().stdout
            for flag in re.findall(r"(?<=\s)--[\w-]+", line[program.end():]):
                with self.subTest(line=line):
                    self.assertIn(flag, helps[name])


if __name__ == "__main__":
    zpp.skip_without_open_mpi("the text of the pages")
    zpp.main()
