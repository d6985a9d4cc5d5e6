# ctest: name=file_systems labels=fault,nightly timeout=600 processors=2
"""File systems that know no locks, that are full, that fail or are slow (tests/support/failing_disk.cpp), under every
program that writes: a result, or one line and code 5 with nothing half written. zpp-validate reads a sound file on
each."""

import errno
import os
import shutil

import programs
import zpp
from zpp_validate.checkers import checkpoint

SHIM = str(zpp.TEST_BIN / "libfailing_disk.so")
NO_RING = str(zpp.TEST_BIN / "libno_uring.so")
NO_LOCKS = ["ENOLCK", "ENOSYS", "EACCES", "EOPNOTSUPP"]
# The failing call, and the reason in the message. FAILING: for all writers; FAILING_LATER: for the writer ALONE.
FAILING = {"write=ENOSPC:0": "No space left on device", "sync=EIO": "Input/output error"}
FAILING_LATER = {"write=ENOSPC:4000": "No space left on device", "write=EDQUOT:40000": "Disk quota exceeded",
                 "write=EIO:90000": "Input/output error"}
ALONE = "train --save"
SAVING = [*zpp.TINY, "--save", "kept", "--save-interval", "1", "--gather-weights-on-save"]
# All writers by name: the program, its words, and the files that it leaves, relative to self.folder. --output names the
# folder `out`.
WRITERS = {
    **{name: (name, words, [f"out/{name}.h5"]) for name, words in programs.TRACED.items()},
    **{f"plan {name}": ("plan", [name, *words], ["out/plan.h5"]) for name, words in programs.PLANNED.items()},
    "train --json": ("train", [*zpp.TINY, "--json", "made.json"], ["out/train.h5", "made.json"]),
    "train --save": ("train", SAVING, ["out/train.h5", "kept/step-000000003/model.safetensors"]),
    "fabric --good-hosts": ("fabric", [*programs.TRACED["fabric"], "--good-hosts", "good"], ["out/fabric.h5", "good"]),
    "sweep --json": ("sweep", [*programs.SWEEP, "--json", "made.json"], ["out/sweep.h5", "made.json"]),
}
# Writers without a trace; they have no --output.
OTHERS = {
    "plan savings": ("plan", ["savings", "--table", "--json", "made.json"], ["made.json"]),
    "plan calibrate": ("plan", ["calibrate", "--gpu", "h100", "--node-gbit", "400", "--calibrated", "made.json"],
                       ["made.json"]),
    "info --json": ("info", ["--json", "made.json"], ["made.json"]),
}


class FileSystems(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.inputs = self.folder / "matrix.json"
        programs.write_inputs(self)

    def environment(self, failing, *preloaded):
        return {"LD_PRELOAD": ":".join([SHIM, *preloaded]), "FAILING_DISK": failing,
                "FAILING_DISK_IN": str(self.folder)}

    def run_on(self, failing, program, words, *preloaded, output=True):
        words = [*words, "--output", "out"] if output else words
        return zpp.Process(programs.command(program, *words), cwd=self.folder,
                           env=self.environment(failing, *preloaded)).end()

    def everything(self):
        return [(name, *row, True) for name, row in WRITERS.items()] + [(name, *row, False)
                                                                       for name, row in OTHERS.items()]

    def clean(self):
        for entry in self.folder.iterdir():
            if entry == self.inputs:
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def files(self):
        """All that is there, but the input."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*")
                      if not path.is_dir() and path != self.inputs)

    def check_whole(self, result, left):
        self.assertEqual(result.code, zpp.OK, result)
        for name in left:
            self.assertIn(name, self.files(), result)
        traces = [self.folder / name for name in left if name.endswith(".h5")]
        if traces:
            self.check_accepted(*traces)
        self.assertEqual([name for name in self.files() if name.endswith(".partial")], [])

    def test_no_locks(self):
        """The result of the work is there, and a message says that nothing is locked."""
        for name, program, words, left, output in self.everything():
            for error in NO_LOCKS if name == ALONE else NO_LOCKS[:1]:
                with self.subTest(name, error=error):
                    result = self.run_on(f"locks={error}", program, words, output=output)
                    self.check_whole(result, left)
                    if output:
                        self.assertIn(f"({os.strerror(getattr(errno, error))})", result.stderr)
                    self.clean()

    def test_no_locks_and_an_earlier_trace(self):
        """The earlier trace is recognized as ours and replaced. A setting of HDF5 changes nothing."""
        for setting in ("TRUE", "BEST_EFFORT", "FALSE"):
            environment = {**self.environment("locks=ENOLCK"), "HDF5_USE_FILE_LOCKING": setting}
            for seed in ("3", "4"):
                command = programs.command("train", *zpp.TINY, "--seed", seed, "--output", "out")
                result = zpp.Process(command, cwd=self.folder, env=environment).end()
                self.check_whole(result, ["out/train.h5"])
                self.assertEqual(self.trace()[0]["seed"], int(seed))

    def test_no_locks_where_files_are_read(self):
        self.check_ok(self.train(1))
        self.check_ok(self.train(1, out=self.folder / "other"))
        words = [*zpp.MPIRUN, "-n", "2", zpp.BIN / "zpp_sweep", *programs.SWEEP, "--output", self.out]
        sweep = zpp.Process(words, cwd=self.folder).end()
        self.assertEqual(sweep.code, zpp.OK, sweep)
        trace = self.out / "train.h5"
        for error in NO_LOCKS:
            for setting in (None, "TRUE", "BEST_EFFORT") if error == NO_LOCKS[0] else (None,):
                environment = self.environment(f"locks={error}")
                if setting:
                    environment["HDF5_USE_FILE_LOCKING"] = setting
                readers = (["check", trace], ["summarize", trace], ["report", trace, "--output", "report"])
                for words, result in zip(readers, zpp.side_by_side(
                        lambda words: zpp.Process([*zpp.VALIDATE, *words], env=environment, cwd=self.folder).end(),
                        readers)):
                    with self.subTest(error=error, words=words[0], setting=setting):
                        self.assertEqual(result.code, zpp.OK, result)
                        self.assertNotIn("INVALID", result.stdout)
            command = [zpp.BIN / "zpp_plan", "calibrate", self.out / "sweep.h5", "--gpu", "h100", "--node-gbit", "400",
                       "--calibrated", "made.json"]
            with_locks = zpp.Process(command, cwd=self.folder).end()  # it has read that the sweep is too small
            self.assertIn("at least two sizes", with_locks.stderr)
            result = zpp.Process(command, env=self.environment(f"locks={error}"), cwd=self.folder).end()
            self.assertEqual((result.code, result.stderr), (with_locks.code, with_locks.stderr), result)

    def test_what_fails_leaves_nothing_half_written(self):
        for name, program, words, left, output in self.everything():
            for failing, reason in {**FAILING, **(FAILING_LATER if name == ALONE else {})}.items():
                with self.subTest(name, failing=failing):
                    result = self.run_on(failing, program, words, output=output)
                    errors = result.errors(f"zpp_{program}")
                    self.assertEqual((result.code, len(errors)), (zpp.IO, 1), result)
                    self.assertIn(reason, errors[0])
                    # A call that fails after some bytes may fail in the second file.
                    self.assertLess(len([name for name in left if name in self.files()]), len(left), result)
                    self.check_nothing_half(result)
                    self.clean()

    def check_nothing_half(self, result):
        """Files that have their names are whole, and there are no others."""
        hidden = [name for name in self.files() if name.endswith((".partial", ".lock"))]
        self.assertEqual(hidden, [], result)
        for name in self.files():
            if name.endswith(".h5"):
                self.check_accepted(self.folder / name)
        kept = self.folder / "kept"
        if kept.exists():
            self.assertEqual([entry.name for entry in kept.iterdir() if not entry.name.startswith("step-")], [])
            if any(kept.iterdir()):
                self.assertEqual(checkpoint.main([str(kept)]), zpp.OK)

    def test_a_slow_disk_only_takes_longer(self):
        for name in ("train --save", "sweep", "plan"):
            program, words, left = WRITERS[name]
            with self.subTest(name):
                self.check_whole(self.run_on("sync=slow:1", program, words), left)
                self.clean()

    def test_offload_files(self):
        """Without io_uring, whose writes no library sees."""
        (self.folder / "disk").mkdir()
        words = [*zpp.TINY, "--zero-stage", "3", "--offload-optimizer", "nvme", "--offload-optimizer-nvme-path", "disk"]
        for failing, reason in {**FAILING, **FAILING_LATER}.items():
            if failing.startswith("write"):
                with self.subTest(failing=failing):
                    result = self.run_on(failing, "train", words, NO_RING)
                    errors = result.errors()
                    self.assertEqual((result.code, len(errors)), (zpp.IO, 1), result)
                    self.assertIn(reason, errors[0])
                    self.assertEqual(self.files(), [], result)
        result = self.run_on("locks=ENOLCK", "train", words, NO_RING)
        self.check_whole(result, ["out/train.h5"])


if __name__ == "__main__":
    zpp.main()
