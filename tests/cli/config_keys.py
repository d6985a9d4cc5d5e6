# ctest: name=config_keys timeout=180 labels=cli processors=2
"""No key of a DeepSpeed configuration is ignored in silence, as the program shows it: one warning names all that are
ignored, and one error all that are refused, with exit code 2 (config_keys_walk tries every key and value,
contract9_options_matrix whether options have their effects)."""

import json
import re

import zpp

ANYTHING = [True, 3, "x", {"enabled": True, "any": 1}]


def put(document, path, value):
    """A copy of the document with the key."""
    copy = json.loads(json.dumps(document))
    at = copy
    *sections, last = path.split(".")
    for section in sections:
        at = at.setdefault(section, {})
    at[last] = value
    return copy


class Keys(zpp.TestCase):
    @classmethod
    def setUpClass(cls):
        result = zpp.Process([zpp.INFO, "--config-keys"]).end()
        assert (result.code, result.stderr) == (zpp.OK, ""), result
        cls.table = result.stdout
        cls.rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in cls.table.splitlines()[2:]]
        cls.rows = [(row[0].strip("`"), *row[1:]) for row in cls.rows]

    def info(self, name, document):
        command = [zpp.INFO, "--config", self.write_json(f"{name}.json", document)]
        return zpp.Process(command, cwd=self.folder).end()

    def values(self, row):
        """Ignored values and refused values of a key that is no option."""
        key, standing = row[:2]
        if standing == "ignored":
            return ANYTHING, []
        if standing == "refused":
            return [], ANYTHING
        if standing == "ignored where off; else refused":
            return [{"enabled": False}, False], [{"enabled": True}]
        listed = re.fullmatch(r"ignored: (.*); else refused", standing)
        self.assertTrue(listed, (key, standing))
        ignored = [json.loads(value) for value in re.findall("`(.*?)`", listed[1])]
        return ignored, [value for value in (True, False, 2.5, "cpu", {"a": 1}) if value not in ignored]

    def test_every_key_is_in_the_table_once_with_its_meaning(self):
        keys = [row[0] for row in self.rows]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertGreater(len(keys), 130)
        for row in self.rows:
            self.assertEqual(len(row), 5, row)
            self.assertTrue(row[1] and row[4], row)

    def test_what_is_ignored_gives_one_warning(self):
        """All keys in one file, and again with their other values."""
        ignored = {row[0]: self.values(row)[0] for row in self.rows if row[1].startswith("ignored")}
        self.assertGreater(len(ignored), 80)
        for turn in range(max(map(len, ignored.values()))):
            document = {}
            for key, values in ignored.items():
                document = put(document, key, values[turn % len(values)])
            result = self.info(turn, document)
            self.assertEqual(result.code, zpp.OK, result)
            (line,) = [line for line in result.stderr.splitlines() if ": ignored: " in line]
            self.assertCountEqual(zpp.ignored_keys(line), ignored)

    def test_what_is_refused_is_told_at_once(self):
        cases = {row[0]: (self.values(row)[1][0], row[4]) for row in self.rows
                 if row[1] != "works" and self.values(row)[1]}
        self.assertGreater(len(cases), 20)
        document = {}
        for key, (value, _) in cases.items():
            document = put(document, key, value)
        result = self.info("refused", document)
        self.assertEqual((result.code, len(result.errors("zpp_info"))), (zpp.USAGE, 1), result)
        (error,) = result.errors("zpp_info")
        self.assertIn(f"{len(cases)} keys are refused: (1) ", error)
        for key, (value, why) in cases.items():
            shown = "" if isinstance(value, dict) else f" {json.dumps(value)}"
            self.assertIn(f") {key}{shown} is refused: {why}; ", error)
        self.assertNotIn("warning", result.stderr)


if __name__ == "__main__":
    zpp.main()
