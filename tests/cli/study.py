# ctest: name=study timeout=300 labels=cli,nightly processors=2
"""jobscripts/study.py without a batch system: what a study may say, which runs follow, which are missing, one run under
mpirun with all it leaves, the table; jobscripts/submit --dry-run; the studies and systems that are shipped."""

import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from unittest import mock

import zpp

JOBS = zpp.SOURCE / "jobscripts"
STUDY = JOBS / "study.py"
sys.path.insert(0, str(JOBS))
import study_file
import supervise

TINY = ["--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "2", "--seq-length", "16",
        "--micro-batch-size", "2", "--backend", "host"]
FEATURES = {"none": [], "all": ["--zero-quantized-weights", "--zero-hpz-partition-size", "@RANKS_PER_NODE@",
                                "--zero-quantized-gradients"]}
MINIMAL = {"name": "mine", "app": "zpp_train", "nodes": 2, "ranks_per_node": 2}


class Base(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.results = self.folder / "results"

    def study(self, **keys):
        return self.write_json("mine.json", {**MINIMAL, **keys})

    def call(self, command, study, *words, **options):
        return subprocess.run([sys.executable, STUDY, command, study, "--results", self.results, *map(str, words)],
                              capture_output=True, text=True, timeout=60, **options)

    def run_one(self, study, index, *words):
        return self.call("run", study, index, "--build", zpp.BIN.parent, *words, "--declare-nodes",
                         "--launcher", *zpp.MPIRUN, "-n", "@RANKS@")

    def missing(self, study, *words):
        done = self.call("missing", study, "--why", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return dict(line.split("\t")[1:] for line in done.stdout.splitlines())


class Format(Base):
    def test_every_combination_in_order(self):
        study = self.study(flags=["--seq-length", "16"], axes={
            "feature": FEATURES, "nodes": {"1": {"nodes": 1}, "4": {"nodes": 4, "ranks_per_node": 1}},
            "seed": {"1": ["--seed", "1"], "2": {"flags": ["--seed", "2"]}}})
        runs = json.loads(self.call("list", study, "--json").stdout)
        self.assertEqual([run["index"] for run in runs], list(range(8)))
        self.assertEqual([run["name"] for run in runs[:3]],
                         ["feature=none,nodes=1,seed=1", "feature=none,nodes=1,seed=2",
                          "feature=none,nodes=4,seed=1"])
        last = runs[-1]
        self.assertEqual((last["nodes"], last["ranks_per_node"]), (4, 1))
        self.assertEqual(last["command"][1:], ["--seq-length", "16", "--zero-quantized-weights",
                                               "--zero-hpz-partition-size",
                                               "1", "--zero-quantized-gradients", "--seed", "2", "--output",
                                               str(self.results / "runs" / last["name"])])
        self.assertEqual(self.call("list", study).stdout.splitlines()[5], "5\tfeature=all,nodes=1,seed=2\t1\t2")
        self.assertEqual(self.call("name", study).stdout, "mine\n")

    def test_arrays_leave_out(self):
        study = self.study(axes={"seed": {str(seed): ["--seed", str(seed)] for seed in range(7)}})
        self.assertEqual(self.call("missing", study, "--arrays", "--except", "1,3").stdout, "2\t2\t64\t0,2,4-6\n")

    def test_without_axes_there_is_one_run(self):
        self.assertEqual(self.call("list", self.study()).stdout, "0\trun\t2\t2\n")

    def test_network_is_for_runners_that_provide_it(self):
        """Keys of the study and of an axis are joined; a runner that cannot do it refuses."""
        study = self.study(network={"rate": "1gbit", "delay": "1ms"}, axes={
            "rate": {"slow": {"flags": ["--seed", "2"], "network": {"rate": "100mbit"}}, "default": []}})
        runs = json.loads(self.call("list", study, "--json").stdout)
        self.assertEqual([run["environment"] for run in runs],
                         [{"network": {"rate": "100mbit", "delay": "1ms"}},
                          {"network": {"rate": "1gbit", "delay": "1ms"}}])
        for words in (["run", study, 0], ["missing", study, "--arrays"]):
            done = self.call(*words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.USAGE, 1), done)
            self.assertIn("rate=slow needs network", done.stderr)
        done = self.call("run", study, 0, "--provides", "network", "--dry-run", "--launcher", "mpirun", "-n", "@RANKS@")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(shlex.split(done.stdout)[:3], ["mpirun", "-n", "4"])

    def test_what_is_refused(self):
        two = {"a": {"1": {"nodes": 1}}, "b": {"2": {"nodes": 2}}}
        rates = {"a": {"1": {"network": {"rate": "1"}}}, "b": {"2": {"network": {"rate": "2"}}}}
        for keys, text in (
                ({"axis": {}}, "did you mean 'axes'?"), ({"name": "a b"}, "is no name"),
            ({"name": "../x"}, "is no name"),
                ({"name": ".hidden"}, "is no name"), ({"app": "zpp_sweep"}, "app is one of zpp_train"),
                ({"nodes": 0}, "at least 1"), ({"nodes": True}, "whole number"), ({"nodes": "2"}, "whole number"),
                ({"ranks_per_node": 1.5}, "whole number"), ({"time_limit": 0}, "at least 1"),
            ({"warmup": -1}, "at least 0"), ({"save_interval": -1}, "at least 0"),
                ({"save_interval": "2"}, "whole number"), ({"flags": ["--save", "x"]}, "remove it"),
            ({"flags": ["--load=x"]}, "remove it"),
                ({"flags": "--seed 1"}, "a list of words"), ({"flags": ["--seed", 1]}, "quote 1"),
                ({"flags": ["--output", "x"]}, "remove it"), ({"flags": ["--node-size=2"]}, "remove it"),
                ({"flags": ["@NODE@"]}, "unknown placeholder @NODE@"), ({"flags": ["a\0b"]}, "NUL"),
                ({"axes": []}, "should be an object"), ({"axes": {"a": {}}}, "has no value"),
                ({"axes": {"a": {"x/y": []}}}, "is no name"), ({"axes": {"a,b": {"x": []}}}, "is no name"),
                ({"axes": {"a": {"x": "--seed"}}}, "a list of flags, or an object"),
                ({"axes": {"a": {"x": {"flag": []}}}}, "did you mean 'flags'?"), ({"axes": two}, "both set nodes"),
                ({"axes": rates}, "both set network.rate"), ({"network": "slow"}, "an object"),
                ({"axes": {f"{letter * 60}": {"v" * 60: []} for letter in "ab"}}, "longer than 200"),
                ({"description": 1}, "description is a text"), ({"nodes": 10**300}, "at most"),
                ({"ranks_per_node": 10**300}, "at most"), ({"time_limit": 10**400}, "at most"),
            ({"warmup": 10**300}, "at most"),
                ({"axes": {axis: {str(value): [] for value in range(100)} for axis in "abcd"}},
                 "combine to 100000000 runs"),
                ({"network": {"rate": float("nan")}}, "NaN is no number of JSON"),
                ({"flags": ["\ud800"]}, "is no JSON"), ({"description": "\ud800"}, "is no JSON")):
            with self.subTest(text, keys=keys):
                self.check_refused(self.study(**keys), text)
        for text, part in (("{", "is no JSON"), ('{"name": "a", "name": "b"}', "'name' is there twice"),
                           ("[]", "an object"),
                           ("[" * 100000, "nested too deep"),
                           ('{"name": "a"}', "the key 'app' is missing")):
            with self.subTest(part):
                self.check_refused(self.write_json("mine.json", text), part)
        self.check_refused(self.folder / "none.json", "cannot be read")
        self.check_refused(self.study(), "no run 1", "run", 1)
        self.check_refused(self.study(flags=["--config", "none.json"]), "--config none.json cannot be read", "run", 0)

    def check_refused(self, study, text, command="list", *words):
        done = self.call(command, study, *words)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (zpp.USAGE, "", 1), done)
        self.assertTrue(done.stderr.startswith("study: error: "), done)
        self.assertIn(text, done.stderr)


class Runs(Base):
    def test_run_resume_collect(self):
        study = self.study(flags=[*TINY, "--train-iters", "4", "--deterministic"], axes={"feature": FEATURES})
        self.assertEqual(self.missing(study), {"feature=none": "not started", "feature=all": "not started"})
        self.assertEqual(self.call("missing", study, "--arrays").stdout, "2\t2\t64\t0-1\n")
        for index in (0, 1):
            done = self.run_one(study, index)
            self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.missing(study), {})
        place = self.results / "runs" / "feature=all"
        self.assertEqual(sorted(path.name for path in place.iterdir()),
                         ["environment.txt", "output.log", "run.json", "train.h5"])
        record = json.loads((place / "run.json").read_text())
        self.assertEqual((record["exit"], record["run"]["nodes"], record["run"]["environment"]), (0, 2, {}))
        before = (place / "train.h5").stat()
        again = self.run_one(study, 1)
        self.assertEqual((again.returncode, again.stdout), (0, "feature=all: complete\n"), again)
        self.assertEqual((place / "train.h5").stat().st_ino, before.st_ino)
        self.check_table(study)
        self.check_what_makes_a_run_missing(study, place)

    def check_table(self, study):
        done = self.call("collect", study, "--output", self.folder / "table")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual(sorted(path.name for path in (self.folder / "table").iterdir()),
                         ["plot.png", "plot.svg", "table.md", "table.tsv"])
        self.assertEqual((self.folder / "table" / "table.md").read_text(), done.stdout)
        with open(self.folder / "table" / "table.tsv", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t"))
        for row in rows:
            attributes, groups = zpp.read_trace(self.results / "runs" / row["run"] / "train.h5")
            steps = groups["steps"]
            self.assertEqual(float(row["loss"]), steps["loss"][-1])
            self.assertEqual(float(row["step_median_s"]), sorted(steps["time"][1:])[1])
            self.assertEqual(int(row["bytes_inter_node"]), steps["bytes_inter_node"][-1])
            self.assertEqual(int(row["bytes_predicted_intra_node"]), steps["bytes_predicted_intra_node"][-1])
            self.assertEqual((row["parameters_hash"], row["verdict"], row["steps"], row["feature"]),
                             (attributes["parameters_hash"], "VALID", "3", row["run"].removeprefix("feature=")))
        self.assertLess(int(rows[1]["bytes_inter_node"]), int(rows[0]["bytes_inter_node"]))

    def check_what_makes_a_run_missing(self, study, place):
        trace = (place / "train.h5").read_bytes()
        (place / "train.h5").write_bytes(trace[:len(trace) // 2])
        self.assertIn("INVALID: cannot be read", self.missing(study)["feature=all"])
        done = self.call("collect", study)
        self.assertEqual(done.returncode, zpp.INVALID, done)
        self.assertIn("feature=all (INVALID", done.stderr)
        (place / "train.h5").unlink()
        self.assertEqual(self.missing(study), {"feature=all": "no trace, exit code 0"})
        (place / "train.h5").write_bytes(trace)
        self.assertEqual(self.missing(study), {})
        other = self.results / "runs" / "feature=none" / "train.h5"
        (place / "train.h5").write_bytes(other.read_bytes())
        self.assertEqual(self.missing(study), {"feature=all": "the trace is of another command"})
        (place / "train.h5").write_bytes(trace)
        changed = self.study(flags=[*TINY, "--train-iters", "5", "--deterministic"], axes={"feature": FEATURES})
        self.assertEqual(set(self.missing(changed).values()), {"the study has changed since it ran"})

    def test_edited_configuration_runs_again(self):
        config = self.write_json("config.json", {"zeropp": {"seed": 1, "train_steps": 2}})
        study = self.study(flags=[*TINY, "--config", str(config)], warmup=0)
        self.assertEqual(self.run_one(study, 0).returncode, 0)
        self.assertEqual(self.missing(study), {})
        self.write_json("config.json", {"zeropp": {"seed": 2, "train_steps": 2}})
        self.assertEqual(self.missing(study), {"run": "the study has changed since it ran"})

    def test_checkpoints(self):
        """A run that was cut off resumes from its checkpoint, but not from a checkpoint of other flags."""
        def run(seed):
            self.assertEqual(self.run_one(self.study(flags=[*TINY, "--train-iters", "4", "--seed", seed],
                                                     save_interval=2), 0).returncode, 0)
            return zpp.read_trace(self.results / "runs" / "run" / "train.h5")[0]["first_step"]
        kept = self.results / "runs" / "run" / "checkpoints"
        self.assertEqual(run("1"), 0)
        self.assertEqual(sorted(path.name for path in kept.iterdir()), ["step-000000002", "step-000000004"])
        (kept.parent / "train.h5").unlink()
        shutil.rmtree(kept / "step-000000004")
        self.assertEqual(run("1"), 2)
        self.assertEqual(run("2"), 0)

    def test_another_layout_is_not_the_run(self):
        """mpirun on one host without --declare-nodes finds one node."""
        study = self.study(flags=[*TINY, "--train-iters", "2"])
        done = self.call("run", study, 0, "--build", zpp.BIN.parent, "--launcher", *zpp.MPIRUN, "-n", "@RANKS@")
        self.assertEqual(done.returncode, zpp.INVALID, done)
        self.assertIn("ran on 1 nodes with 4 ranks in all, not on 2 with 4", done.stderr)

    def test_failures(self):
        done = self.run_one(self.study(flags=[*TINY, "--train-iters", "0x"]), 0)
        self.assertEqual(done.returncode, zpp.USAGE, done)
        self.assertIn("zpp_train: error: ", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done)
        done = self.call("run", self.study(), 0, "--build", self.folder, "--launcher")
        self.assertEqual(done.returncode, zpp.USAGE, done)
        self.assertIn("no program", done.stderr)

    def test_what_cannot_be_started(self):
        done = self.call("run", self.study(), 0, "--launcher", self.folder)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.USAGE, 1), done)
        self.assertIn(f"no program {self.folder} (Permission denied)", done.stderr)

    @zpp.unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "mounts need root")
    def test_full_disk(self):
        """The record is refused with the file's name; a table that does not fit leaves the one before it."""
        study = self.study(flags=[*TINY, "--train-iters", "2"], axes={"feature": FEATURES})
        self.results.mkdir()
        words = [sys.executable, STUDY, "run", study, "0", "--results", self.results, "--launcher", "true"]
        done = self.on_full_disk("", *words)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.IO, 1), done)
        self.assertIn("run.json: No space left on device", done.stderr)
        self.assertEqual(done.stdout, f"{self.results}/fill\n")
        done = self.on_full_disk(f"echo before >{shlex.quote(str(self.results))}/table.md", sys.executable,
                                 STUDY, "collect",
                                 study, "--results", self.results)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.IO, 1), done)
        self.assertIn("table.md: No space left on device", done.stderr)
        self.assertEqual(done.stdout.splitlines()[-2:], [f"{self.results}/fill", f"{self.results}/table.md"])
        self.assertIn("before", done.stdout.splitlines())

    def on_full_disk(self, first, *words):
        """Runs it with the results on a full tmpfs, then prints its tables and the names of its files."""
        script = ('results=$1; shift; mount -t tmpfs -o size=16m tmpfs "$results" || exit 77; ' + (first or ":") + '; '
                  'cat /dev/zero >"$results/fill" 2>/dev/null; code=0; "$@" || code=$?; cat "$results"/*.md '
                  '2>/dev/null; '
                  'find "$results" -type f | sort; exit $code')
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *map(str, (self.results, *words))],
                              capture_output=True, text=True, timeout=60)
        if done.returncode == zpp.SKIPPED or done.stderr.startswith("unshare:"):
            self.skipTest(f"cannot mount: {done.stderr}")
        return done

    def test_time_limit(self):
        begin = time.monotonic()
        done = self.run_one(self.study(flags=[*TINY, "--train-iters", "10000000"], time_limit=3), 0)
        self.assertEqual(done.returncode, 124, done)
        self.assertRegex(done.stderr, r"^study: error: run: exit code 124: the study's time_limit of 3 s is over, and "
                         r"the run saves nothing: "
                         r"set a larger time_limit, or save_interval, .*\n$")
        self.assertLess(time.monotonic() - begin, 30)
        self.assertFalse(self.alive(), "a rank is left")

    def test_time_limit_of_a_run_that_saves(self):
        """USR1 asks the run to save; its exit code says that it resumes when it is started again."""
        study = self.study(time_limit=2, save_interval=0)
        for at_usr1, code, text in (("exit 85", zpp.REQUEUE, "and the run saved where it stands: start it again"),
                                    ("exit 3", 124, "and the run did not end when it was asked to save: set a larger "
                                     "time_limit")):
            with self.subTest(at_usr1):
                done = self.call("run", study, 0, "--launcher", "sh",
                                 "-c", f'trap "{at_usr1}" USR1; while :; do sleep 0.1; done')
                self.assertEqual((done.returncode, done.stderr.count("\n")), (code, 1), done)
                self.assertIn(f"exit code {code}: the study's time_limit of 2 s is over, {text} (see ", done.stderr)
        # Minutes: the limit, saving, and the end.
        self.assertEqual(self.call("missing", study, "--arrays").stdout, "2\t2\t6\t0\n")

    def test_signals_reach_the_program(self):
        study = self.study(flags=[*TINY, "--train-iters", "10000000", "--log-interval", "50"])
        process = subprocess.Popen([sys.executable, STUDY, "run", study, "0", "--results", self.results, "--build",
                                    zpp.BIN.parent, "--declare-nodes", "--launcher", *zpp.MPIRUN, "-n", "@RANKS@"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        log = self.results / "runs" / "run" / "output.log"
        end = time.monotonic() + 60
        while not (log.exists() and "step 50/" in log.read_text()):
            self.assertLess(time.monotonic(), end, "does not start")
            time.sleep(0.05)
        process.send_signal(signal.SIGUSR1)
        _, error = process.communicate(timeout=30)
        self.assertEqual(process.returncode, zpp.REQUEUE, error)
        self.assertEqual(self.missing(study), {"run": "interrupted"})
        self.assertEqual(zpp.check_trace(self.results / "runs" / "run" / "train.h5").stdout, "VALID\n")

    def alive(self):
        """Processes that write into this test's folder."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.results).encode() in (entry / "cmdline").read_bytes():
                    return True
            except OSError:
                pass
        return False


class Supervised(Base):
    """supervise.py with commands that do not end as they should."""

    def supervise(self, script, limit=60, saves=False):
        return supervise.supervise(["sh", "-c", script, "sh", self.folder], self.folder, self.folder / "log",
                                   limit, saves)[0]

    def test_what_a_command_leaves_behind_is_ended(self):
        self.assertEqual(self.supervise('sleep 1000 & echo $! >"$1/pid"; exit 7'), 7)
        self.check_gone((self.folder / "pid").read_text().strip())

    def test_command_that_ignores_the_end_of_its_time(self):
        pid, wait = self.folder / "pid", supervise.wait

        def once_it_ignores(child, *words):
            self.wait_until(lambda: pid.exists() and pid.read_text())
            return wait(child, *words)

        for saves in (False, True):
            pid.unlink(missing_ok=True)
            with mock.patch.multiple(supervise, GRACE=0.5, SAVING=0.5, wait=once_it_ignores):
                self.assertEqual(self.supervise('trap "" TERM USR1; echo $$ >"$1/pid"; while :; do sleep 0.1; done',
                                                0.5, saves), 124)
            self.check_gone(pid.read_text().strip())

    def test_a_kill_ends_the_command(self):
        """Nothing of a run is left where study.py itself is killed."""
        pid = self.folder / "pid"
        words = ["--launcher", "sh", "-c", f'echo $$ >{shlex.quote(str(pid))}.new; mv {shlex.quote(str(pid))}.new '
                 f'{shlex.quote(str(pid))}; exec sleep 1000']
        process = subprocess.Popen([sys.executable, JOBS / "study.py", "run", self.study(), "0",
                                    "--results", self.results, *words],
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        self.wait_until(pid.exists)
        process.kill()
        process.wait(20)
        stat = pathlib.Path("/proc") / pid.read_text().strip() / "stat"
        self.wait_until(lambda: not stat.exists() or stat.read_text().split(") ")[1][0] == "Z")

    def wait_until(self, ask):
        end = time.monotonic() + 20
        while not ask():
            self.assertLess(time.monotonic(), end, "not within 20 s")
            time.sleep(0.02)

    def test_signal_before_the_command_is_there(self):
        start = subprocess.Popen

        def signalled(*words, **options):
            os.kill(os.getpid(), signal.SIGUSR1)
            return start(*words, **options)

        with mock.patch.object(supervise.subprocess, "Popen", signalled):
            self.assertEqual(self.supervise("exec sleep 60"), 128 + signal.SIGUSR1)

    def check_gone(self, pid):
        """Ended; a process that init has not yet collected is a zombie."""
        end = time.monotonic() + 10
        while True:
            try:
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return
            except (FileNotFoundError, ProcessLookupError):
                return
            self.assertLess(time.monotonic(), end, f"process {pid} is left")
            time.sleep(0.05)


class Shipped(Base):
    def test_studies(self):
        """Each flag of each run exists, and each study is named as its file."""
        text = subprocess.run([zpp.TRAIN, "--help-all"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"--[a-z][a-z0-9-]*", text))
        known |= {f"--no-{flag[2:]}" for flag in known}
        studies = [path for path in (zpp.SOURCE / "inputs" / "studies").glob("*.json")
                   if "app" in json.loads(path.read_text())]
        self.assertGreaterEqual(len(studies), 4)
        for path in studies:
            study = study_file.load(path)
            self.assertEqual(study.name, path.stem)
            for run in study.runs:
                run.identity()  # its configuration is there
                self.assertEqual([flag for flag in run.flags if flag.startswith("--") and flag not in known], [])

    def test_systems(self):
        """Each file sets what the scripts read. Modules are a stub here."""
        systems = sorted(path.stem for path in (JOBS / "systems").glob("*.sh"))
        self.assertGreaterEqual(set(systems), {"generic", "generic-gpu", "two-node-local"})
        script = ('module() { :; }; source "jobscripts/systems/$1.sh"; printf "%s\\n" "$build" "$python" '
                  '"${launcher[*]}" "${#container[@]}"')
        for name in systems:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script, "bash", name], cwd=zpp.SOURCE, text=True,
                                  capture_output=True, env={**os.environ, "ZEROPP_CONTAINER": "image.sif"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            for word in ("@NODES@", "@RANKS@", "@RANKS_PER_NODE@", "--kill-on-bad-exit=0"):
                self.assertIn(word, done.stdout.splitlines()[2], name)

    def submit(self, *words, **environment):
        return subprocess.run([JOBS / "submit", *map(str, words)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "ZEROPP_PYTHON": sys.executable, "ZEROPP_BUILD": str(zpp.BIN.parent),
                                   **environment})

    def test_submit_without_an_answer_of_the_queue(self):
        """A run that may be in the queue already is not submitted again."""
        programs = self.folder / "programs"
        programs.mkdir()
        for name, text in (("squeue", "echo no answer >&2; exit 1"), ("sbatch", "echo 7")):
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        words, path = (self.study(), "--results", self.results), f"{programs}:{os.environ['PATH']}"
        first = self.submit(*words, PATH=path)
        self.assertEqual((first.returncode, first.stdout, first.stderr), (0, "7\n", ""), first)
        again = self.submit(*words, PATH=path)
        self.assertEqual((again.returncode, again.stdout, again.stderr), (1, "", "no answer\n"), again)

    def test_submit_knows_its_arrays_by_id_and_name(self):
        """An array of the same id, of a Slurm that counts from 1 again, is none of its own."""
        programs, queue = self.folder / "programs", self.folder / "queue"
        programs.mkdir()
        shell = {"sbatch": 'for word in "$@"; do case $word in --job-name=*) echo "7 0 ${word#*=}" >"$0.name"; esac; '
                 'done; echo 7',
                 "squeue": f'cat {shlex.quote(str(queue))}'}
        for name, text in shell.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        words, path = (self.study(), "--results", self.results), f"{programs}:{os.environ['PATH']}"
        queue.write_text("")
        self.assertEqual(self.submit(*words, PATH=path).stdout, "7\n")
        queue.write_text((programs / "sbatch.name").read_text())
        again = self.submit(*words, PATH=path)
        self.assertEqual((again.returncode, again.stdout), (0, ""), again)
        self.assertIn("nothing is missing but what is in the queue: runs 0", again.stderr)
        queue.write_text("7 0 zeropp-study-20200101T000000.000000000\n")
        self.assertEqual(self.submit(*words, PATH=path).stdout, "7\n")

    def test_submit_dry_run(self):
        study = self.study(axes={"nodes": {"1": {"nodes": 1}, "2": []}, "seed": {"1": [], "2": []}}, time_limit=600)
        done = self.submit(study, "--results", self.results, "--system", "generic-gpu", "--parallel", 3, "--dry-run",
                           "--", "--account", "my own $(account)")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        lines = done.stdout.splitlines()
        tasks = [re.fullmatch(r"# task (\d+) runs: (srun .*)", line).groups() for line in lines[1::2]]
        self.assertEqual([index for index, _ in tasks], ["0", "2"])
        for nodes, (index, line) in enumerate(tasks, 1):
            words = shlex.split(line)
            program = words.index(str(zpp.BIN / "zpp_train"))
            self.assertLessEqual({"--mpi=pmix", f"--nodes={nodes}", f"--ntasks={2 * nodes}", "--ntasks-per-node=2",
                                  "--gpu-bind=none"}, set(words[1:program]))
            self.assertEqual(words[program + 1:], ["--output", f"{self.results}/runs/nodes={nodes},seed=1"])
        commands = [shlex.split(line) for line in lines[::2]]
        for command in commands:
            self.assertRegex(command.pop(7), r"^--job-name=zeropp-mine-\d{8}T\d{6}\.\d{9}$")
        self.assertEqual([command[2:9] for command in commands],
                         [[f"--array={array}%3", f"--nodes={nodes}", "--ntasks-per-node=2", "--time=14",
                           f"--output={self.results}/jobs/%A_%a.log", "--gpus-per-node=2", "--account"]
                          for array, nodes in (("0-1", 1), ("2-3", 2))])
        self.assertEqual(commands[0][9], "my own $(account)")
        self.assertFalse(self.results.exists())

    def test_a_system_of_another_site(self):
        """Without its modules its commands are shown, and nothing is submitted."""
        words = [self.study(), "--results", self.results, "--system", "perlmutter"]
        done = self.submit(*words, "--dry-run")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIn("--constraint=gpu", done.stdout)
        self.assertIn("# task 0 runs: srun ", done.stdout)
        done = self.submit(*words)
        self.assertEqual((done.returncode, done.stdout), (zpp.USAGE, ""), done)
        self.assertEqual(done.stderr, "submit: error: there is no command 'module' to load PrgEnv-gnu and others: "
                         "start it on the site of --system perlmutter, or name another system\n")

    def test_submit_usage(self):
        study = self.study()
        for words, text in (([], "name a study"), ([study, "--system", "../x"], "no jobscripts/systems"),
                            ([study, "--nodes", 3], "unknown option '--nodes'"),
                            ([study, study], "one study at a time"),
                            ([study, "--parallel", "x"], "no number of runs"), ([study, "--results"], "needs a value"),
                            ([study, "--max-restarts", "9" * 20], "is no number"),
                            ([self.folder / "none.json", "--results", self.results], "cannot be read"),
                            ([study, "--results", f"{self.results}\\"], "takes no backslash")):
            done = self.submit(*words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.USAGE, 1), done)
            self.assertIn(text, done.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["mine.json"])


if __name__ == "__main__":
    zpp.main()
