# ctest: name=offload_faults labels=fault,nightly timeout=120 processors=2
"""Where files that are offloaded to have no room, or fail while training runs: one line with the rank and the place,
exit code 5, and checkpoints from before are whole; nothing is left in the folder. However a run ends: also by a signal
that no process sees."""

import contextlib
import os
import signal

import mounts
import zpp
from zpp_validate.checkers import checkpoint

RANKS = 3


def offloaded(disk):
    return ["--zero-stage", "3", "--sub-group-size", "300", "--offload-optimizer", "nvme",
            "--offload-optimizer-nvme-path", disk,
            "--offload-param", "nvme", "--offload-param-nvme-path", disk, "--offload-param-max-in-cpu", "0"]


class Fails(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.kept = self.folder / "kept"

    def transfers_of_a_step(self):
        """Transfers of one rank in a step: reads and writes."""
        self.check_ok(self.train(RANKS, *offloaded(self.disk), "--train-iters", "2"))
        groups = self.trace()[1]
        counters = dict(zip(groups["counters"]["name"], groups["counters"]["value"]))
        return {name: counters[f"file_{name}"] // 2 // RANKS for name in ("reads", "writes")}

    def end_by(self, kind, calls, *words, out):
        """A run whose rank 1 has that fault from this call on."""
        command = [zpp.TEST_BIN / "defective_train", *zpp.train_command(*offloaded(self.disk), *words, out=out)[1:]]
        return zpp.launch([(RANKS, command)], cwd=self.folder, env={"ZEROPP_FAULT": f"{kind}:1:{calls}"}).end()

    def test_in_the_midst_of_training(self):
        """Initial values, with the weights made of them, take the same number of writes as a step. Every request of
        these sizes is one call."""
        step = self.transfers_of_a_step()
        for kind, calls, words in (("offload_full", step["writes"], ("write to", "No space left", "free space there")),
                                   ("offload_error", step["reads"],
                                    ("read from", "Input/output error", "another place"))):
            with self.subTest(kind):
                kept = self.kept / kind
                result = self.end_by(kind, 8 * calls, "--train-iters", "100", "--save", kept, "--save-interval", "1",
                                     "--save-keep", "50",
                                     out=self.out / kind)
                self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
                for part in (*words, str(self.disk), "(rank 1 on "):
                    self.assertIn(part, result.errors()[0])
                self.assertEqual(list(self.disk.iterdir()), [])
                self.assertEqual(list((self.out / kind).glob("*.h5")), [])
                saved = [entry for entry in kept.iterdir() if entry.name.startswith("step-")]
                self.assertGreaterEqual(len(saved), 1, result)
                self.assertEqual(checkpoint.main([str(kept)]), 0)

    def test_goes_on_from_what_was_saved(self):
        """The resumed run has the bits of an undisturbed run."""
        whole = ["--deterministic", "--train-iters", "8"]
        calls = self.transfers_of_a_step()["writes"]
        result = self.end_by("offload_full", 6 * calls, *whole, "--save", self.kept, "--save-interval", "1",
                             out=self.out)
        self.assertEqual(result.code, zpp.IO, result)
        hashes = []
        for words in (["--load", self.kept], []):
            self.check_ok(self.train(RANKS, *offloaded(self.disk), *whole, *words))
            hashes.append(self.trace()[0]["parameters_hash"])
        self.assertEqual(*hashes)

    def test_killed(self):
        """By what no process can answer to."""
        process = self.start(RANKS, *offloaded(self.disk), "--train-iters", "100000", "--log-interval", "1")
        process.wait_for_line("step 2/")
        for pid in process.pids("zpp_train"):
            with contextlib.suppress(ProcessLookupError):  # the launcher was faster
                os.kill(pid, signal.SIGKILL)
        process.end()
        self.assertEqual(list(self.disk.iterdir()), [])


class HasNoRoom(mounts.MountCase):
    def test_at_the_begin(self):
        """A tmpfs of 8 MiB, and 19 to put there."""
        result = self.inside("size=8m", "", *offloaded(self.out), "--hidden-size", "256", "--train-iters", "100",
                             "--log-interval", "1")
        self.assertEqual((result.code, len(result.errors())), (zpp.IO, 1), result)
        for part in ("cannot reserve ", " bytes in ", "No space left", "free space there"):
            self.assertIn(part, result.errors()[0])
        self.assertNotIn("step 1/", result.stdout)


if __name__ == "__main__":
    zpp.main()
