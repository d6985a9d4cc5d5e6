# ctest: name=reframe_checks timeout=400 labels=cli,nightly processors=4
"""jobscripts/reframe: the checks run under ReFrame with its local scheduler, keep the figures of the runs' own
summaries, and fail for a run that is not valid, not complete, too slow, or sends other bytes than follow from its
configuration. Skipped where ReFrame cannot be installed."""

import copy
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import zpp

FOLDER = zpp.SOURCE / "jobscripts" / "reframe"
sys.path.insert(0, str(FOLDER))
from train_summary import TrainSummary

FEATURES = ("none", "qwz", "hpz", "qgz", "all")
INSTALLING = 300  # seconds, of the first run in a tree


def run(*words, env=None):
    return subprocess.run([FOLDER / "run.sh", *map(str, words)], capture_output=True, text=True, timeout=INSTALLING,
                          check=False, env={**os.environ, **(env or {})})


def programs(folder, **replaced):
    """A folder with the programs that were built; `replaced` has the text of a shell script by program."""
    (folder / "bin").mkdir(parents=True)
    for name in ("zpp_train", "zpp_info"):
        path = folder / "bin" / name
        if name in replaced:
            path.write_text(replaced[name])
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        else:
            path.symlink_to(zpp.BIN / name)
    return folder


class ReframeChecks(zpp.TestCase):
    def reframe(self, *words, build=zpp.BIN.parent, check=None):
        """Runs the checks, and returns what ReFrame reports, by name of the check."""
        output = self.folder / "output"
        done = run("--python", sys.executable, "--build", build, "--output", output, *words)
        self.assertEqual(done.returncode, 0 if check is None else check, done)
        report = json.loads((output / "report.json").read_text())
        return {case["name"]: case for case in report["runs"][0]["testcases"]}

    def failed(self, *words, phase, reason, **options):
        """The one check ZppTrain without features fails in `phase`, for `reason`."""
        cases = self.reframe(*words, "--", "-n", "features=none", check=1, **options)
        case = cases["ZppTrain %features=none"]
        self.assertEqual((case["result"], case["fail_phase"]), ("fail", phase), case)
        self.assertRegex(case["fail_reason"], reason)

    def test_every_check_passes(self):
        build = programs(self.folder / "it's a \"build\" $(touch pwned)")
        cases = self.reframe(build=build)
        self.assertEqual(set(cases), {"ZppInfo", *(f"ZppTrain %features={name}" for name in FEATURES)})
        across = {}
        for features in FEATURES:
            case = cases[f"ZppTrain %features={features}"]
            self.assertEqual((case["result"], case["num_tasks"], case["scheduler"]), ("pass", 4, "local"))
            figures = {key.split(":")[-1]: value for key, value in case["perfvalues"].items()}
            self.assertEqual({name: value[4] for name, value in figures.items()},
                             {"step_time": "s", "tokens_per_second_per_rank": "tokens/s", "bytes_across_nodes": "B"})
            summary = json.loads((pathlib.Path(case["outputdir"]) / "summary.json").read_text())
            timed = sorted(summary["steps"]["time"][2:])
            self.assertTrue(timed[0] <= figures["step_time"][0] <= timed[-1])
            across[features] = figures["bytes_across_nodes"][0]
            self.assertEqual(figures["bytes_across_nodes"][:4], [summary["steps"]["bytes_inter_node"][-1]] * 2 + [0, 0])
            zero = summary["config"]["zero_optimization"]
            self.assertEqual([zero["zero_quantized_weights"], zero["zero_hpz_partition_size"] > 1,
                              zero["zero_quantized_gradients"]],
                             [features in (part, "all") for part in ("qwz", "hpz", "qgz")])
        self.assertLess(across["all"], min(across[name] for name in FEATURES[1:4]))
        self.assertGreater(across["none"], max(across[name] for name in FEATURES[1:4]))
        self.assertEqual([path for path in self.folder.rglob("pwned")], [])
        self.assertEqual({path.name for path in (self.folder / "output").iterdir()},
                         {"output", "perflogs", "reframe.log", "report.json", "stage"})

    def test_a_run_that_fails(self):
        build = programs(self.folder / "build", zpp_train="#!/bin/sh\necho broken >&2\nexit 3\n")
        self.failed(build=build, phase="sanity", reason=r"summary\.json|exit")

    def test_a_run_that_sends_other_bytes(self):
        """The run says VALID; the reference is the closed form, not the verdict of the run."""
        build = programs(self.folder / "build", zpp_train="\n".join([
            "#!/bin/sh", f"'{zpp.TRAIN}' \"$@\" || exit $?", "[ \"$OMPI_COMM_WORLD_RANK\" -eq 0 ] || exit 0",
            f"exec '{sys.executable}' -c '" + "; ".join([
                "import json, pathlib", "p = pathlib.Path(\"summary.json\")", "s = json.loads(p.read_text())",
                "s[\"steps\"][\"bytes_inter_node\"][-1] += 16", "p.write_text(json.dumps(s))"]) + "'", ""]))
        self.failed(build=build, phase="performance", reason="bytes_across_nodes")

    def test_a_run_that_is_too_slow(self):
        text = (FOLDER / "settings.py").read_text()
        settings = self.folder / "settings.py"
        settings.write_text(text.replace("[0.5, None, 9.0, \"s\"]", "[1e-9, None, 1.0, \"s\"]"))
        self.assertNotEqual(settings.read_text(), text)
        self.failed("--settings", settings, phase="performance", reason="step_time")

    def test_incomplete_summaries(self):
        path = self.folder / "summary.json"
        self.check_ok(self.train(4, "--node-size", "2", "--train-iters", "5", "--json", path))
        good = json.loads(path.read_text())
        self.assertEqual(TrainSummary(path, 2).problems(2, 2), [])
        self.assertEqual(TrainSummary(path, 2).bytes_across_nodes(), TrainSummary(path, 2).derived_bytes_across_nodes())
        self.assertTrue(TrainSummary(path, 2).problems(1, 4))
        self.assertTrue(TrainSummary(path, 5).problems(2, 2))

        def corrupt(change):
            document = copy.deepcopy(good)
            change(document)
            path.write_text(json.dumps(document))
            return TrainSummary(path, 2).problems(2, 2)

        def lose_a_step(document):
            for column in document["steps"].values():
                column.pop()

        for change, reason in ((lambda d: d.update(verdict="INVALID: bytes"), "verdict is 'INVALID: bytes'"),
                               (lambda d: d.update(schema_version="0.9"), "schema_version"),
                               (lambda d: d.pop("run_id"), "no attribute run_id"),
                               (lambda d: d.pop("collectives"), "no column collectives/"),
                               (lambda d: d["steps"].pop("time_forward"), "no column steps/time_forward"),
                               (lambda d: d["timers"]["seconds"].pop(), "columns of timers"),
                               (lambda d: d["memory"].update({name: [] for name in d["memory"]}), "memory is empty"),
                               (lambda d: d["steps"]["loss"].__setitem__(3, None), "steps/loss is not finite"),
                               (lose_a_step, "4 steps are there, 5")):
            problems = corrupt(change)
            self.assertTrue(any(reason in problem for problem in problems), (reason, problems))

    def test_ends_what_it_started(self):
        marker = f"3600.{os.getpid()}"
        build = programs(self.folder / "build", zpp_train=f"#!/bin/sh\ntouch started\nsleep {marker}\n")
        output = self.folder / "output"
        process = subprocess.Popen([FOLDER / "run.sh", "--python", sys.executable, "--build", build, "--output", output,
                                    "--", "-n", "features=none"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in self.left(marker)])
        self.wait(lambda: list(output.rglob("started")), "the job starts")
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=60), 0)
        self.wait(lambda: not self.left(marker), "its ranks end")

    def wait(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, f"a minute passes before {what}")
            time.sleep(0.05)

    def left(self, marker):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [int(path.parent.name)] if marker in path.read_text(errors="replace") else []
            except OSError:
                pass  # ended meanwhile
        return found

    def test_bad_usage(self):
        for words, code in ((["--frob", "x"], 2), (["--system"], 2), (["word"], 2), (["--settings", "none.py"], 2),
                            (["--output", self.folder / "a b"], 2), (["--build", self.folder], 3)):
            with self.subTest(words):
                done = run(*words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (code, 1), done)
                self.assertTrue(done.stderr.startswith("reframe: error: "), done)

    def test_nothing_passes_unseen(self):
        """A name that fits no check, and a variable that no check has."""
        words = ("--python", sys.executable, "--build", zpp.BIN.parent, "--output", self.folder / "output", "--")
        done = run(*words, "-n", "no_such_check")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("reframe: error: no check ran", done.stderr)
        done = run(*words, "-n", "ZppInfo", "-S", "ranks=4")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("variables were not set: 'ranks'", done.stdout + done.stderr)

    def test_where_nothing_can_be_installed(self):
        done = run("--python", sys.executable, "--venv", self.folder / "venv", "--build", zpp.BIN.parent,
                   "--output", self.folder / "output",
                   env={"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "PIP_RETRIES": "0",
                        "PIP_NO_INDEX": "0", "PIP_FIND_LINKS": ""})
        self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.SKIPPED, 1), done)
        self.assertIn("cannot be reached", done.stderr)
        self.assertFalse((self.folder / "venv").exists())


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/reframe")
    available = run("--python", sys.executable, "--build", zpp.BIN.parent,
                    "--output", zpp.BIN.parent / "reframe" / "local", "--list")
    if available.returncode == zpp.SKIPPED:
        print(available.stderr)
        sys.exit(zpp.SKIPPED)
    zpp.main()
