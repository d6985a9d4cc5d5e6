# ctest: name=kernels_broken labels=cli,nightly timeout=120
"""zpp_kernels times no kernel that is wrong: one that does nothing, stops early or flips a bit is named, with what is
wrong, and ends in exit code 1; the right ones beside it are measured."""

import json

import zpp

PROGRAM = str(zpp.TEST_BIN / "kernels_broken")


class Broken(zpp.TestCase):
    def run_program(self, kernel, codec):
        path = self.folder / "kernels.json"
        command = [PROGRAM, "--backend", "host", "--cache", "4M", "--values", "64K", "--samples", "5", "--codec", codec,
                   "--filter", f"^({kernel})/",
                   "--output", self.out, "--json", path]
        return zpp.Process(command, cwd=self.folder).end(), path

    def broken(self, kernel, codec, *parts):
        result, path = self.run_program(f"{kernel}|encode", codec)
        self.assertEqual(result.code, zpp.INVALID, result)
        (error,) = result.errors("zpp_kernels")
        for part in (f"{kernel}/", " on host: INVALID: ", *parts):
            self.assertIn(part, error)
        found = json.loads(path.read_text())
        self.assertRegex(found["verdict"], rf"^INVALID: 1 of 2 rows, {kernel}/")
        rows = {row["kernel"]: row for row in found["rows"]}
        self.assertEqual((rows[kernel]["samples"], rows[kernel]["bandwidth"]), ([], 0))
        self.assertRegex(rows[kernel]["verdict"], "^INVALID: ")
        self.assertEqual((rows["encode"]["verdict"], len(rows["encode"]["samples"])), ("VALID", 5))
        self.assertIn(f"# Verdict : {found['verdict']}", result.stdout)
        root, _ = zpp.read_trace(self.out / "kernels.h5")
        self.assertEqual(root["verdict"], found["verdict"])
        checked = zpp.check_trace(self.out / "kernels.h5")
        self.assertEqual(checked.code, zpp.INVALID, checked)
        self.assertIn("the run itself says INVALID", checked.stdout)

    def test_one_that_does_nothing(self):
        for codec in ("none", "bf16", "int8:256", "int4:128"):
            with self.subTest(codec=codec):
                self.broken("idle", codec, "value 0 of the image decodes to", "wanted")

    def test_one_that_stops_early(self):
        for codec in ("none", "int8:256", "int4:128"):
            with self.subTest(codec=codec):
                self.broken("short", codec, " of the image decodes to", "wanted")
        self.broken("short_copy", "none", "destination[57344] was not written")

    def test_a_flipped_bit(self):
        self.broken("flipped", "int8:256", "values[32768] is ", "wanted")


zpp.main()
