# ctest: name=output_lock labels=fault timeout=120
"""Two runs that would write one trace: the second is refused before its work, in every program that writes one; neither
a crash nor an orderly end leaves a lock."""

import fcntl
import os
import shutil
import signal

import programs
import zpp


class OutputLock(zpp.TestCase):
    def command(self, program):
        words = [*programs.TRACED[program], "--output", self.out]
        return zpp.Process(programs.command(program, *words), cwd=self.folder)

    def check_refused(self, result, program):
        errors = result.errors(f"zpp_{program}")
        self.assertEqual((result.code, len(errors)), (zpp.IO, 1), result)
        self.assertIn(f"cannot write {self.out / program}.h5: ", errors[0])
        self.assertIn("wait until it has ended, or choose another place", errors[0])

    def test_every_program_refuses_what_another_run_writes(self):
        programs.write_inputs(self)
        for program in programs.TRACED:
            with self.subTest(program=program):
                self.out = self.folder / program
                trace = self.out / f"{program}.h5"
                self.assertEqual(self.command(program).end().code, zpp.OK)
                self.assertEqual(zpp.read_trace(trace)[0]["complete"], 1)
                written = trace.read_bytes()
                shutil.rmtree(self.out / "runs", ignore_errors=True)
                self.assertEqual([path.name for path in self.out.iterdir()], [trace.name], "a lock is left")
                with open(self.out / f".{program}.h5.lock", "w", encoding="utf-8") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    self.check_refused(self.command(program).end(), program)
                self.assertEqual(trace.read_bytes(), written)

    def test_two_runs_at_a_time(self):
        """The first ends with its own trace; what is killed is in nobody's way."""
        first = self.start(1, "--train-iters", 1_000_000, "--log-interval", 1)
        first.wait_for_line("step 2/")
        self.check_refused(self.train(1), "train")
        first.process.send_signal(signal.SIGUSR1)
        result = first.end()
        self.assertEqual(result.code, zpp.REQUEUE, result)
        self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
        killed = self.start(1, "--train-iters", 1_000_000, "--log-interval", 1)
        killed.wait_for_line("step 2/")
        for pid in killed.pids("zpp_train"):
            os.kill(pid, signal.SIGKILL)
        self.assertNotEqual(killed.end().code, zpp.OK)
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), [".train.h5.lock", "train.h5"])
        self.check_ok(self.train(1))
        self.assertEqual([path.name for path in self.out.iterdir()], ["train.h5"])

    def test_a_lock_that_is_a_pipe_is_said(self):
        self.out.mkdir()
        os.mkfifo(self.out / ".train.h5.lock")
        result = self.train(1)
        self.assertEqual(result.code, zpp.OK, result)
        self.assertIn("no file can be locked beside", result.stderr)
        self.assertTrue((self.out / ".train.h5.lock").is_fifo())


if __name__ == "__main__":
    zpp.main()
