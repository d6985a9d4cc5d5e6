# ctest: name=reframe_slurm timeout=400 labels=slurm,nightly processors=4
"""jobscripts/reframe on a real Slurm of two nodes on this machine (jobscripts/local/two_node_slurm.sh): sbatch, srun
and PMIx, nodes that nobody declared; and a job that is waiting is cancelled with the checks. Skipped where Slurm or
ReFrame cannot be installed."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import zpp

REFRAME = zpp.SOURCE / "jobscripts" / "reframe" / "run.sh"
SLURM = zpp.SOURCE / "jobscripts" / "local" / "two_node_slurm.sh"
DAEMONS = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


def reframe(*words):
    return [str(word) for word in (REFRAME, "--python", sys.executable, "--build", zpp.BIN.parent, *words)]


class ReframeSlurm(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "output"
        state = tempfile.TemporaryDirectory(prefix="zpp-slurm-")
        self.addCleanup(state.cleanup)
        os.chmod(state.name, 0o755)  # munged wants a socket that all may reach
        self.slurm = [str(SLURM), "--state", str(pathlib.Path(state.name) / "state")]
        self.addCleanup(lambda: subprocess.run([*self.slurm, "stop"], check=True, timeout=120))
        done = subprocess.run([*self.slurm, "start"], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done)
        self.environment = {**os.environ, "SLURM_CONF": done.stdout.split("SLURM_CONF=")[1].strip()}

    def command(self, *words):
        return reframe("--system", "two-node-slurm", "--output", self.output, *words)

    def jobs(self):
        done = subprocess.run(["squeue", "--noheader", "--format=%T"], env=self.environment, capture_output=True,
                              text=True,
                              timeout=60, check=True)
        return done.stdout.split()

    def test_every_check_passes(self):
        done = subprocess.run(self.command(), env=self.environment, capture_output=True, text=True, timeout=300,
                              check=False)
        self.assertEqual(done.returncode, 0, done)
        cases = json.loads((self.output / "report.json").read_text())["runs"][0]["testcases"]
        self.assertEqual([case["result"] for case in cases], ["pass"] * 6)
        for case in cases:
            self.assertEqual((case["scheduler"], case["num_tasks"], case["num_tasks_per_node"]), ("squeue", 4, 2))
            summary = json.loads((pathlib.Path(case["outputdir"]) / "summary.json").read_text())
            if case["name"].startswith("ZppTrain"):
                self.assertEqual((summary["node_count"], summary["emulated"]), (2, 0))
                self.assertEqual(summary["SLURM_JOB_ID"], case["jobid"])
                figures = {key.split(":")[-1]: value for key, value in case["perfvalues"].items()}
                self.assertEqual(figures["bytes_across_nodes"][:4], [summary["steps"]["bytes_inter_node"][-1]] * 2
                                 + [0, 0])
                self.assertGreater(figures["bytes_across_nodes"][0], 0)

    def test_a_failed_job_fails(self):
        missing = self.folder / "none.json"
        done = subprocess.run(self.command("--", "-n", "features=none", "-S", f"ZppTrain.config={missing}"),
                              env=self.environment, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("none.json", done.stdout)

    def test_cancels_its_jobs(self):
        """Told to end while its job waits for the nodes."""
        subprocess.run(["sbatch", "--nodes=2", "--exclusive", "--output=/dev/null", "--chdir", self.folder,
                        "--wrap", "sleep 600"],
                       env=self.environment, check=True, capture_output=True, timeout=60)
        self.wait(lambda: self.jobs() == ["RUNNING"], "the nodes are taken")
        process = subprocess.Popen(self.command("--", "-n", "features=none"), env=self.environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        self.wait(lambda: "PENDING" in self.jobs(), "the check's job waits")
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=60), 0)
        self.wait(lambda: "PENDING" not in self.jobs(), "the check's job is cancelled")

    def wait(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, f"a minute passes before {what}")
            time.sleep(0.1)


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/reframe")
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if not shutil.which(name, path=DAEMONS)]
    if missing:
        print(f"skipped: Slurm is not installed: no {', '.join(missing)}")
        sys.exit(zpp.SKIPPED)
    available = subprocess.run(reframe("--output", zpp.BIN.parent / "reframe" / "slurm", "--list"), capture_output=True,
                               text=True,
                               timeout=300, check=False)
    if available.returncode == zpp.SKIPPED:
        print(available.stderr)
        sys.exit(zpp.SKIPPED)
    zpp.main()
