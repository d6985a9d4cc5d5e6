# ctest: name=regression_gate timeout=30 labels=oracle
"""validation/regression_gate.py on made-up tables: what it lets pass, what it stops, what it cannot read."""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

GATE = pathlib.Path(os.environ["ZEROPP_SOURCE"]) / "validation" / "regression_gate.py"
ROW = {"run": "feature=none", "step_median_s": "0.100", "step_low_s": "0.098", "step_high_s": "0.102",
       "bytes_intra_node": "10", "bytes_inter_node": "20", "verdict": "VALID"}
EMPTY = {**ROW, "step_median_s": "", "step_low_s": "", "step_high_s": "", "bytes_intra_node": "", "bytes_inter_node": ""}


class Gate(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def table(self, name, rows):
        path = self.folder / name
        with open(path, "w", newline="") as stream:
            writer = csv.DictWriter(stream, ROW, delimiter="\t")
            writer.writeheader()
            writer.writerows(rows)
        return path

    def gate(self, baseline, new, *words):
        return subprocess.run([sys.executable, GATE, self.table("baseline.tsv", baseline), self.table("new.tsv", new), *words],
                              capture_output=True, text=True, check=False)

    def check_passes(self, new, *words, text="| ok"):
        done = self.gate([ROW], new, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIn(text, done.stdout)

    def check_fails(self, new, text, *words):
        done = self.gate([ROW], new, *words)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done)
        self.assertIn(text, done.stderr)
        self.assertIn(text, done.stdout)

    def test_passes(self):
        self.check_passes([ROW])
        self.check_passes([{**ROW, "step_median_s": "0.050", "step_low_s": "0.049", "step_high_s": "0.051"}], text="0.500")
        # The intervals overlap within the tolerance: 0.102 * 1.05 = 0.1071.
        self.check_passes([{**ROW, "step_median_s": "0.120", "step_low_s": "0.107", "step_high_s": "0.200"}])
        self.check_passes([ROW, {**ROW, "run": "feature=new"}], text="not in the baseline")

    def test_slower(self):
        slow = {**ROW, "step_median_s": "0.109", "step_low_s": "0.108", "step_high_s": "0.110"}
        self.check_fails([slow], "slower: at least 108.00 ms, was at most 102.00")
        self.check_passes([slow], "--tolerance", "0.1")
        self.check_fails([{**slow, "step_low_s": "0.1021"}], "slower", "--tolerance", "0")

    def test_other_bytes(self):
        for name in ("bytes_intra_node", "bytes_inter_node"):
            for value in ("9", "21"):
                self.check_fails([{**ROW, name: value}], f"{name} a step are {value}, were {ROW[name]}")

    def test_runs_that_are_not_there(self):
        self.check_fails([], "missing")
        self.check_fails([{**EMPTY, "verdict": "missing: not started"}], "missing: not started")
        self.check_fails([{**EMPTY, "verdict": "INVALID: loss"}], "INVALID: loss")

    def test_tables_that_cannot_be_used(self):
        for baseline, text in (([], "has no valid run"), ([{**EMPTY, "verdict": "missing: x"}], "has no valid run"),
                               ([{**ROW, "step_low_s": "x"}], "is no table of a study")):
            done = self.gate(baseline, [ROW])
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
            self.assertIn(text, done.stderr)
        done = subprocess.run([sys.executable, GATE, self.folder / "none.tsv", GATE], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)


if __name__ == "__main__":
    unittest.main()
