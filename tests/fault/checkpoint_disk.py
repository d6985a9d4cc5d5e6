# ctest: name=checkpoint_disk labels=fault timeout=300 processors=2
"""Where checkpoints cannot be written: a disk or a quota that is full or becomes so, a file system that is read-only or
becomes so, a folder that vanishes or is another job's. One line, exit code 5, checkpoints from before stay whole, and
nothing is left of what was begun."""

import shlex

import mounts
import zpp
from zpp_validate.checkers import checkpoint

SIZE = ["--num-layers", "6", "--hidden-size", "128"]  # 14 MiB a checkpoint
EVERY = ["--train-iters", "100", "--log-interval", "1", "--save-interval", "1"]


class Mounts(mounts.MountCase):
    """64 MiB: of a tmpfs, or by a quota."""

    def run_there(self, script, *words, quota=False, **options):
        """The trainer, with checkpoints there; after it their names, and the verdict on each."""
        kept = shlex.quote(str(self.out / "checkpoints"))
        judge = shlex.join([*zpp.VALIDATE, "checkpoint"])
        where = (self.inside_quota, 64 << 20) if quota else (self.inside, "size=64m")
        return where[0](where[1], script, *SIZE, *EVERY, "--save", self.out / "checkpoints", *words,
                        after=f"ls -A {kept}; {judge} {kept}", **options)

    def check_refused(self, result, part, whole):
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertIn("checkpoints/", result.errors()[0])
        self.assertIn(part, result.errors()[0])
        verdicts = [line for line in result.stdout.splitlines() if line.startswith("step-") and " " in line]
        self.assertEqual([line for line in verdicts if not line.endswith("  VALID")], [], result)
        self.assertGreaterEqual(len(verdicts), whole, result)
        left = [line for line in result.stdout.splitlines() if line.startswith((".", "train.h5"))]
        self.assertEqual(left, [], result)

    def test_becomes_full(self):
        """The run's own checkpoints fill the disk, while training continues and while it waits."""
        for words in ([], ["--no-async-save"], ["--gather-weights-on-save"]):
            with self.subTest(words=words):
                self.out = self.folder / (words[0] if words else "out")
                self.check_refused(self.run_there("", "--save-keep", "10", *words), "No space left", 3)

    def test_quota_is_used_up(self):
        for words in ([], ["--gather-weights-on-save"]):
            with self.subTest(words=words):
                self.out = self.folder / (words[0] if words else "out")
                self.check_refused(self.run_there("", "--save-keep", "10", *words, quota=True), "Disk quota exceeded",
                                   2)

    def test_is_full(self):
        result = self.run_there('head -c 128m /dev/zero > "$out/filler" 2>/dev/null')
        self.assertNotIn("step 1/", result.stdout)
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertIn("No space left", result.errors()[0])

    def test_is_read_only(self):
        result = self.run_there('mkdir "$out/checkpoints"; mount -t tmpfs -o size=1m,ro tmpfs "$out/checkpoints"')
        self.check_refused(result, "Read-only", 0)
        self.assertNotIn("step 1/", result.stdout)

    def test_becomes_read_only(self):
        """Once two are complete: where there is a third, it is whole."""
        # The lock file lies on another file system: one with a file that is open for writing stays writable.
        prepare = ('mkdir "$out/checkpoints"; mount -t tmpfs -o size=64m tmpfs "$out/checkpoints"; '
                   'lock="$out/checkpoints/.checkpoints.lock"; touch "$out/lock" "$lock"; '
                   'mount --bind "$out/lock" "$lock"; ')
        freeze = 'until mount -o remount,ro "$out/checkpoints"; do :; done'
        result = self.run_there(prepare + self.once_running(freeze), at_line="step 4/")
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertIn("Read-only", result.errors()[0])
        verdicts = [line for line in result.stdout.splitlines() if line.startswith("step-") and " " in line]
        self.assertGreaterEqual(len(verdicts), 2, result)
        self.assertEqual([line for line in verdicts if not line.endswith("  VALID")], [], result)


class TakenAway(zpp.TestCase):
    def test_a_later_one_is_of_another_job(self):
        """The run would be the older, whose checkpoints go: it ends, and what it has saved stays."""
        kept = self.out / "checkpoints"
        process = self.start(2, *SIZE, *EVERY, "--save", kept)
        process.wait_for_line("step 4/")
        (kept / "step-000000999").mkdir()
        result = process.end()
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertRegex(result.errors()[0], rf"^cannot save the checkpoint after \d+ steps: {kept} holds one after "
                         rf"999 .*another job .* start again$")
        (kept / "step-000000999").rmdir()
        self.assertEqual([entry.name for entry in kept.iterdir() if not entry.name.startswith("step-")], [], result)
        self.assertEqual(checkpoint.main([str(kept)]), 0)

    def test_folder(self):
        """The folder is not made again: if its file system went away, the new folder would be on another one."""
        kept, away = self.out / "checkpoints", self.folder / "away"
        process = self.start(2, *SIZE, *EVERY, "--save", kept)
        process.wait_for_line("step 4/")
        kept.rename(away)
        result = process.end()
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        self.assertRegex(result.errors()[0], rf"^cannot save the checkpoint after \d+ steps: the folder {kept} is no "
                         rf"longer there; another job .* start again$")
        self.assertEqual(list(self.out.iterdir()), [], result)
        self.assertEqual(checkpoint.main([str(away)]), 0)


if __name__ == "__main__":
    zpp.main()
