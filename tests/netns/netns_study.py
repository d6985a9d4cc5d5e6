# ctest: name=netns_study timeout=120 labels=netns,nightly processors=2
"""jobscripts/local/netns_study.py: a study over networks runs, is not run again, survives an interruption, and refuses
what it does not know. Skipped where namespaces cannot be made."""

import json
import signal
import subprocess
import sys
import time

import zpp

SCRIPT = [sys.executable, zpp.SOURCE / "jobscripts" / "local" / "netns_study.py"]
STUDY = {"name": "tiny", "description": "Of a test.", "app": "zpp_train", "nodes": 2, "ranks_per_node": 1,
         "flags": ["--num-layers", "2", "--hidden-size", "256", "--num-attention-heads", "4", "--seq-length", "8",
                   "--vocab-size", "512", "--bf16", "--backend", "host", "--train-iters", "6"],
         "axes": {"rate": {"1gbit": {"network": {"rate": "1gbit"}}, "unshaped": {"network": {"rate": "unshaped"}}},
                  "feature": {"flat": ["--all-gather-algorithm", "flat", "--reduce-scatter-algorithm", "flat"]}},
         "time_limit": 60, "warmup": 1}


class NetnsStudy(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.results = self.folder / "a b $(touch broken) it's"
        self.path = self.write_json("tiny study.json", STUDY)

    def start_study(self, *words):
        process = zpp.Process([*SCRIPT, self.path, "--results", self.results, "--build", zpp.BIN.parent, *words])
        self.addCleanup(process.stop)
        return process

    def study(self, *words):
        return self.start_study(*words).end()

    def traces(self):
        return {path: path.stat().st_mtime_ns for path in self.results.glob("runs/*/train.h5")}

    def test_runs_once_and_says_what_it_measured(self):
        result = self.study()
        self.assertEqual(result.code, 0, result)
        before = self.traces()
        self.assertEqual(len(before), 2, result)
        kept = json.loads((self.results / "summaries.json").read_text())
        self.assertEqual([run["rate"] for run in kept["runs"]], ["1gbit", "unshaped"])
        for run in kept["runs"]:
            self.assertEqual((len(run["step_seconds"]), run["emulated"], run["verdict"]), (6, True, "VALID"))
            self.assertGreaterEqual(run["payload_bytes"], run["bytes_across"])
        self.assertEqual(kept["runs"][0]["losses"], kept["runs"][1]["losses"])
        limited, free = (run["step_seconds"][1:] for run in kept["runs"])
        bound = 8 * kept["runs"][0]["bytes_across_a_step"] / 2 / 1e9  # each of the hosts sends half
        self.assertGreater(sum(limited) / 5, 0.95 * bound)
        self.assertLess(min(free), min(limited))  # others only ever lengthen a step
        self.assertIn("2 emulated hosts x 1 ranks", (self.results / "table.md").read_text())
        again = self.study()
        self.assertEqual((again.code, self.traces()), (0, before), again)

    def test_goes_on_after_an_interruption(self):
        process = self.start_study()
        end = time.monotonic() + 30
        while not self.traces():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        process.process.send_signal(signal.SIGTERM)
        result = process.end()
        self.assertEqual(result.code, zpp.INTERRUPTED, result)
        self.assertEqual(self.study().code, 0)
        self.assertEqual(len(self.traces()), 2)

    def test_runs_again_what_was_ended_before_its_interfaces_were_read(self):
        self.assertEqual(self.study().code, 0)
        first, second = self.results.glob("runs/*/counters.json")
        first.unlink()
        second.write_text("")
        before = self.traces()
        result = self.study()
        self.assertEqual(result.code, 0, result)
        self.assertTrue(all(time > before[path] for path, time in self.traces().items()), result)

    def test_repeats_what_was_disturbed(self):
        """Others always take more than nothing; what counts is the run that they disturbed least."""
        self.assertEqual(self.study().code, 0)
        share = lambda: {path.parent.name: json.loads(path.read_text())["others_cpu_share"]
                         for path in self.results.glob("runs/*/counters.json")}
        for path in self.results.glob("runs/*/counters.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "others_cpu_share": 0.99}))
        before = self.traces()
        result = self.study("--rounds", "2", "--busy", "0.98")
        self.assertEqual(result.code, 0, result)
        self.assertTrue(all(value < 0.98 for value in share().values()), share())
        self.assertTrue(all(time > before[path] for path, time in self.traces().items()), result)
        self.assertEqual(sorted(path.name for path in (self.results / "runs").iterdir()), sorted(share()))

    def test_dry_run(self):
        result = self.study("--dry-run")
        self.assertEqual((result.code, result.stdout.count("netns.py")), (0, 2), result)
        result = self.study("--dry-run", "--only", "rate=1gbit")
        self.assertEqual((result.code, result.stdout.count("netns.py"), result.stdout.count("unshaped")),
                         (0, 1, 0), result)
        self.assertFalse(self.results.exists())

    def test_bad_usage(self):
        for network in ({"rate": "fast"}, {"rate": "1gbit", "delay": "1ms"}, {"delay": "1ms"}, {"rate": 7}):
            self.write_json("tiny study.json", {**STUDY, "axes": {"rate": {"x": {"network": network}}}})
            result = self.study()
            self.assertEqual((result.code, len(result.errors("netns_study"))), (zpp.USAGE, 1), result)
            self.assertIn("rate", result.stderr)
        self.write_json("tiny study.json", STUDY)
        for words in (["--only", "rate=2gbit"], ["--only", "unshaped"], ["--rounds", "0"], ["--busy", "2"], ["--frob"],
                      ["--rounds", "x"]):
            result = self.study(*words)
            self.assertEqual((result.code, len(result.errors("netns_study"))), (zpp.USAGE, 1), result)


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/local/netns.py")
    probe = subprocess.run([sys.executable, zpp.SOURCE / "jobscripts" / "local" / "netns.py", "true"],
                           capture_output=True,
                           text=True, timeout=60, check=False)
    if probe.returncode == zpp.SKIPPED:
        print(probe.stderr.strip())
        sys.exit(zpp.SKIPPED)
    zpp.main()
