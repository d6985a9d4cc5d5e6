# ctest: name=network_table timeout=300 labels=oracle,nightly
"""zpp-validate network-table on made-up summaries: model, speed-ups, second pass, and what makes it fail."""

import copy
import json
import os
import pathlib
import tempfile
import unittest

import validate
from zpp_validate.tables import network_summary

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
UNSHAPED_STEP = {"flat": 0.040, "all": 0.050}  # seconds
ACROSS = {"flat": 20_000_000, "all": 2_000_000}  # bytes per step, of 2 hosts
RATES = {"1gbit": 1e9, "unshaped": None}


def entry(rate, feature, steps=23, warmup=3):
    """A run that keeps to the model: a warm-up that is slow, then steps around the median."""
    across = ACROSS[feature]
    link = 8 * across / 2 / RATES[rate] if RATES[rate] else 0
    seconds = [9.0] * warmup + [(UNSHAPED_STEP[feature] + link) * (1 + 0.001 * (i % 3 - 1))
                                for i in range(steps - warmup)]
    return {"run": f"rate={rate},feature={feature}", "values": {"rate": rate, "feature": feature}, "hosts": 2,
            "ranks_per_host": 2, "emulated": True, "parameters": 1000, "verdict": "VALID", "parameters_hash": "ab",
            "git_commit": "c", "started_at": "t", "config_hash": "d", "step_seconds": seconds, "losses": [1.0] * steps,
            "bytes_across_a_step": across, "bytes_predicted_a_step": across, "bytes_across": across * steps,
            "bytes_are_modelled": False, "rate": rate, "bits_per_second": RATES[rate],
            "payload_bytes": int(across * steps * 1.001), "others_cpu_share": 0.01, "seconds": 3.0, "cores": 2,
            "sent_bytes": int(across * steps * 1.01), "sent_packets": 9, "received_bytes": 0, "received_packets": 0,
            "retransmitted_segments": 4, "dropped_packets": 0}


def study():
    runs = [entry(rate, feature) for rate in RATES for feature in ACROSS]
    return {"schema": network_summary.SCHEMA, "schema_version": "1.0", "study": "made-up", "description": "Of a test.",
            "axes": {"rate": list(RATES), "feature": list(ACROSS)}, "warmup": 3,
            "runs_of_the_study": [run["run"] for run in runs], "runs": runs}


class NetworkTable(unittest.TestCase):
    def table(self, value, again=None):
        """(exit code, table, errors)"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "summaries.json"
            path.write_text(json.dumps(value))
            output = path.parent / "table.md"
            words = [str(path), "--output", str(output)]
            if again:
                second = pathlib.Path(folder) / "again.json"
                second.write_text(json.dumps(again))
                words += ["--again", str(second)]
            done = validate.run("network-table", *words)
            if done.returncode != 2:
                self.assertEqual(output.read_text(), done.stdout)
            return done.returncode, done.stdout, done.stderr

    def cells(self, text, who, rate):
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
        header = next(row for row in rows if row[0] == "run")
        return dict(zip(header, next(row for row in rows if row[:2] == [who, rate])))

    def test_model_and_speedups(self):
        code, text, errors = self.table(study())
        self.assertEqual((code, errors), (0, ""))
        row = self.cells(text, "all", "1gbit")  # 50 + 8 * 1 MB / 1 Gb/s = 58 ms; flat: 40 + 80 = 120 ms
        self.assertEqual((row["step (ms)"], row["model (ms)"], row["measured / model"]), ("58.0", "58.0", "1.00"))
        self.assertEqual((row["speed-up"], row["by the model"], row["notes"]), ("2.07", "2.07", ""))
        self.assertEqual((row["interfaces"], row["payload"], row["MB across"]), ("+1.00%", "+0.10%", "2.000"))
        self.assertEqual(self.cells(text, "all", "unshaped")["speed-up"], "0.80")
        self.assertIn("emulated", text)

    def test_what_makes_it_fail(self):
        for change, message in (
                ({"verdict": "INVALID: x"}, "INVALID: x"), ({"bytes_predicted_a_step": 1}, "counted other bytes"),
                ({"payload_bytes": 1}, "interfaces sent"), ({"sent_bytes": int(ACROSS["flat"] * 23 * 1.04)},
                                                            "interfaces sent")):
            value = study()
            value["runs"][0].update(change)
            code, text, errors = self.table(value)
            self.assertEqual(code, 1, change)
            self.assertIn(message, errors)
            self.assertIn(message, self.cells(text, "flat", "1gbit")["notes"])
        value = study()
        del value["runs"][1]
        code, _, errors = self.table(value)
        self.assertEqual((code, errors), (1, "zpp-validate network-table: error: rate=1gbit,feature=all is missing\n"))

    def test_modelled_bytes_are_not_held_against_the_interfaces(self):
        value = study()
        value["runs"][0].update(bytes_are_modelled=True, sent_bytes=ACROSS["flat"], payload_bytes=ACROSS["flat"])
        code, text, _ = self.table(value)
        self.assertEqual(code, 0)
        self.assertIn("bytes are modelled", self.cells(text, "flat", "1gbit")["notes"])

    def test_flags_what_is_noisy_short_or_disturbed(self):
        value = study()
        value["runs"][0]["others_cpu_share"] = 0.4
        value["runs"][0]["step_seconds"] = [1.0] * 3 + [0.1, 0.2] * 5
        notes = self.cells(self.table(value)[1], "flat", "1gbit")["notes"]
        self.assertEqual(notes, "CV above 5%; 10 samples; disturbed")

    def test_derives_nothing_from_a_disturbed_run(self):
        value = study()
        disturb = {run["run"]: run for run in value["runs"]}
        disturb["rate=unshaped,feature=all"]["others_cpu_share"] = 0.4
        row = self.cells(self.table(value)[1], "all", "1gbit")
        self.assertEqual([row[name] for name in ("model (ms)", "measured / model", "speed-up", "by the model")],
                         ["-", "-", "2.07", "-"])
        disturb["rate=1gbit,feature=flat"]["others_cpu_share"] = 0.4
        row = self.cells(self.table(value)[1], "all", "1gbit")
        self.assertEqual((row["speed-up"], row["notes"]), ("-", ""))

    def test_second_pass(self):
        again = copy.deepcopy(study())
        again["runs"] = [again["runs"][0]]
        again["runs"][0]["step_seconds"] = [1.1 * value for value in again["runs"][0]["step_seconds"]]
        code, text, errors = self.table(study(), again)
        self.assertEqual((code, errors), (0, ""))
        self.assertIn("| +10.0% |", text)
        self.assertIn("same bits", text)
        for name in ("losses", "parameters_hash"):
            other = copy.deepcopy(again)
            other["runs"][0][name] = [1.0] * 22 + [1.0 + 2**-52] if name == "losses" else "ac"
            code, text, errors = self.table(study(), other)
            self.assertEqual(code, 1)
            self.assertIn("losses of the second pass differ", errors)

    def test_files_that_are_none(self):
        for value in ({}, [], {"schema": network_summary.SCHEMA}, {**study(), "runs": [{"run": "x"}]}):
            code, _, errors = self.table(value)
            self.assertEqual((code, errors.count("\n")), (2, 1), errors)


if __name__ == "__main__":
    unittest.main()
