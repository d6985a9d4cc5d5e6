# ctest: name=slurm_checkpoints timeout=600 labels=slurm,nightly
"""Jobs that resume from checkpoints, on a real Slurm of two nodes on this host. After USR1, after TERM and after the
loss of a node they are requeued, and end with the bits of an undisturbed run."""

import functools
import os
import shutil
import signal

import slurm_cluster
import zpp
from slurm_cluster import TINY, command, job, read, wait_for

STEPS = 600  # so many that a run is in the midst of them when it is asked to end
FLAGS = [*TINY[:-4], *zpp.ALL_FEATURES[2:], "--error-feedback", "both", "--backend", "host", "--deterministic",
         "--train-iters", str(STEPS), "--log-interval", "10"]
setUpModule = slurm_cluster.start


@functools.cache
def undisturbed():
    """The hash of the parameters, of ranks under mpirun that are as many on as many nodes."""
    case = zpp.TestCase()
    case.setUp()
    try:
        case.check_ok(case.train(4, *FLAGS, "--node-size", "2"))
        return case.trace()[0]["parameters_hash"]
    finally:
        case.doCleanups()


class Checkpoints(slurm_cluster.SlurmCase):
    def log_of_run(self):
        return read(self.results / "runs" / "run" / "output.log").decode()

    def goes_on(self):
        """Waits until the run does steps after a checkpoint; returns after which step."""
        wait_for("a checkpoint to resume from", lambda: "resuming after step" in self.log_of_run())
        first = int(self.log_of_run().split("resuming after step ")[1].split()[0])
        wait_for("a step after it", lambda: f"/{STEPS}" in self.log_of_run())
        return first

    def check_bits(self, study):
        attributes, groups = self.trace_of()
        self.assertEqual((attributes["verdict"], attributes["parameters_hash"]), ("VALID", undisturbed()))
        self.assertEqual(attributes["first_step"] + len(groups["steps"]["loss"]), STEPS)
        self.assertGreater(attributes["first_step"], 0)
        self.assertEqual(self.missing(study), [])

    def test_asked_to_end_twice(self):
        study = self.study(FLAGS, save_interval=0)
        identity = self.sbatch("study", study)
        self.started(steps=20)
        self.assertEqual(command("scancel", "--signal=USR1", "--batch", identity).returncode, 0)
        wait_for("the requeue", lambda: job(identity)[2] == 1)
        first = self.goes_on()
        self.assertGreaterEqual(first, 20)
        self.assertEqual(command("scancel", "--signal=TERM", "--batch", identity).returncode, 0)
        self.assertEqual(self.check_ended(identity), 2)
        self.check_bits(study)
        self.assertGreaterEqual(self.trace_of()[0]["first_step"], first)
        self.assertTrue((self.results / "runs" / "run" / f"train.before-{first:09}.h5").exists(),
                        "the trace of the first steps is lost")

    def test_time_limit_of_the_study(self):
        """A run that saves is asked to end at its time limit, and its job resumes from there."""
        study = self.study([*FLAGS[:-4], "--train-iters", "1000000", "--log-interval", "50"], save_interval=0,
                           time_limit=20)
        identity = self.sbatch("study", study)
        wait_for("the requeue", lambda: job(identity)[2] == 1)
        wait_for("a checkpoint to resume from", lambda: "resuming after step" in self.log_of_run())
        self.assertEqual(command("scancel", identity).returncode, 0)
        wait_for("the end of all ranks", lambda: not self.ranks_of(identity))
        self.assertIn(b"time_limit of 20 s is over, and the run saved where it stands", read(self.log))

    def take_away(self, node, identity):
        """Stops the node like a loss of power: all its processes stop at once, the controller counts it as down, and
        none of them comes back. The processes stop first: the controller asks the ranks of the other node to end, and
        with the help of this node they would still save a checkpoint."""
        ranks = [pid for pid in self.ranks_of(identity)
                 if f"SLURMD_NODENAME={node}".encode() in read(f"/proc/{pid}/environ").split(b"\0")]
        self.assertEqual(len(ranks), 2)
        parents = {int(read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[1]) for pid in ranks}
        daemon = int(read(slurm_cluster.state / node / "slurmd.pid"))
        gone = (daemon, *parents, *ranks)
        for pid in gone:
            os.kill(pid, signal.SIGSTOP)
        self.assertEqual(command("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test").returncode, 0)
        for pid in gone:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the controller was faster

    def bring_back(self, node):
        """Started anew: what the steps that were killed left in its folders is not there any more. It is up again by
        itself."""
        for name in ("spool", "tmp"):
            shutil.rmtree(slurm_cluster.state / node / name)
            (slurm_cluster.state / node / name).mkdir()
        done = command("slurmd", "-f", slurm_cluster.state / "slurm.conf", "-N", node)
        self.assertEqual(done.returncode, 0, done)

    def test_a_node_taken_away(self):
        study = self.study(FLAGS, save_interval=10)
        identity = self.sbatch("study", study)
        self.started(steps=30)
        self.take_away("zpp2", identity)
        wait_for("the end of all ranks", lambda: not self.ranks_of(identity))
        wait_for("the requeue", lambda: job(identity)[2] == 1)
        self.assertFalse((self.results / "runs" / "run" / "train.h5").exists())
        self.bring_back("zpp2")
        self.assertEqual(self.check_ended(identity), 1)
        self.check_bits(study)
        self.assertEqual(self.trace_of()[0]["first_step"] % 10, 0)


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/systems/two-node-local.sh")
    zpp.main()
