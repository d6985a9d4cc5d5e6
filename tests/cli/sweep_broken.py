# ctest: name=sweep_broken labels=cli,nightly timeout=300 processors=4
"""zpp_sweep's own checks find collectives that are broken on purpose, each with the right message: rank,
index, what came and what was wanted, and the kind of error; exit code 1, one line per rank at most."""

import json
import re

import zpp

PROGRAM = str(zpp.TEST_BIN / "sweep_broken")
LINE = re.compile(r"(?P<what>\w+ [\w:]+ [\w-]+) of \d+ bytes on group world (?P<place>out of place|in place): "
                  r"rank (?P<rank>\d+) \((?P<run>timed|checked|non-finite) run\), index (?P<index>\d+): "
                  r"got (?P<got>[^,]+), wanted (?P<wanted>[^;]+?)( \+- [^;]+)?(; (?P<wrong>\d+) wrong: (?P<kind>.+))?")

# Which ranks find it, the first index of a buffer of parts of 256 values on 4 ranks, and the kind.
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
SIZE = 4096
RESULT = {"all_gather": 1024, "reduce_scatter": 256, "all_reduce": 1024, "all_to_all": 1024}


class Broken(zpp.TestCase):
    def sweep(self, collective, algorithm, *words):
        command = [PROGRAM, "-b", SIZE, "-e", SIZE, "-n", 2, "-w", 1, "--collective", collective, "--algorithm",
                   algorithm, "--backend", "host", *words]
        return zpp.launch([(4, command)], cwd=self.folder, patient=True).end()

    def broken(self, collective, algorithm, *words):
        """Every finding of the JSON, after the lines on standard error were held against it."""
        path = self.folder / "sweep.json"
        result = self.sweep(collective, algorithm, "--json", path, *words)
        self.assertEqual(result.code, zpp.INVALID, result)
        found = json.loads(path.read_text())
        self.assertTrue(found["verdict"].startswith("INVALID: "), found["verdict"])
        self.assertFalse(found["out_of_bounds"]["okay"])
        self.assertRegex(result.stdout, rf"(?m)^# Out of bounds values : {found['out_of_bounds']['count']} FAILED$")
        self.assertRegex(result.stdout, r"(?m)^# Verdict +: INVALID: .* wrong values$")
        findings = []
        for line in found["errors"]:
            match = LINE.fullmatch(line)
            self.assertIsNotNone(match, line)
            findings.append(match.groupdict())
        printed = result.errors("zpp_sweep")
        ranks = [LINE.fullmatch(line)["rank"] for line in printed]
        self.assertEqual(len(ranks), len(set(ranks)), printed)
        self.assertEqual(set(ranks), {finding["rank"] for finding in findings})
        return findings

    def test_one_bit_flipped(self):
        for collective in COLLECTIVES:
            with self.subTest(collective=collective):
                findings = [f for f in self.broken(collective, "flipped-bit") if f["kind"]]
                for finding in findings:
                    self.assertEqual((finding["rank"], int(finding["index"]), finding["wrong"]),
                                     ("1", RESULT[collective] // 2, "1"))
                    self.assertEqual(finding["kind"], "one element, bit 2 flipped")
                    self.assertNotEqual(finding["got"], finding["wanted"])
                self.assertEqual({f["place"] for f in findings}, {"out of place", "in place"})

    def test_one_block_dropped(self):
        for collective in COLLECTIVES:
            for codec in ("none", "int8:256"):
                with self.subTest(collective=collective, codec=codec):
                    findings = self.broken(collective, "dropped-block", "--codec", codec)
                    out = [f for f in findings if f["place"] == "out of place" and f["kind"]]
                    self.assertEqual({f["run"] for f in out}, {"timed", "checked"})
                    for finding in out:
                        self.assertEqual((finding["rank"], finding["index"], finding["kind"]),
                                         ("1", "0", "never written"))
                        # The bound of a lossy sum may hold the poison beside a small value.
                        self.assertIn(int(finding["wrong"]), range(64 if codec == "none" else 48, 65))

    def test_scaled(self):
        for collective in COLLECTIVES:
            for codec in ("none", "int8:256", "int4:128"):
                with self.subTest(collective=collective, codec=codec):
                    findings = [f for f in self.broken(collective, "scaled", "--codec", codec) if f["kind"]]
                    self.assertEqual({f["rank"] for f in findings}, {"0", "1", "2", "3"})
                    for finding in findings:
                        # A gather in place reads its own part again: scaled once more by every run.
                        again = (collective, codec, finding["place"]) == ("all_gather", "none", "in place")
                        factor = r"\d+" if again else r"(2|2\.0\d*|1\.9\d*)"
                        self.assertRegex(finding["kind"], rf"^scaled by {factor}$")

    def test_stale_part(self):
        for collective in COLLECTIVES:
            for codec in ("none", "int4:128"):
                with self.subTest(collective=collective, codec=codec):
                    findings = [f for f in self.broken(collective, "stale-part", "--codec", codec) if f["kind"]]
                    self.assertIn("checked", {f["run"] for f in findings})
                    for finding in findings:
                        if finding["run"] == "checked" and finding["place"] == "out of place":
                            self.assertEqual(finding["rank"], "0")
                            self.assertTrue(finding["kind"].startswith("stale"), finding)

    def test_a_bias_that_the_bounds_hide(self):
        for collective in COLLECTIVES:
            with self.subTest(collective=collective):
                path = self.folder / "sweep.json"
                words = ["-b", "1M", "-e", "1M", "-n", 1, "-w", 0, "--collective", collective, "--json", path]
                command = [PROGRAM, *words, "--algorithm", "biased", "--codec", "int4:128", "--backend", "host"]
                result = zpp.launch([(4, command)], cwd=self.folder, patient=True).end()
                self.assertEqual(result.code, zpp.INVALID, result)
                (row,) = json.loads(path.read_text())["results"]
                self.assertRegex(row["out_of_place"]["verdict"],
                                 r"^INVALID: .* has the slope 1\.03\d+, not 1 within 0\.02")
                self.assertEqual(row["out_of_place"]["nwrong"], 0)

    def test_values_that_are_not_finite_get_lost(self):
        for collective in (*COLLECTIVES, "broadcast"):
            for codec in ("none", "int8:256"):
                if (collective, codec) == ("broadcast", "int8:256"):
                    continue
                with self.subTest(collective=collective, codec=codec):
                    findings = self.broken(collective, "finite", "--codec", codec)
                    self.assertEqual({(f["run"], f["got"], f["wanted"]) for f in findings},
                                     {("non-finite", "0", "a NaN or an infinity")})

    def test_runs_that_are_left_out(self):
        """Where the right result still lies from the run before: no value is wrong, but fewer bytes were sent."""
        for collective in COLLECTIVES:
            with self.subTest(collective=collective):
                path = self.folder / "sweep.json"
                result = self.sweep(collective, "lazy", "--codec", "int8:256", "--json", path)
                self.assertEqual(result.code, zpp.INVALID, result)
                (row,) = json.loads(path.read_text())["results"]
                self.assertEqual((row["out_of_place"]["nwrong"], row["out_of_place"]["verdict"]),
                                 (0, "INVALID: the bytes sent are not the bytes predicted"))

    def test_broadcast(self):
        self.assertTrue(self.broken("broadcast", "dropped-block", "-r", 2))

    def test_right_ones_pass_in_the_same_program(self):
        self.check_ok(self.sweep("all_gather", "direct,native"))

    def test_a_hang_ends_by_the_timeout(self):
        result = self.sweep("all_gather", "hangs", "-T", 2)
        self.assertEqual(result.code, 124, result)
        self.assertIn("--timeout", result.errors("zpp_sweep")[0])


if __name__ == "__main__":
    zpp.main()
