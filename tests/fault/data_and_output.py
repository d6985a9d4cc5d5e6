# ctest: name=data_and_output labels=fault timeout=300 processors=2
"""Data files and output folders that cannot be used: one line, the right exit code, nothing of others
touched, nothing left half written."""

import fcntl
import os
import shlex
import shutil
import signal

import h5py

import mounts
import zpp


class Data(zpp.TestCase):
    def refused(self, code, content, *parts, flags=()):
        path = self.folder / "corpus.txt"
        if content is not None:
            path.write_bytes(content)
        result = self.train(2, "--data-source", "text", "--data-path", path, *flags)
        return self.check_fails(result, code, *parts)

    def test_missing(self):
        self.refused(zpp.IO, None, "corpus.txt", "does not exist", "markov")

    def test_empty(self):
        self.refused(zpp.IO, b"", "corpus.txt", "is empty")

    def test_too_short_for_a_sequence(self):
        self.refused(zpp.USAGE, b"short", "corpus.txt", "--seq-length")

    def test_held_out_part_too_short_for_a_batch(self):
        """The held-out part holds one sequence; a batch of both ranks takes four."""
        self.refused(zpp.USAGE, b"x" * 400, "held-out", "--micro-batch-size",
                     flags=["--eval-interval", "1", "--held-out-fraction", "0.1"])

    def test_folder(self):
        result = self.train(2, "--data-source", "text", "--data-path", self.folder)
        self.check_fails(result, zpp.IO, str(self.folder), "regular file")

    def test_no_path(self):
        self.check_fails(self.train(1, "--data-source", "text"), zpp.USAGE, "zeropp.data.path")


class Output(zpp.TestCase):
    def test_under_a_file(self):
        (self.folder / "file").write_text("mine")
        result = self.train(2, out=self.folder / "file" / "below")
        self.check_fails(result, zpp.IO, "file/below")
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_foreign_file_under_its_name(self):
        """Text, a folder, and HDF5 that is none of ours."""
        self.out.mkdir()
        trace = self.out / "train.h5"
        trace.write_bytes(b"the results of last year")
        self.refused_and_unchanged(trace)
        trace.unlink()
        with h5py.File(trace, "w") as file:
            file["precious"] = list(range(100))
        self.refused_and_unchanged(trace)
        trace.unlink()
        trace.mkdir()
        result = self.train(2)
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertTrue(trace.is_dir())

    def refused_and_unchanged(self, trace):
        before = (trace.read_bytes(), trace.stat().st_mtime_ns, trace.stat().st_ino)
        result = self.train(2)
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertIn("train.h5", result.errors()[0])
        self.assertEqual(before, (trace.read_bytes(), trace.stat().st_mtime_ns, trace.stat().st_ino))
        self.assertEqual([p.name for p in self.out.iterdir()], ["train.h5"])

    def test_dangling_link_under_its_name(self):
        self.out.mkdir()
        (self.out / "train.h5").symlink_to(self.folder / "elsewhere")
        result = self.train(1)
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertFalse((self.folder / "elsewhere").exists())

    def test_earlier_trace_is_replaced(self):
        self.check_ok(self.train(1, "--seed", "3"))
        self.check_ok(self.train(1, "--seed", "4"))
        self.assertEqual(self.trace()[0]["seed"], 4)
        self.assertEqual([p.name for p in self.out.iterdir()], ["train.h5"])

    def test_json_into_a_folder(self):
        self.check_fails(self.train(1, "--json", self.folder), zpp.IO, str(self.folder))

    def test_json_into_a_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        (self.folder / "link").symlink_to(pipe)
        for path in (pipe, self.folder / "link"):
            self.check_fails(self.train(1, "--json", path), zpp.IO, str(path), "choose another place")
        self.assertTrue(pipe.is_fifo())

    def test_json_through_a_link(self):
        (self.folder / "target.json").write_text("{}")
        link = self.folder / "link.json"
        link.symlink_to("target.json")
        self.check_ok(self.train(1, "--json", link))
        self.assertTrue(link.is_symlink())
        self.assertIn("schema", (self.folder / "target.json").read_text())

    def test_json_is_the_trace(self):
        """Whatever it is called, and before the folder is there."""
        (self.folder / "link").symlink_to("out")
        for json in (self.out / "train.h5", "out/train.h5", "./link/../out/train.h5"):
            self.check_fails(self.train(1, "--json", json), zpp.USAGE, "--json", "trace")
        self.check_fails(self.train(2, "--json", "train.h5", out="."), zpp.USAGE, "--json", "trace")
        self.out.mkdir()
        self.check_fails(self.train(1, "--json", "link/train.h5"), zpp.USAGE, "--json", "trace")

    def end_after(self, vanish, *words):
        """Result of a run whose folder vanishes while it trains, and which then is asked to end."""
        process = self.start(2, "--train-iters", "1000000", "--log-interval", "1", *words)
        process.wait_for_line("step 1/")
        vanish()
        process.process.send_signal(signal.SIGUSR1)
        return process.end()

    def test_folder_that_vanishes(self):
        """The folder is made again, with a warning: neither the result of the run nor the file of --json is lost."""
        for vanish in (lambda: self.out.rename(self.folder / "away"), lambda: shutil.rmtree(self.out)):
            result = self.end_after(vanish, "--json", self.out / "made.json")
            self.assertEqual(result.code, zpp.REQUEUE, result)
            self.assertIn(f"{self.out} was removed or moved during the run: it is made again", result.stderr)
            self.check_accepted(self.out / "train.h5")
            self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["made.json", "train.h5"])

    def test_folder_that_vanishes_and_cannot_be_made_again(self):
        def vanish():
            self.out.rename(self.folder / "away")
            self.out.write_text("mine")
        self.check_fails(self.end_after(vanish), zpp.IO, "train.h5", "Not a directory")
        self.assertEqual(self.out.read_text(), "mine")

    def test_folder_that_vanishes_and_is_another_runs(self):
        """Whose trace is not replaced."""
        def vanish():
            self.out.rename(self.folder / "away")
            self.out.mkdir()
            lock = open(self.out / ".train.h5.lock", "w", encoding="utf-8")
            self.addCleanup(lock.close)
            fcntl.flock(lock, fcntl.LOCK_EX)
        self.check_fails(self.end_after(vanish), zpp.IO, "train.h5", "wait until it has ended")

    def test_two_runs_into_one_folder(self):
        """The one that comes while the other works is refused; output_lock makes sure that it does."""
        runs = {seed: self.start(1, "--seed", str(seed)) for seed in (3, 4)}
        ended = {seed: run.end() for seed, run in runs.items()}
        for result in ended.values():
            if result.code != zpp.OK:
                self.assertEqual(result.code, zpp.IO, result)
                self.assertIn("train.h5", result.errors()[0])
        self.assertIn(self.trace()[0]["seed"], [seed for seed, result in ended.items() if result.code == zpp.OK])
        self.assertEqual([p.name for p in self.out.iterdir()], ["train.h5"])


class Mounts(mounts.MountCase):
    """Traces."""

    def check_refused(self, result, *parts, left=()):
        self.assertEqual(result.code, zpp.IO, result)
        self.assertEqual(len(result.errors()), 1, result)
        for part in ("train.h5", *parts):
            self.assertIn(part, result.errors()[0])
        listed = [line for line in result.stdout.splitlines() if line.startswith((".", "train", "filler"))]
        self.assertEqual(listed, list(left), result)

    def test_read_only(self):
        result = self.inside("size=4m", 'mount -o remount,ro "$out"')
        self.check_refused(result, "Read-only", "another place")

    def test_full_before_the_run(self):
        result = self.inside("size=16k", 'head -c 1m /dev/zero > "$out/filler" 2>/dev/null')
        self.check_refused(result, "No space left", "free space", left=["filler"])

    def test_full_at_the_end_of_the_run(self):
        """Filled once training runs: the run comes to its end, then the error."""
        result = self.inside("size=8m", self.once_running('head -c 16m /dev/zero > "$out/filler"'),
                             "--train-iters", "1000000", "--log-interval", "1", at_line="step 1/", asked_to_end=True)
        self.check_refused(result, "No space left", left=["filler"])

    def test_quota_used_up_before_the_run(self):
        result = self.inside_quota(1 << 20, 'as_limited head -c 2m /dev/zero > "$out/filler" 2>/dev/null')
        self.check_refused(result, "Disk quota exceeded", "free space", left=["filler"])
        self.assertNotIn("step 1/", result.stdout)

    def test_quota_used_up_at_the_end_of_the_run(self):
        """The trace of an earlier run stays as it is."""
        self.check_ok(self.train(2, out=self.folder / "earlier"))
        earlier = shlex.quote(str(self.folder / "earlier" / "train.h5"))
        fill = self.once_running('as_limited head -c 8m /dev/zero > "$out/filler"')
        result = self.inside_quota(4 << 20, f'cp {earlier} "$out"; {fill}', "--train-iters", "1000000",
                                   "--log-interval", "1", at_line="step 1/", asked_to_end=True,
                                   after=f'cmp {earlier} "$out/train.h5" && echo it is unchanged')
        self.assertIn("it is unchanged", result.stdout)
        self.check_refused(result, "Disk quota exceeded", "free space", left=["filler", "train.h5"])


if __name__ == "__main__":
    zpp.main()
