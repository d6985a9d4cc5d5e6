# ctest: name=signals labels=fault timeout=300 processors=3
"""Signals. After SIGINT and kill all ranks end at once with one line, and no file has the final name. After SIGUSR1 and
SIGTERM all ranks end at a step boundary with a valid trace of the steps done and exit code 85.
docs/operators/ending.md says what Open MPI's launcher does with signals that it gets itself."""

import os
import pathlib
import signal
import time

import zpp

class Signals(zpp.TestCase):
    def running(self, ranks, *words, env=None):
        """A run of a million steps that has done some of them. It prints little: after Ctrl-C the launcher reads
        nothing for a while, and a rank that waits for the launcher never ends its step."""
        process = self.start(ranks, "--train-iters", "1000000", "--log-interval", "200", *words, env=env)
        process.wait_for_line("step 200/")
        return process

    def check_interrupted(self, result, name):
        self.check_fails(result, zpp.INTERRUPTED, f"interrupted by {name} at step", "nothing was written")

    def test_one_rank_gets_an_interrupt(self):
        for chosen in (0, 2):
            with self.subTest(rank=chosen):
                process = self.running(3)
                os.kill(process.pids("zpp_train")[chosen], signal.SIGINT)
                self.check_interrupted(process.end(), "SIGINT")

    def check_requeue(self, result, name, code=zpp.REQUEUE):
        """One warning, no error, and a valid trace of fewer steps than were asked for."""
        self.assertEqual((result.code, result.errors()), (code, []), result)
        warnings = [line for line in result.stderr.splitlines() if line.startswith("zpp_train: warning: ")]
        self.assertEqual(len(warnings), 1, result)
        attributes, groups = self.trace()
        done = len(groups["steps"]["loss"])
        self.assertIn(f"ended by {name} after {done} of 1000000 steps", warnings[0])
        self.assertGreaterEqual(done, 200)
        self.assertEqual((attributes["interrupted"], attributes["complete"], attributes["verdict"]), (name, 1, "VALID"))
        self.assertEqual(zpp.check_trace(self.out / "train.h5").stdout, "VALID\n")
        self.assertEqual([path.name for path in self.out.iterdir()], ["train.h5"])

    def single(self):
        command = zpp.train_command("--train-iters", "1000000", "--log-interval", "200", "--eval-interval", "90",
                                    "--eval-iters", "1", out=self.out)
        process = zpp.Process(command, cwd=self.folder)
        self.addCleanup(process.stop)
        process.wait_for_line("step 200/")
        return process

    def test_one_process_without_launcher(self):
        process = self.single()
        process.process.send_signal(signal.SIGINT)
        self.check_interrupted(process.end(), "SIGINT")
        for number in (signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal=number.name):
                process = self.single()
                process.process.send_signal(number)
                self.check_requeue(process.end(), number.name)

    def test_an_evaluation_is_cut_off(self):
        """Before the first step an evaluation of all held-out tokens, which would take longer than any test waits;
        between two steps one that takes longer than a step, after whichever the signal comes."""
        process = self.start(2, "--train-iters", 1_000_000, "--eval-interval", 1, "--eval-iters", 100_000_000,
                             "--num-layers", 12, "--hidden-size", 512)
        process.wait_for_line("zpp_train on ")
        process.process.send_signal(signal.SIGUSR1)
        self.check_fails(process.end(), zpp.REQUEUE, "interrupted by SIGUSR1 at step 0 of 1000000",
                         "nothing was written")
        process = self.start(2, "--train-iters", 1_000_000, "--eval-interval", 1, "--eval-iters", 2000,
                             "--log-interval", 1)
        process.wait_for_line("step 2/")
        process.process.send_signal(signal.SIGUSR1)
        result = process.end()
        self.assertEqual((result.code, result.errors()), (zpp.REQUEUE, []), result)
        attributes, groups = self.trace()
        done = len(groups["steps"]["loss"])
        self.assertIn(f"ended by SIGUSR1 after {done} of 1000000 steps", result.stderr)
        self.assertIn(len(groups["evaluations"]["step"]), (done, done + 1))
        self.assertEqual((attributes["interrupted"], attributes["verdict"]), ("SIGUSR1", "VALID"))
        self.assertEqual(zpp.check_trace(self.out / "train.h5").stdout, "VALID\n")

    def test_one_rank_is_asked_to_end(self):
        for chosen, number in ((0, signal.SIGUSR1), (2, signal.SIGTERM)):
            with self.subTest(rank=chosen):
                process = self.running(3)
                os.kill(process.pids("zpp_train")[chosen], number)
                self.check_requeue(process.end(), number.name)

    def test_before_the_first_step(self):
        """A signal may come while the program starts; then there is nothing to save."""
        process = self.start(3, "--train-iters", "1000000")
        end = time.monotonic() + zpp.DEADLINE
        while not process.pids("zpp_train"):
            self.assertLess(time.monotonic(), end, "no rank starts")
        handled = 1 << signal.SIGUSR1 - 1
        first = process.pids("zpp_train")[0]
        while not int(self.status(first, "SigCgt"), 16) & handled:
            self.assertLess(time.monotonic(), end, "no rank handles signals")
        os.kill(first, signal.SIGUSR1)
        result = process.end()
        if (self.out / "train.h5").exists():  # a rank that starts fast has done a step
            self.assertEqual(result.code, zpp.REQUEUE, result)
        else:
            self.check_fails(result, zpp.REQUEUE, "interrupted by SIGUSR1 at step 0 of", "nothing was written")

    def status(self, pid, name):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))

    def test_user_signal_at_the_launcher(self):
        """Open MPI and MPICH pass SIGUSR1 on, and return the code of the ranks."""
        process = self.running(3)
        process.process.send_signal(signal.SIGUSR1)
        self.check_requeue(process.end(), "SIGUSR1")

    def test_control_c_and_termination_at_the_launcher(self):
        """Open MPI passes both on as SIGTERM, kills what still runs a little later, and returns 1."""
        if not zpp.OPEN_MPI:
            self.skipTest("another launcher does otherwise")
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                process = self.running(3, env={"OMPI_MCA_odls_base_sigkill_timeout": "5"})
                os.killpg(process.process.pid, number)
                self.check_requeue(process.end(), "SIGTERM", code=1)

    def test_killed_rank(self):
        process = self.running(3)
        pids = process.pids("zpp_train")
        os.kill(pids[1], signal.SIGKILL)
        result = process.end()
        self.assertNotEqual(result.code, zpp.OK, result)
        self.check_nothing_left(result)
        self.check_gone(pids)

    def check_gone(self, pids):
        end = time.monotonic() + zpp.DEADLINE
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self.assertLess(time.monotonic(), end, "ranks outlive the launcher")
            time.sleep(0.05)


if __name__ == "__main__":
    zpp.main()
