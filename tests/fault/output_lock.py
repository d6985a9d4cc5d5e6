# ctest: name=output_lock labels=fault timeout=120
"""Two runs that would write one trace, or save to one folder: the second is refused before its work, in every program
that writes one; neither a crash nor an orderly end leaves a lock."""

import fcntl
import os
import shutil
import signal

import programs
import zpp
from zpp_validate.checkers import checkpoint


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


class SaveLock(zpp.TestCase):
    """Two jobs with one --save, each with a trace of its own."""

    def setUp(self):
        super().setUp()
        self.kept = self.folder / "kept"

    def start_saving(self, seed, *words, environment=None):
        log = [] if "--log-interval" in words else ["--log-interval", 1]
        command = zpp.train_command("--seed", seed, "--save", self.kept, *log, *words,
                                    out=self.folder / f"out-{seed}")
        process = zpp.launch([(1, command)], cwd=self.folder, env=environment, patient=True)
        self.addCleanup(process.stop)
        return process

    def check_one_checkpoint(self, seed, steps, *results):
        """The folder is whole, and of the run with this seed."""
        self.assertEqual(checkpoint.main([str(self.kept)]), zpp.OK, results)
        saved = [entry.name for entry in self.kept.iterdir() if entry.name != ".checkpoints.lock"]
        self.assertEqual(saved, [f"step-{steps:09}"], results)
        again = self.train(1, "--seed", seed, "--train-iters", steps + 1, "--load", self.kept,
                           out=self.folder / "again")
        self.check_ok(again)

    def test_the_second_is_refused_before_its_work(self):
        first = self.start_saving(1, "--train-iters", 1_000_000)
        first.wait_for_line("step 2/")
        result = self.start_saving(2).end()
        self.check_fails(result, zpp.IO, f"cannot save checkpoints to {self.kept}", "process ", "folder of its own")
        first.process.send_signal(signal.SIGUSR1)
        self.assertEqual(first.end().code, zpp.REQUEUE)
        self.assertEqual([entry.name for entry in self.kept.iterdir() if entry.name.startswith(".")], [])

    def test_a_killed_run_is_in_nobodys_way(self):
        killed = self.start_saving(1, "--train-iters", 1_000_000, "--save-interval", 10)
        killed.wait_for_line("step 50/")
        for pid in killed.pids("zpp_train"):
            os.kill(pid, signal.SIGKILL)
        killed.end()
        after = max(int(entry.name[5:]) for entry in self.kept.glob("step-*"))
        result = self.start_saving(1, "--load", self.kept, "--train-iters", after + 5).end()
        self.check_ok(result)
        self.assertEqual([entry.name for entry in self.kept.iterdir() if entry.name.startswith(".")], [])

    def without_locks(self):
        return {"LD_PRELOAD": str(zpp.TEST_BIN / "libfailing_disk.so"), "FAILING_DISK": "locks=ENOLCK",
                "FAILING_DISK_IN": str(self.folder)}

    def test_without_locks_the_same_step_is_not_replaced(self):
        """Both train; the one that saves last ends with code 5, and the checkpoint of the first stays."""
        steps = ["--train-iters", 5000]
        first = self.start_saving(1, *steps, environment=self.without_locks())
        first.wait_for_line("step 2/")
        with first.stopped("zpp_train"):
            second = self.start_saving(2, *steps, environment=self.without_locks())
            second.wait_for_line("step 2/")
        runs = {1: first, 2: second}
        ended = {seed: run.end() for seed, run in runs.items()}
        codes = sorted(result.code for result in ended.values())
        self.assertEqual(codes, [zpp.OK, zpp.IO], "".join(map(str, ended.values())))
        for seed, result in ended.items():
            self.assertIn(f"no file can be locked in {self.kept}", result.stderr)
            if result.code == zpp.IO:
                self.assertEqual(len(result.errors()), 1, result)
                self.assertRegex(result.errors()[0], "another job saves there too|saves there too, or somebody")
            else:
                self.check_one_checkpoint(seed, 5000, *ended.values())

    def test_a_lock_that_was_removed(self):
        """A second run gets a lock of its own: one of both ends when it would save beside the other."""
        steps = ["--train-iters", 2000, "--save-interval", 5, "--log-interval", 20]
        first = self.start_saving(1, *steps)
        first.wait_for_line("step 40/")
        (self.kept / ".checkpoints.lock").unlink()
        with first.stopped("zpp_train"):
            second = self.start_saving(2, "--load", self.kept, *steps)
            second.wait_for_line("  loss ")
        ended = [second.end(), first.end()]
        self.assertIn(zpp.IO, [result.code for result in ended], "".join(map(str, ended)))
        self.assertEqual(checkpoint.main([str(self.kept)]), zpp.OK)


if __name__ == "__main__":
    zpp.main()
