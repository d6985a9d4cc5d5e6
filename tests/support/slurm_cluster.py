"""A real Slurm of two nodes on this host for a test's module (jobscripts/local/two_node_slurm.sh), and jobs on it. The
module has `setUpModule = slurm_cluster.start`; where programs of Slurm lack, its tests are skipped."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import zpp

CLUSTER = zpp.SOURCE / "jobscripts" / "local" / "two_node_slurm.sh"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
PATIENCE = 180  # seconds for anything here: a busy machine takes a minute to end, requeue and start a job
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
TINY = ["--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "2", "--seq-length", "16",
        "--micro-batch-size", "2", "--train-iters", "4", "--backend", "host"]
state = None


def need_programs():
    """Skips the tests where programs of Slurm lack."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        raise unittest.SkipTest(f"no {', '.join(lacking)}: install slurmctld, slurmd, slurm-client, munge")


def start():
    """Starts the cluster, until the end of the module; `state` is its folder."""
    global state
    need_programs()
    folder = tempfile.mkdtemp(prefix="zpp-slurm-")
    state = pathlib.Path(folder) / "state"
    unittest.addModuleCleanup(shutil.rmtree, folder)
    unittest.addModuleCleanup(stop)
    signal.signal(signal.SIGTERM, end_early)
    done = cluster("start")
    assert done.returncode == 0, done
    os.environ.update(SLURM_CONF=str(state / "slurm.conf"), ZEROPP_BUILD=str(zpp.BIN.parent),
                      ZEROPP_PYTHON=sys.executable)


def end_early(number, _):
    """Ends the daemons when the test is asked to end: no daemon outlives it."""
    cluster("stop")
    shutil.rmtree(state.parent, ignore_errors=True)
    os._exit(128 + number)


def cluster(*words):
    return subprocess.run([CLUSTER, "--state", state, *words], capture_output=True, text=True, timeout=PATIENCE)


def stop():
    """Stops the cluster, and nothing is left of it: no process that was told of its configuration, no file."""
    zpp.Ranks.end_all()  # they have the environment of this process
    done = cluster("stop")
    assert done.returncode == 0, done
    assert not state.exists(), list(state.iterdir())
    assert not processes_of(state), [read(f"/proc/{pid}/cmdline") for pid in processes_of(state)]


def processes_of(folder):
    """Processes that were told of a file in `folder`, but this one."""
    return [pid for pid in processes() if pid != os.getpid() and
            f"{folder}/".encode() in read(f"/proc/{pid}/environ") + read(f"/proc/{pid}/cmdline")]


def processes():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def read(path):
    """Bytes of a file of /proc; none where the process ended meanwhile."""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def command(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE,
                          cwd=zpp.SOURCE,
                          **options)


def wait_for(what, ask):
    end = time.monotonic() + PATIENCE
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {PATIENCE} s: {command('squeue').stdout}")
        time.sleep(0.1)


def job(identity):
    """State, exit code, restarts of a job or array task."""
    text = command("scontrol", "--oneliner", "show", "job", identity).stdout
    # A requeued job may have several lines; the first is what it is now.
    found = dict(re.findall(r"(JobState|ExitCode|Restarts)=(\S+)", text.splitlines()[0])) if text else {}
    return found.get("JobState"), found.get("ExitCode"), int(found.get("Restarts", 0))


class SlurmCase(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.results = self.folder / "results"

    def study(self, flags, axes=None, name="study", **keys):
        return self.write_json(f"{name}.json", {"name": "study", "app": "zpp_train", "nodes": 2, "ranks_per_node": 2,
                                                "warmup": 1, "flags": flags, "axes": axes or {}, **keys})

    def sbatch(self, script, *words, options=(), results=None):
        """Submits a script; returns the job's id. Its log is self.log."""
        self.log = self.folder / "job.log"
        done = command("sbatch", "--parsable", f"--output={self.log}", *options, f"jobscripts/{script}.sbatch", *words,
                       "--system", "two-node-local", "--results", results or self.results)
        self.assertEqual(done.returncode, 0, done)
        identity = done.stdout.strip()
        self.addCleanup(self.cancel, identity)
        return identity

    def cancel(self, identity):
        """Cancels a job, and waits for whatever still writes to the test's folder."""
        command("scancel", identity)
        wait_for("the end of the job's processes", lambda: not processes_of(self.folder))

    def ended(self, identity):
        """(state, exit code, restarts) of a job, once it has ended."""
        wait_for(f"job {identity}", lambda: job(identity)[0] in ENDED)
        return job(identity)

    def check_ended(self, identity, state="COMPLETED", code="0:0"):
        found = self.ended(identity)
        self.assertEqual(found[:2], (state, code), self.log.read_text() if self.log.exists() else "no log")
        return found[2]

    def submit(self, study, *words):
        return command("jobscripts/submit", study, "--system", "two-node-local", "--results", self.results, *words)

    def missing(self, study):
        done = command(sys.executable, "jobscripts/study.py", "missing", study, "--results", self.results, "--why")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return [line.split("\t")[1:] for line in done.stdout.splitlines()]

    def started(self, run="run", steps=50):
        """Waits until a run is in the midst of its steps."""
        log = self.results / "runs" / run / "output.log"
        wait_for(f"step {steps} of {run}", lambda: f"step {steps}/" in read(log).decode())

    def trace_of(self, run="run"):
        return zpp.read_trace(self.results / "runs" / run / "train.h5")

    def ranks_of(self, identity):
        """Ranks of a job of this Slurm: another on this host has jobs of the same numbers."""
        own = {f"SLURM_JOB_ID={identity}".encode(), f"SLURM_CONF={state}/slurm.conf".encode()}
        return [pid for pid in processes() if b"zpp_train" in read(f"/proc/{pid}/comm") and
                own <= set(read(f"/proc/{pid}/environ").split(b"\0"))]
