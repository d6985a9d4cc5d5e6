# ctest: name=config_keys timeout=180 labels=cli processors=2
"""No key of a DeepSpeed configuration is ignored in silence, as the program shows it: all keys that are accepted give
one warning each, and some of those that are refused exit code 2 with the reason (config_keys_walk tries every key and
value, contract9_options_matrix whether options have their effects)."""

import json
import re

import zpp

SAMPLES = {"boolean": [True, False], "integer": [3], "number": [0.5], "text": ["x"],
           "section": [{"enabled": True, "any": 1}]}


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

    def info(self, numbered):
        index, document = numbered
        command = [zpp.INFO, "--config", self.write_json(f"{index}.json", document)]
        return zpp.Process(command, cwd=self.folder).end()

    def values(self, row):
        """Of a key that is no option: values that are accepted, and values that are refused."""
        key, standing, kind = row[:3]
        if standing == "accepted":
            return SAMPLES[kind], []
        if standing == "refused":
            return [], SAMPLES[kind]
        if standing == "accepted where disabled; else refused":
            return [{"enabled": False}, False], [{"enabled": True}]
        listed = re.fullmatch(r"accepted: (.*); else refused", standing)
        self.assertTrue(listed, (key, standing))
        accepted = [json.loads(value) for value in re.findall("`(.*?)`", listed[1])]
        return accepted, [value for value in (True, False, 2.5, "cpu", {"a": 1}) if value not in accepted]

    def test_every_key_is_in_the_table_once_with_its_meaning(self):
        keys = [row[0] for row in self.rows]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertGreater(len(keys), 130)
        for row in self.rows:
            self.assertEqual(len(row), 5, row)
            self.assertTrue(row[1] and row[2] and row[4], row)

    def test_what_is_accepted_gives_one_warning(self):
        """All keys in one file, and again with their other values."""
        accepted = {row[0]: self.values(row)[0] for row in self.rows if row[1].startswith("accepted")}
        self.assertGreater(len(accepted), 80)
        for turn in range(max(map(len, accepted.values()))):
            document = {}
            for key, values in accepted.items():
                document = put(document, key, values[turn % len(values)])
            result = self.info((turn, document))
            self.assertEqual(result.code, zpp.OK, result)
            lines = [line for line in result.stderr.splitlines() if line.startswith("zpp_info: warning: ")]
            self.assertEqual(len(lines), len(accepted), result)
            for key in accepted:
                self.assertEqual(sum(f": {key} changes nothing here: " in line for line in lines), 1, key)

    def test_what_is_refused_ends_with_the_reason(self):
        cases = [(row, value) for row in self.rows if row[1] != "works" for value in self.values(row)[1][:1]][::6]
        self.assertGreater(len(cases), 8)
        results = zpp.side_by_side(self.info, enumerate(put({}, row[0], value) for row, value in cases))
        for (row, value), result in zip(cases, results):
            with self.subTest(key=row[0], value=value):
                self.assertEqual((result.code, len(result.errors("zpp_info"))), (zpp.USAGE, 1), result)
                self.assertIn(f"{row[0]} {json.dumps(value, separators=(',', ':'))} is refused: {row[4]}; ",
                              result.errors("zpp_info")[0])
                self.assertNotIn("warning", result.stderr)


if __name__ == "__main__":
    zpp.main()
