# ctest: name=signals labels=fault timeout=120 processors=3
"""Ctrl-C and kill: all ranks end at once, one line, no file under the final name."""

import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(os.environ["ZEROPP_SOURCE"]) / "tests" / "support"))
import zpp

DEADLINE = 20  # seconds from the signal to the end


class Signals(zpp.TestCase):
    def running(self, ranks, *words):
        """A run of a million steps, in the midst of them. It prints little: after Ctrl-C the launcher reads
        nothing for a while, and a rank that waits for it to read comes to no end of a step."""
        process = self.start(ranks, "--train-iters", "1000000", "--log-interval", "200", *words)
        process.wait_for_line("step 200/")
        return process

    def check_interrupted(self, result, name):
        self.check_fails(result, zpp.INTERRUPTED, f"interrupted by {name} at step", "nothing was written")

    def test_one_rank_gets_an_interrupt(self):
        for chosen in (0, 2):
            with self.subTest(rank=chosen):
                process = self.running(3)
                os.kill(process.pids("zpp_train")[chosen], signal.SIGINT)
                self.check_interrupted(process.end(DEADLINE), "SIGINT")

    def test_one_process_without_launcher(self):
        for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
            with self.subTest(signal=name):
                command = zpp.train_command("--train-iters", "1000000", "--log-interval", "200", out=self.out)
                process = zpp.Process(command, cwd=self.folder)
                self.addCleanup(process.stop)
                process.wait_for_line("step 200/")
                process.process.send_signal(number)
                self.check_interrupted(process.end(DEADLINE), name)

    def test_control_c_at_the_launcher(self):
        """Open MPI passes SIGINT on as SIGTERM."""
        process = self.running(3)
        os.killpg(process.process.pid, signal.SIGINT)
        result = process.end(DEADLINE)
        self.assertNotEqual(result.code, zpp.OK)
        self.assertEqual(len(result.errors()), 1, result)
        self.assertIn("interrupted by SIG", result.errors()[0])
        self.check_nothing_left(result)

    def test_killed_rank(self):
        process = self.running(3)
        pids = process.pids("zpp_train")
        os.kill(pids[1], signal.SIGKILL)
        result = process.end(DEADLINE)
        self.assertNotEqual(result.code, zpp.OK, result)
        self.check_nothing_left(result)
        self.check_gone(pids)

    def check_gone(self, pids):
        end = time.monotonic() + DEADLINE
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self.assertLess(time.monotonic(), end, "ranks outlive the launcher")
            time.sleep(0.05)


if __name__ == "__main__":
    zpp.main()
