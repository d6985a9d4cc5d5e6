# ctest: name=slurm_job_scripts timeout=900 labels=slurm,nightly
"""The job scripts on a real Slurm of two nodes on this host (jobscripts/local/two_node_slurm.sh): each ends as it
should; USR1, requeue, scancel; an array with one task killed and resumed; exit codes; odd names of files."""

import contextlib
import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import slurm_cluster
import zpp
from slurm_cluster import CLUSTER, PATIENCE, TINY, cluster, command, job, processes_of, wait_for

ENDLESS = [*TINY[:-4], "--train-iters", "1000000", "--log-interval", "50", "--backend", "host"]
FEATURES = {"none": [], "qwz": ["--zero-quantized-weights"]}
setUpModule = slurm_cluster.start


class Slurm(slurm_cluster.SlurmCase):
    def test_every_script_ends_well(self):
        """One after the other, so that a script waits for none. The others have tests of their own."""
        study = self.study([*TINY[:-4], "--train-iters", "12", "--backend", "host"], {"feature": FEATURES})
        scripts = sorted(path.stem for path in (zpp.SOURCE / "jobscripts").glob("*.sbatch"))
        self.assertEqual(scripts, ["convergence", "fabric", "regression", "scaling", "study", "sweep", "train"])
        for script in ("study", "train", "scaling"):
            with self.subTest(script):
                self.check_ended(self.sbatch(script, study, results=self.folder / script))
                self.assertEqual(command(sys.executable, "jobscripts/study.py", "missing", study, "--results",
                                         self.folder / script).stdout, "")
        array = self.submitted(study)
        for index in range(2):
            self.check_ended(f"{array}_{index}")
        self.assertEqual(self.missing(study), [])
        collected = self.submit(study, "--collect")
        self.assertEqual(collected.returncode, 0, collected)
        with open(self.results / "table.tsv", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t"))
        self.assertEqual([(row["run"], row["verdict"], row["emulated"], row["steps"]) for row in rows],
                         [(f"feature={name}", "VALID", "1", "11") for name in FEATURES])
        for row in rows:
            self.assertGreater(int(row["bytes_inter_node"]), 0)
            self.assertEqual(row["bytes_inter_node"], row["bytes_predicted_inter_node"])

    def test_regression(self):
        """A baseline of two seeds is recorded; the same runs, repeated, pass to the last bit of the parameters. Runs
        with other bytes fail, and so do runs whose times are far from the times of a busy machine."""
        study = self.study([*TINY[:-4], "--train-iters", "12", "--deterministic", "--backend", "host"],
                           {"feature": {"qwz": FEATURES["qwz"]}, "seed": {"1": ["--seed", "1"], "2": ["--seed", "2"]}})
        # The others need more seeds.
        baseline, only = self.folder / "baseline.json", ["--", "--only", "bytes,hash,times"]
        self.gate(study, "COMPLETED", "0:0", "1 rows, 2 seeds", baseline, "--record")
        rows = json.loads(baseline.read_text())

        def changed(change):
            for row in rows["rows"]:
                change(row)
            baseline.write_text(json.dumps(rows))
        changed(lambda row: row.update(times=[100 * time for time in row["times"]]))
        self.gate(study, "COMPLETED", "0:0", ": 0 moved", baseline, flags=only)
        changed(lambda row: row.update(times=[time / 10000 for time in row["times"]]))
        self.gate(study, "FAILED", "1:0", "moved: feature=qwz: time was ", baseline, flags=only)
        changed(lambda row: [of_skips.update(bytes_inter_node=of_skips["bytes_inter_node"] + 16)
                             for of_skips in row["exact"].values()])
        self.gate(study, "FAILED", "1:0", "moved: feature=qwz: bytes_inter_node was ", baseline,
                  flags=["--", "--only", "bytes"])

    def gate(self, study, state, code, text, *words, flags=()):
        """regression.sbatch with a folder of results of its own; its log has `text`."""
        new, self.log = self.folder / f"gate-{len([*self.folder.glob('gate-*')])}", self.folder / "job.log"
        self.log.unlink(missing_ok=True)
        done = command("sbatch", "--parsable", f"--output={self.log}", "jobscripts/regression.sbatch", *words,
                       study, "--system",
                       "two-node-local", "--results", new, *flags)
        self.assertEqual(done.returncode, 0, done)
        self.addCleanup(command, "scancel", done.stdout.strip())
        self.check_ended(done.stdout.strip(), state, code)
        self.assertIn(text, self.log.read_text())

    def test_convergence(self):
        """A small matrix on the job's nodes, judged; the same job again runs nothing anew; too few seeds are
        INVALID."""
        config = {"train_batch_size": 8, "gradient_accumulation_steps": 1,
                  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
                  "zero_optimization": {"stage": 3},
                  "zeropp": {"train_steps": 10, "evaluation_interval": 5, "evaluation_batches": 2,
                             "data": {"source": "markov"},
                             "model": {"name": "gpt", "num_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
                                       "seq_length": 16}}}
        matrix = {"base": config, "seeds": [1, 2, 3, 4, 5], "settings": [
            {"name": "zero3", "level": "markov"},
            {"name": "gradients", "level": "markov", "baseline": "zero3", "gradient_codecs": ["int4:128"]}]}
        nodes = ["--nodes=2", "--ntasks-per-node=2"]
        for seeds, state, code, text in (([1, 2, 3, 4, 5], "COMPLETED", "0:0", "10 to be done"),
                                         ([1, 2, 3, 4, 5], "COMPLETED", "0:0", "0 to be done"),
                                         ([1, 2], "FAILED", "1:0", "has 2 seeds, 5 are needed")):
            path = self.write_json("matrix.json", matrix | {"seeds": seeds})
            self.check_ended(self.sbatch("convergence", path, options=nodes), state, code)
            self.assertIn(text, self.log.read_text())
            self.log.unlink()
        self.assertIn("zero3 < gradients int4:128", (self.results / "chapter.md").read_text())
        with self.subTest("no matrix"):
            self.check_ended(self.sbatch("convergence", "none.json", options=nodes), "FAILED", "2:0")
            self.assertIn("no matrix 'none.json'", self.log.read_text())

    def test_sweep(self):
        """The sweep sees the job's nodes as real nodes. A wrong flag gives the exit code of the job. A signal requeues
        the job, or ends it at the cap, with a trace of the rows done."""
        flags = ["--", "--minbytes", "1K", "--maxbytes", "4K", "--stepfactor", "4", "--max-seconds", "0.01",
                 "--backend", "host",
                 "--codec", "none,int8:256", "--collective", "all_gather,reduce_scatter"]
        self.check_ended(self.sweep(*flags))
        self.assertIn("## all_gather world float, 4 ranks on 2 nodes, out-of-place\n",
                      (self.results / "table.md").read_text())
        self.assertTrue(list(self.results.glob("sweep-all_gather-*-speed-up.png")))
        attributes, _ = zpp.read_trace(self.results / "sweep.h5")
        self.assertEqual((attributes["verdict"], attributes["node_count"], attributes["emulated"]), ("VALID", 2, 0))
        with self.subTest("flags"):
            self.check_ended(self.sweep("--", "--no-such-flag"), "FAILED", "2:0")
            self.check_ended(self.sweep("a-study.json"), "FAILED", "2:0")
            self.assertIn("a sweep has no study", self.log.read_text())
        with self.subTest("signal"):
            many = ["--minbytes", "1K", "--maxbytes", "64M", "--stepbytes", "64", "--iters", "1", "--backend", "host"]
            identity = self.sweep("--max-restarts", 0, "--", *many, "--collective", "all_gather")
            wait_for("a row", lambda: self.log.exists() and " VALID" in self.log.read_text())
            self.assertEqual(command("scancel", "--signal=USR1", "--batch", identity).returncode, 0)
            self.check_ended(identity, "FAILED", "85:0")
            attributes, groups = zpp.read_trace(self.results / "sweep.h5")
            self.assertEqual(attributes["interrupted"], "SIGUSR1")
            self.assertIn("INVALID: interrupted by SIGUSR1", attributes["verdict"])
            self.assertGreater(len(groups["results"]["time"]), 1)

    def test_a_survey_is_compared_with_an_earlier_one(self):
        """The second survey has its comparison and metrics; one that sent other messages cannot be compared."""
        flags = ["--", "--backend", "host", "--fabric-bytes", "64K", "--fabric-threshold", "1000"]
        self.check_ended(self.submitted_with_flags("fabric", *flags))
        before = self.folder / "before.json"
        (self.results / "fabric.json").rename(before)
        collected = self.folder / "zeropp-fabric.prom"
        own = [before, "--threshold", "0.999", "--metrics", collected, "--label", "pair=b"]
        self.submitted_with_flags("fabric", *flags, first=own)
        wait_for("metrics", collected.exists)
        self.assertIn('zeropp_comparison_rows{compared="zpp_fabric",pair="b",verdict="slower"}', collected.read_text())
        self.assertEqual(json.loads((self.results / "comparison.json").read_text())["statistics"]["threshold"], 0.999)
        flags[flags.index("64K")] = "32K"
        self.check_ended(self.submitted_with_flags("fabric", *flags, first=own), "FAILED", "2:0")
        text = collected.read_text()
        self.assertIn("zeropp_fabric_links", text)
        self.assertIn('zeropp_comparison_exit_code{compared="zpp_fabric",pair="b"} 2.0', text)
        self.assertIn('zeropp_success{compared="zpp_fabric",pair="b",program="compare"} 0.0', text)
        earlier = before.read_bytes()
        for name in ("fabric", "comparison"):  # which the job would overwrite
            (self.results / f"{name}.json").write_bytes(earlier)
            self.check_ended(self.submitted_with_flags("fabric", *flags, first=[self.results / f"{name}.json"]),
                             "FAILED", "2:0")
            self.assertIn(f"{name}.json is a file that this job writes, and would be lost", self.log.read_text())
            self.assertEqual((self.results / f"{name}.json").read_bytes(), earlier)
        self.check_ended(self.submitted_with_flags("fabric", first=[before, "--threshold", "3"]), "FAILED", "2:0")
        self.assertIn("--threshold '3' is no share of the time", self.log.read_text())

    def sweep(self, *words):
        return self.submitted_with_flags("sweep", *words)

    def submitted_with_flags(self, script, *words, first=()):
        """Submits a script whose flags follow a -- at the end, and returns the number of its job."""
        self.log = self.folder / "job.log"
        self.log.unlink(missing_ok=True)
        done = command("sbatch", "--parsable", f"--output={self.log}", f"jobscripts/{script}.sbatch", *first,
                       "--system", "two-node-local",
                       "--results", self.results, *words)
        self.assertEqual(done.returncode, 0, done)
        self.addCleanup(command, "scancel", done.stdout.strip())
        return done.stdout.strip()

    def test_user_signal_requeues_until_the_cap(self):
        """The first USR1 brings the job back into the queue, the second, at the cap, ends it with 85."""
        study = self.study(ENDLESS)
        identity = self.sbatch("study", study, "--max-restarts", 1)
        self.started()
        self.assertEqual(command("scancel", "--signal=USR1", "--batch", identity).returncode, 0)
        wait_for("the requeue", lambda: job(identity)[2] == 1)
        attributes, groups = self.trace_of()
        self.assertEqual((attributes["interrupted"], attributes["verdict"]), ("SIGUSR1", "VALID"))
        self.assertEqual(zpp.check_trace(self.results / "runs" / "run" / "train.h5").stdout, "VALID\n")
        wait_for("the restart", lambda: job(identity)[0] == "RUNNING")
        wait_for("its own trace", lambda: not (self.results / "runs" / "run" / "train.h5").exists())
        self.started()
        self.assertEqual(command("scancel", "--signal=USR1", "--batch", identity).returncode, 0)
        self.assertEqual(self.check_ended(identity, "FAILED", "85:0"), 1)
        self.assertIn("not requeued: it was restarted 1 times already", self.log.read_text())
        self.assertEqual(self.missing(study), [["run", "interrupted"]])
        self.assertEqual(self.trace_of()[0]["SLURM_RESTART_COUNT"], "1")

    def test_signal_outside_a_run_requeues(self):
        """USR1 while the job asks what is missing, and at the end of the first of two runs: each brings the job back
        once, and no run is done twice."""
        for at in ("missing", "run"):
            with self.subTest(at):
                self.results = self.folder / at
                study = self.study(TINY, {"feature": FEATURES})
                with self.signal_at(at):
                    identity = self.sbatch("study", study)
                    self.assertEqual(self.check_ended(identity), 1)
                log = self.log.read_text()
                self.log.unlink()
                self.assertEqual(log.count("goes back into the queue (1 of at most 3)"), 1, log)
                for name in FEATURES:
                    self.assertEqual(log.count(f"feature={name}: complete"), 1, log)
                self.assertEqual(self.missing(study), [])

    @contextlib.contextmanager
    def signal_at(self, name):
        """Jobs get a Python that signals the job's shell once, at the end of the first `study.py COMMAND`."""
        python, sent = self.folder / f"python-{name}", self.folder / f"sent-{name}"
        python.write_text(f"""#!/bin/sh
{shlex.quote(sys.executable)} "$@"
code=$?
if [ "$2" = {name} ] && [ ! -e {shlex.quote(str(sent))} ]; then
  : >{shlex.quote(str(sent))}
  kill -USR1 "$(ps -o pgid= -p $$ | tr -d ' ')"  # the leader of the job's processes is its shell
fi
exit $code
""")
        python.chmod(0o755)
        before = os.environ["ZEROPP_PYTHON"]
        os.environ["ZEROPP_PYTHON"] = str(python)
        try:
            yield
        finally:
            os.environ["ZEROPP_PYTHON"] = before

    def test_job_that_may_not_be_requeued(self):
        """Ends with 85, and its log says why."""
        identity = self.sbatch("study", self.study(ENDLESS), options=["--no-requeue"])
        self.started()
        self.assertEqual(command("scancel", "--signal=USR1", "--batch", identity).returncode, 0)
        self.assertEqual(self.check_ended(identity, "FAILED", "85:0"), 0)
        self.assertIn("not requeued: scontrol failed", self.log.read_text())

    def test_two_submits_at_once(self):
        """One of them submits, the other finds it in the queue."""
        study = self.study(TINY, {"feature": FEATURES})
        words = ["jobscripts/submit", study, "--system", "two-node-local", "--results", self.results]
        both = [subprocess.Popen(words, cwd=zpp.SOURCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for _ in range(2)]
        texts = [process.communicate(timeout=PATIENCE) for process in both]
        arrays = "".join(out for out, _ in texts).split()
        for array in arrays:
            self.addCleanup(command, "scancel", array)
        self.assertEqual([process.returncode for process in both], [0, 0], texts)
        self.assertEqual(len(arrays), 1, texts)
        self.assertIn("nothing is missing", "".join(error for _, error in texts))
        for index in range(2):
            self.assertEqual(self.ended(f"{arrays[0]}_{index}")[:2], ("COMPLETED", "0:0"))

    def test_scancel_ends_for_good(self):
        study = self.study(ENDLESS)
        identity = self.sbatch("study", study)
        self.started()
        self.assertEqual(len(self.ranks_of(identity)), 4)
        self.assertEqual(command("scancel", identity).returncode, 0)
        wait_for("the end of all ranks", lambda: not self.ranks_of(identity))
        self.assertEqual(self.ended(identity)[0::2], ("CANCELLED", 0))
        self.assertEqual(len(self.missing(study)), 1)

    def test_array_with_a_killed_task_is_resumed(self):
        """A rank of task 1 dies; the others complete, and submit starts task 1 alone."""
        few, many = ["--train-iters", "4"], ["--train-iters", "400", "--log-interval", "10"]
        study = self.study(TINY[:-4] + ["--backend", "host"], {"steps": {"a": few, "b": many, "c": few}})
        array = self.submitted(study)
        self.started("steps=b", 10)
        task = re.search(r"JobId=(\d+)", command("scontrol", "--oneliner", "show", "job", f"{array}_1").stdout)[1]
        ranks = self.ranks_of(task)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)  # so that it does not end meanwhile
        again = self.submit(study)
        self.assertEqual((again.returncode, again.stdout), (0, ""), again)
        self.assertIn("nothing is missing but what is in the queue: runs ", again.stderr)
        os.kill(ranks[-1], signal.SIGKILL)
        for rank in ranks[:-1]:
            os.kill(rank, signal.SIGCONT)
        state, code, _ = self.ended(f"{array}_1")
        # 137: the code of the killed rank; 3: the code of another rank, which found the killed rank gone and was
        # faster.
        self.assertEqual(state, "FAILED")
        self.assertIn(code, ("137:0", "3:0"))
        for index in (0, 2):
            self.assertEqual(self.ended(f"{array}_{index}")[0], "COMPLETED")
        self.assertEqual([name for name, _ in self.missing(study)], ["steps=b"])
        self.assertEqual(self.submit(study, "--collect").returncode, 1)
        second = self.submitted(study)
        self.assertEqual(self.ended(f"{second}_1")[:2], ("COMPLETED", "0:0"))
        self.assertEqual(job(f"{second}_0")[0], None)  # was not submitted
        self.assertEqual(self.missing(study), [])
        self.assertEqual(self.submit(study, "--collect").returncode, 0)

    def submitted(self, study):
        """The id of the array that submit starts."""
        done = self.submit(study)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, r"^\d+\n$")
        self.addCleanup(command, "scancel", done.stdout.strip())
        return done.stdout.strip()

    def test_exit_codes(self):
        """The exit code of the program is the code of the job; its error line is in the log."""
        absent = self.folder / "absent.txt"
        cases = {"2:0": (["--no-such-flag"], "unknown flag --no-such-flag"),
                 "5:0": (["--data-source", "text", "--data-path", str(absent)], "absent.txt")}
        for code, (flags, text) in cases.items():
            with self.subTest(code):
                study = self.study(TINY + flags)
                self.check_ended(self.sbatch("study", study, results=self.folder / code), "FAILED", code)
                self.assertIn(text, self.log.read_text())
        with self.subTest("no study"):
            self.check_ended(self.sbatch("study", self.folder / "none.json"), "FAILED", "2:0")
            self.assertIn("none.json cannot be read", self.log.read_text())
        with self.subTest("two studies"):
            self.check_ended(self.sbatch("train", self.study(TINY), self.folder / "none.json"), "FAILED", "2:0")
            self.assertIn("one study at a time", self.log.read_text())
        with self.subTest("no system"):
            self.check_ended(self.sbatch("train", "--system", "nowhere", "--system"), "FAILED", "2:0")

    def test_one_failure_does_not_stop_the_rest(self):
        study = self.study(TINY, {"feature": {"wrong": ["--no-such-flag"], "none": []}})
        self.check_ended(self.sbatch("study", study), "FAILED", "2:0")
        self.assertEqual([name for name, _ in self.missing(study)], ["feature=wrong"])

    def test_odd_names(self):
        """Blanks, quotes and a command substitution in the names of study, results and data."""
        odd = "it's \"odd\" $(touch pwned) `touch pwned`; 100%A & done"
        text = self.folder / f"{odd}.txt"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 200)
        self.results = self.folder / odd / "results"
        study = self.study([*TINY, "--data-source", "text", "--data-path", str(text)], name=odd)
        array = self.submitted(study)
        self.assertEqual(self.ended(f"{array}_0")[:2], ("COMPLETED", "0:0"))
        self.assertEqual(self.missing(study), [])
        self.assertEqual([path.name for path in (self.results / "jobs").iterdir()], [f"{array}_0.log"])
        self.assertEqual(self.submit(study, "--collect").returncode, 0)
        self.assertEqual([*zpp.SOURCE.glob("pwned"), *self.folder.rglob("pwned")], [])

    def test_environment_beside_the_results(self):
        os.environ.update(NCCL_TEST_TOKEN="hidden", PRIVATE_THING="private")
        self.addCleanup(os.environ.pop, "NCCL_TEST_TOKEN")
        self.addCleanup(os.environ.pop, "PRIVATE_THING")
        identity = self.sbatch("study", self.study(TINY))
        self.check_ended(identity)
        text = (self.results / "runs" / "run" / "environment.txt").read_text()
        self.assertIn(f"SLURM_JOB_ID='{identity}'\n", text)
        self.assertIn("NCCL_TEST_TOKEN='<redacted>'\n", text)
        self.assertNotIn("hidden", text)
        self.assertNotIn("PRIVATE_THING", text)


class Cluster(zpp.TestCase):
    def test_status_and_second_start(self):
        done = cluster("status")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(f"export SLURM_CONF={slurm_cluster.state}/slurm.conf\n", done.stdout)
        again = cluster("start")
        self.assertEqual(again.returncode, zpp.USAGE, again)
        self.assertIn("runs already", again.stderr)
        self.assertEqual(cluster("run", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(cluster("status").returncode, 0)

    def test_run_stops_what_it_started(self):
        """A second one beside the first; after its end, and after a signal, nothing of it is left."""
        own = self.folder / "own"
        done = command(CLUSTER, "--state", own, "run", "srun", "--nodes=2", "sh", "-c", "exit 7")
        self.assertEqual((done.returncode, own.exists(), processes_of(own)), (7, False, []), done)
        process = subprocess.Popen([CLUSTER, "--state", own, "run", "srun", "--nodes=2", "sh", "-c",
                                    'touch "$0/started.$SLURM_PROCID"; exec sleep 1000', self.folder])
        self.addCleanup(process.kill)
        wait_for("two tasks", lambda: len([*self.folder.glob("started.*")]) == 2)
        self.assertGreater(len(processes_of(own)), 4)
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 130)
        self.assertEqual((own.exists(), processes_of(own)), (False, []))

    def test_usage(self):
        occupied = self.folder / "occupied"
        occupied.mkdir()
        (occupied / "file").touch()
        for words, text in (([], "unknown argument ''"), (["start", "now"], "takes no argument 'now'"),
                            (["run"], "needs a command"),
                            (["--cpus", "many", "start"], "no number of CPUs"),
                            (["--state", occupied, "start"], "holds other files"),
                            (["--state", self.folder / "a b", "start"], "takes no blank"),
                            (["--state", self.folder / "a,b", "start"], "takes no blank"),
                            (["--state"], "needs a value"), (["--state", "", "status"], "needs a value")):
            done = command(CLUSTER, *words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.USAGE, 1), done)
            self.assertIn(text, done.stderr)
        self.assertEqual([path.name for path in occupied.iterdir()], ["file"])


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/systems/two-node-local.sh")
    zpp.main()
