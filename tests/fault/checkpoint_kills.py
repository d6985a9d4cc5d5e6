# ctest: name=checkpoint_kills timeout=400 labels=fault,nightly processors=4
"""Training that saves in every step is killed, all its processes at once, at random times. Complete checkpoints are
whole by a checker that shares no code with the writer, and no complete checkpoint is lost. A run that resumes from
them, however often, ends with the bits of an undisturbed run; so do the copies of the nodes, where weight differences
need copies. ZEROPP_KILLS: number of kills [5]; ZEROPP_KILL_SEED: seed of their times [20230616]. Each kill prints a
line."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import zpp
from zpp_validate.checkers import checkpoint

KILLS = int(os.environ.get("ZEROPP_KILLS", "5"))
SEED = int(os.environ.get("ZEROPP_KILL_SEED", "20230616"))
STEPS = 150
MOST_KILLS = 8 * KILLS  # as many where none of the first came while a checkpoint was written
COMMON = ["--train-iters", STEPS, "--deterministic", "--bf16", "--log-interval", STEPS]
QUANTIZED = [*COMMON, "--node-size", "1", "--zero-quantized-weights", "--zero-quantized-gradients",
             "--error-feedback", "both"]
# Whole weights go in step 71 again: a copy that begins anew anywhere else has other bits than one that does not.
DIFFERENCES = [*COMMON, *zpp.ALL_FEATURES, "--weight-differences", "--weight-refresh-interval", "70",
               "--eval-interval", "20", "--eval-iters", "1"]


def everything_below(pid):
    """The process ids of a launcher and its ranks, which have groups of their own."""
    found = [pid]
    for one in found:
        try:
            children = pathlib.Path(f"/proc/{one}/task/{one}/children").read_text()
        except FileNotFoundError:
            continue
        found += [int(child) for child in children.split()]
    return found


class Kills(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.kept = self.out / "checkpoints"
        self.saving = ["--save", self.kept, "--load", self.kept, "--save-interval", "1"]

    def kill_after(self, seconds, ranks, words):
        """Whether the job was still running then; else it ended well."""
        process = zpp.launch([(ranks, zpp.train_command(*words, *self.saving, out=self.out))], cwd=self.folder)
        try:
            process.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            for pid in reversed(everything_below(process.process.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.process.communicate()
            return True
        self.assertEqual(process.process.returncode, zpp.OK)
        return False

    def under_way(self):
        """Names of what is being written or removed, or was when it was killed."""
        return {entry.name for entry in self.kept.glob(".step-*")}

    def newest(self):
        """The step of the newest complete checkpoint, each of which is whole; 0: there is none."""
        steps = [int(entry.name.removeprefix("step-")) for entry in self.kept.glob("step-*")]
        if steps:
            self.assertEqual(checkpoint.main([str(self.kept)]), 0)
        return max(steps, default=0)

    def bits(self, out):
        """Hashes of the parameters and, if the nodes have copies, of the copies."""
        root, groups = self.trace(out)
        return root["parameters_hash"], groups.get("weight_copies", {}).get("hash")

    def check_end(self, alone):
        """A run that ended, after any number of starts, has the bits of an undisturbed run."""
        self.assertEqual(self.bits(self.out), alone)
        shutil.rmtree(self.out)

    def check_kills(self, ranks, words):
        begin = time.monotonic()
        self.check_ok(self.train(ranks, *words, out=self.folder / "alone"))
        seconds_alone = time.monotonic() - begin
        start = 0.5 * seconds_alone  # some kills come before there is anything
        window = max(1.5, seconds_alone)  # of training in which a kill comes, as long as many saves
        alone = self.bits(self.folder / "alone")
        rng = random.Random(SEED)
        print(f"seed {SEED}, {ranks} ranks", flush=True)
        kills = saving = ends = newest = 0
        while kills < KILLS or (saving == 0 and kills < MOST_KILLS):
            seconds = start + rng.uniform(0, window)
            left_before = self.under_way()
            if not self.kill_after(seconds, ranks, words):
                self.check_end(alone)
                newest, ends = 0, ends + 1
                continue
            kills += 1
            under_way = self.under_way() - left_before
            saving += bool(under_way)
            before, newest = newest, self.newest()
            print(f"kill {kills} after {seconds:.3f} s: complete to step {newest}, left "
                  f"{' '.join(sorted(under_way)) or 'nothing'}", flush=True)
            self.assertGreaterEqual(newest, before, "a complete checkpoint was lost")
        result = self.train(ranks, *words, *self.saving)
        self.assertEqual(result.code, zpp.OK, result)
        self.check_end(alone)
        self.assertGreater(saving, 0, "no kill came while a checkpoint was written")
        print(f"{kills} kills, {saving} while a checkpoint was written or removed, {ends + 1} runs came to their end "
              f"with the same bits")

    def test_what_is_complete_is_whole(self):
        self.check_kills(2, QUANTIZED)

    def test_with_the_copies_of_weight_differences(self):
        self.check_kills(4, DIFFERENCES)


if __name__ == "__main__":
    zpp.main()
