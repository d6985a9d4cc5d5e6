# ctest: name=loss_table timeout=60 labels=oracle,nightly
"""zpp-validate loss-table has the mean, spread and interval that can be worked out by hand, over the seeds that all
settings have, and says in one line what is no such file."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import zpp

# Half-width of the interval of three differences whose spread is 1: Student's t for 2 degrees of freedom.
HALF = 4.302653 / 3 ** 0.5


def runs(*losses, compressed=0.0):
    return [{"seed": seed, "held_out": loss, "compressed": compressed} for seed, loss in enumerate(losses, 1)]


class LossTable(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = pathlib.Path(place.name, "losses.json")

    def say(self, losses, *words):
        self.file.write_text(losses if isinstance(losses, str) else json.dumps({"study": {}, "losses": losses}))
        return subprocess.run([*zpp.VALIDATE, "loss-table", self.file, *words], capture_output=True, text=True)

    def test_by_hand(self):
        """Differences 1, 2 and 3 in pairs of one seed, whatever their order; a fourth seed that one setting lacks
        counts nowhere."""
        losses = {"plain FSDP2": runs(1.0, 2.0, 6.0, 100.0), "both": runs(2.0, 4.0, 9.0, compressed=0.75)[::-1]}
        told = self.say(losses, "--output", self.file.with_suffix(".md"))
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in told.stdout.splitlines()[2:]]
        self.assertEqual(rows[0][:3], ["plain FSDP2", "3.0000", "2.6458"])
        self.assertEqual(rows[1][:4], ["both", "5.0000", "3.6056", "+2.0000"])
        low, high = map(float, re.findall(r"[+-][0-9.]+", rows[1][4]))
        self.assertAlmostEqual(low, 2 - HALF, places=3)
        self.assertAlmostEqual(high, 2 + HALF, places=3)
        self.assertEqual(rows[1][5], "75%")
        self.assertEqual(self.file.with_suffix(".md").read_text(), told.stdout)

    def test_what_is_no_such_file(self):
        one = {"plain FSDP2": runs(1.0, 2.0), "both": runs(1.0)}
        for losses in (one, {"plain FSDP2": []}, {}, [1], "no JSON"):
            with self.subTest(losses):
                told = self.say(losses)
                self.assertEqual(told.returncode, 2)
                self.assertRegex(told.stderr, r"\Azpp-validate loss-table: error: [^\n]*losses\.json is no [^\n]+\n\Z")
        told = self.say({"plain FSDP2": runs(1.0, 2.0)}, "--output", self.file / "table.md")
        self.assertEqual(told.returncode, 5)
        self.assertIn("cannot be read or written", told.stderr)


if __name__ == "__main__":
    zpp.main()
