# ctest: name=regression_script timeout=120 labels=cli,nightly processors=2
"""jobscripts/local/regression.sh: records a baseline of a small study, passes the same runs again, runs none twice, and
fails where the baseline says otherwise; its flags exist."""

import json
import re
import sys

import local_script
import zpp

SCRIPT = zpp.SOURCE / "jobscripts" / "local" / "regression.sh"
EXACT = ["--", "--only", "bytes,hash"]  # of two seeds


class RegressionScript(zpp.TestCase):
    def script(self, *words, code=0):
        done = local_script.run(SCRIPT, *words, cwd=zpp.SOURCE)
        self.assertEqual(done.returncode, code, done)
        return done

    def test_record_and_compare(self):
        study = self.write_json("study.json", {
            "name": "study", "app": "zpp_train", "nodes": 2, "ranks_per_node": 1, "warmup": 1,
            "flags": [*zpp.TINY, "--deterministic"],
            "axes": {"seed": {str(seed): ["--seed", str(seed)] for seed in (1, 2)}}})
        baseline, results = self.folder / "baseline.json", self.folder / "results"
        shared = ["--study", study, "--build", zpp.BIN.parent, "--table-python", sys.executable]
        first = self.script(baseline, "--record", *shared, "--results", results)
        self.assertIn("1 rows, 2 seeds", first.stdout)
        self.assertEqual((first.stdout + first.stderr).count(": complete"), 2)
        again = self.script(baseline, *shared, "--results", results, *EXACT)
        self.assertIn(": 0 moved\n", again.stdout)
        self.assertNotIn(": complete", again.stdout + again.stderr)
        self.script(baseline, *shared, "--results", self.folder / "anew", *EXACT)
        self.assertEqual(json.loads((self.folder / "anew" / "report.json").read_text())["code"], 0)
        document = json.loads(baseline.read_text())
        document["rows"][0]["hashes"]["1"] = "0" * 64
        baseline.write_text(json.dumps(document))
        self.assertIn("parameters, seed 1 was 000000000000", self.script(baseline, *shared, "--results", results,
                                                                         *EXACT, code=1).stdout)

    def test_flags_exist(self):
        done = self.script("name", "--dry-run", "--table-python", sys.executable)
        commands = done.stdout.splitlines()
        self.assertEqual(len(commands), 12 + 2)
        known = {name: local_script.run(sys.executable, zpp.SOURCE / name, *words, "--help").stdout
                 for name, *words in (("jobscripts/study.py", "run"), ("validation/zpp-validate", "gate"))}
        for line in (commands[0], commands[-1]):
            program = next(name for name in known if name in line)
            self.assertEqual(set(re.findall(r" (--[a-z][a-z-]*)", line.split(" -q ")[0]))
                             - set(re.findall("--[a-z][a-z-]*", known[program])),
                             set(), line)

    def test_bad_usage(self):
        for words in ([], ["a", "b"], ["a", "--frob", "1"], ["a", "--study"]):
            with self.subTest(words=words):
                done = self.script(*words, code=2)
                self.assertTrue(done.stderr.startswith("regression: error: ") and done.stderr.count("\n") == 1, done)


if __name__ == "__main__":
    zpp.main()
