# ctest: name=checkpoint_kills timeout=180 labels=fault processors=2
"""Training that saves in every step is killed, all its processes at once, at random times: what is complete afterwards is whole, by a
checker that shares no code with what wrote it; and going on from there, however often, ends in the bits of a run that was left alone."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(os.environ["ZEROPP_SOURCE"]) / folder) for folder in ("tests/support", "validation")]
import checkpoint
import zpp

KILLS = int(os.environ.get("ZEROPP_KILLS", "8"))
STEPS = 400
WORDS = ["--train-iters", STEPS, "--deterministic", "--bf16", "--node-size", "1", "--zero-quantized-weights", "--zero-quantized-gradients",
         "--error-feedback", "both", "--log-interval", STEPS]


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
        self.words = [*WORDS, "--save", self.kept, "--load", self.kept, "--save-interval", "1"]

    def kill_after(self, seconds):
        """Whether the job was still running then."""
        process = zpp.launch([(2, zpp.train_command(*self.words, out=self.out))], cwd=self.folder)
        try:
            process.process.communicate(timeout=seconds)
            return False
        except subprocess.TimeoutExpired:
            pass
        for pid in reversed(everything_below(process.process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.process.communicate()
        return True

    def test_what_is_complete_is_whole(self):
        self.check_ok(self.train(2, *WORDS, out=self.folder / "alone"))
        alone = self.trace(self.folder / "alone")[0]["parameters_hash"]
        began = time.monotonic()
        self.kill_after(0.3)  # before there is anything
        first = 0.5 + (time.monotonic() - began)
        rng = random.Random(20230616)
        newest, kills = 0, 0
        while kills < KILLS and self.kill_after(first + rng.uniform(0, 1.5)):
            kills += 1
            if not self.kept.exists() or not any(self.kept.glob("step-*")):
                continue
            self.assertEqual(checkpoint.main([str(self.kept)]), 0, f"after kill {kills}")
            step = max(int(entry.name.removeprefix("step-")) for entry in self.kept.glob("step-*"))
            self.assertGreaterEqual(step, newest, "a complete checkpoint was lost")
            newest = step
        self.assertGreater(newest, 0, "no kill left a checkpoint")
        result = self.train(2, *self.words)
        self.assertEqual(result.code, zpp.OK, result)
        self.assertEqual(self.trace()[0]["parameters_hash"], alone)
        print(f"{kills} kills, the last after step {newest} of {STEPS}")


if __name__ == "__main__":
    zpp.main()
