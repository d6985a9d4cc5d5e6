# ctest: name=prometheus_files timeout=120 labels=oracle
"""zpp-validate prometheus on JSONs of programs: values equal the JSON in base units, promtool accepts every file if it
is installed, and the dashboard asks for metrics that exist."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from prometheus_client import parser

import synthetic_fabric
import synthetic_sweep
import validate

SOURCE = Path(os.environ["ZEROPP_SOURCE"])
SWEEP = SOURCE / "tests" / "oracle" / "prometheus_sweep.json"
DASHBOARD = SOURCE / "docs" / "operators" / "grafana.json"
GATE = {"schema": "zeropp-gate", "baseline": "validation/baselines/m/train.json", "code": 1, "invalid": {},
        "missing": ["a row"],
        "findings": [{"verdict": "worse"}, {"verdict": "same"}, {"verdict": "same"}]}
COMPARISON = {"schema": "zeropp-comparison", "program": "zpp_sweep", "code": 1, "other_bytes": [],
              "rows": [{"row": 'a "row"\\', "ratio": 1.5, "verdict": "slower", "beyond": True}]}


def parsed(text):
    """{(name, labels): value}. Every metric is a gauge with a text, and no sample comes twice."""
    values = {}
    for metric in parser.text_string_to_metric_families(text):
        assert metric.type == "gauge" and len(metric.documentation) > 10, metric
        for sample in metric.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in values, sample
            values[key] = sample.value
    return values


class Prometheus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def written(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def files(self):
        slow = synthetic_fabric.make(1) | {"verdict": "INVALID: a slow link", "faults": [
            {"kind": "link", "class": "inter-node", "metric": "latency", "rank": 1, "peer": 6, "host": "node0",
             "text": "slow"}]}
        return [SWEEP, self.written("fabric.json", slow), self.written("gate.json", GATE),
                self.written("comparison.json", COMPARISON)]

    def run_it(self, *words, code=0):
        done = validate.run("prometheus", *words)
        self.assertEqual(done.returncode, code, done)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def values(self, *words):
        return parsed(self.run_it(*words).stdout)

    def test_a_sweep_in_base_units(self):
        values, document = self.values(SWEEP), json.loads(SWEEP.read_text())
        found = {key: value for key, value in values.items()
                 if key[0] == "zeropp_collective_bus_bandwidth_bytes_per_second"}
        self.assertEqual(len(found), 2 * len(document["results"]))
        for row in document["results"]:
            for place in ("in_place", "out_of_place"):
                asked = {("collective", row["collective"]), ("algorithm", row["algorithm"]), ("codec", row["codec"]),
                         ("bytes", str(row["size"])), ("place", place), ("ranks", "4"), ("nodes", "2")}
                for name, key, unit in (("bus_bandwidth_bytes_per_second", "bus_bw", 1e9),
                                        ("time_seconds", "p50", 1e-6)):
                    [value] = [value for (metric, labels), value in values.items()
                               if metric == f"zeropp_collective_{name}" and asked <= set(labels)]
                    self.assertAlmostEqual(value, row[place][key] * unit, delta=1e-9 * value)
        self.assertEqual(values["zeropp_success", (("program", "zpp_sweep"),)], 1)
        self.assertEqual(values["zeropp_last_run_timestamp_seconds", (("program", "zpp_sweep"),)],
                         1763783906 + 365 * 86400)

    def test_faults_and_verdicts(self):
        values = self.values(*self.files())
        success = {dict(labels)["program"]: value for (name, labels), value in values.items()
                   if name == "zeropp_success"}
        self.assertEqual(success, {"zpp_sweep": 1, "zpp_fabric": 0, "gate": 0, "compare": 0})
        [fault] = [dict(labels) for (name, labels) in values if name == "zeropp_fabric_fault"]
        self.assertEqual((fault["kind"], fault["rank"], fault["peer"], fault["host"]), ("link", "1", "6", "node0"))
        self.assertEqual(values["zeropp_gate_exit_code", (("baseline", "train"),)], 1)
        self.assertEqual(values["zeropp_gate_quantities", (("baseline", "train"), ("verdict", "same"))], 2)
        [median] = [value for (name, labels), value in values.items()
                    if name == "zeropp_fabric_bandwidth_bytes_per_second"
                    and {("class", "inter-node"), ("statistic", "median")} <= set(labels)]
        self.assertAlmostEqual(median, 40e9, delta=1e9)
        typical = {dict(labels)["class"]: value for (name, labels), value in values.items()
                   if name == "zeropp_fabric_latency_seconds" and ("statistic", "typical") in labels}
        self.assertEqual(typical, {name: times[0] * 1e-6 for name, times in synthetic_fabric.TYPICAL.items()})

    def test_success_is_exit_code_0_of_a_gate(self):
        for code in (0, 1, 4):
            values = self.values(self.written("gate.json", GATE | {"code": code}))
            self.assertEqual(values["zeropp_success", (("baseline", "train"), ("program", "gate"))], code == 0)

    def test_success_is_exit_code_0_of_a_comparison(self):
        sweeps = {"calm": synthetic_sweep.sweep(1), "again": synthetic_sweep.sweep(2),
                  "few": synthetic_sweep.sweep(2, cycles=3),
                  "slower": synthetic_sweep.sweep(2, factor=lambda *row: 1.2),
                  "partly": synthetic_sweep.sweep(2, codecs=("none",))}
        lacking = synthetic_fabric.make(2)
        lacking["bandwidth"][2][3] = None
        surveys = {"survey": synthetic_fabric.make(1), "resurvey": synthetic_fabric.make(2), "lacking": lacking}
        paths = {name: self.written(f"{name}.json", document) for name, document in (sweeps | surveys).items()}
        other = self.written("other.json", synthetic_fabric.make(2) | {"message_bytes": 4096})
        paths |= {"other": other, "none": self.folder / "none.json"}
        for before, after, code in (("calm", "again", 0), ("calm", "slower", 1), ("calm", "partly", 1),
                                    ("calm", "few", 4), ("none", "calm", 5),
                                    ("survey", "resurvey", 0), ("survey", "lacking", 1), ("survey", "other", 2),
                                    ("survey", "none", 5)):
            with self.subTest(after):
                report = self.folder / "compared.json"
                done = validate.run("compare", paths[before], paths[after], "--json", report)
                self.assertEqual(done.returncode, code, done)
                values = self.values(report)
                compared = ("compared", "zpp_fabric" if before == "survey" else "zpp_sweep")
                self.assertEqual(values["zeropp_success", (compared, ("program", "compare"))], code == 0)
                self.assertEqual(values["zeropp_comparison_exit_code", (compared,)], code)

    def test_comparisons_of_several_programs_have_no_sample_in_common(self):
        """node_exporter reads all files of its folder as one."""
        sweep, links = (self.values(self.written("comparison.json", COMPARISON | {"program": name}))
                        for name in ("zpp_sweep", "zpp_fabric"))
        self.assertEqual(set(sweep) & set(links), set())
        gates = [self.values(self.written("gate.json", GATE | {"baseline": name}))
                 for name in ("train.json", "train-gpu.json")]
        self.assertEqual(set(gates[0]) & set(gates[1]), set())

    def test_labels_are_added_and_escaped(self):
        values = self.values(self.files()[3], "--label", "cluster=a")
        self.assertTrue(all(("cluster", "a") in labels for _, labels in values))
        [labels] = [dict(labels) for name, labels in values if name == "zeropp_comparison_time_ratio"]
        self.assertEqual(labels["row"], 'a "row"\\')

    def test_a_file_takes_its_name_when_it_is_whole(self):
        output = self.folder / "metrics.prom"
        output.write_text("before")
        self.run_it(self.written("broken.json", {"schema": "zeropp-sweep"}), "--output", output, code=2)
        self.assertEqual(output.read_text(), "before")
        before = output.stat().st_ino
        self.run_it(SWEEP, "--output", output)
        self.assertNotEqual(output.stat().st_ino, before)
        self.assertEqual(output.read_text(), self.run_it(SWEEP).stdout)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["broken.json", "metrics.prom"])
        self.assertEqual(output.stat().st_mode & 0o777, 0o644)

    def test_what_is_refused(self):
        self.assertIn("ends in .prom", self.run_it(SWEEP, "--output", self.folder / "metrics.txt", code=2).stderr)
        self.assertIn("is there twice", self.run_it(SWEEP, SWEEP, code=2).stderr)
        self.assertIn('no JSON of a program that has metrics: its schema is "zeropp-plan": give that',
                      self.run_it(self.written("other.json", {"schema": "zeropp-plan"}), code=2).stderr)
        old = {name: value for name, value in COMPARISON.items()
               if name not in ("code", "program")} | {"schema_version": "1.0"}
        done = self.run_it(self.written("old.json", old), code=2)
        self.assertRegex(done.stderr, r"^zpp-validate prometheus: error: .*old\.json is of an older zpp-validate "
                         r"compare, schema 1\.0, .*: compare the two files again")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("it is no JSON at line 1, column 1: give", self.run_it(SOURCE / "README.md", code=2).stderr)
        self.assertIn("cannot be read", self.run_it(self.folder / "none.json", code=5).stderr)
        self.assertIn("NAME=VALUE", self.run_it(SWEEP, "--label", "2=a", code=2).stderr)

    def test_the_dashboard_asks_for_metrics_that_exist(self):
        names = {name for name, _ in self.values(*self.files())}
        asked = {name for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]
                 for name in re.findall(r"zeropp_\w+", target["expr"])}
        self.assertGreater(len(asked), 5)
        self.assertEqual(asked - names, set())

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed (Debian package prometheus)")
    def test_promtool_accepts_it(self):
        for path in self.files():
            done = subprocess.run(["promtool", "check", "metrics"], input=self.run_it(path).stdout, capture_output=True,
                                  text=True, check=False)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), path)


if __name__ == "__main__":
    unittest.main()
