# ctest: name=plugin_losses timeout=120 labels=cli,nightly,torch processors=2
"""jobscripts/local/plugin_losses.py trains, continues and prints its table, where there is PyTorch."""

import json
import os
import pathlib
import tempfile

import zpp
from local_script import run


class Losses(zpp.TestCase):
    def on_two_ranks(self, script, *words):
        """The output of the script, run by the Python that has PyTorch."""
        python = os.environ.get("ZEROPP_TORCH_PYTHON")
        if not python:
            self.skipTest("ZEROPP_TORCH_PYTHON names no Python with PyTorch")
        environment = {**os.environ, "PYTHONPATH": str(zpp.BIN.parent / "python")}
        return run(*zpp.MPIRUN, "-n", "2", python, zpp.SOURCE / "jobscripts" / "local" / script, "--device", "cpu",
                   *words, env=environment)

    def test_losses(self):
        """Without a codec the losses are those of plain FSDP2 in every bit; with two bits they are others."""
        with tempfile.TemporaryDirectory(prefix="zpp-") as name:
            text, path = pathlib.Path(name, "text"), pathlib.Path(name, "losses.json")
            text.write_bytes(bytes(97 + index * index % 13 for index in range(20_000)))
            command = [
                "plugin_losses.py", "--data", text, "--json", path, "--steps", "6", "--num-layers", "1",
                "--hidden-size", "64",
                "--num-attention-heads", "2", "--seq-length", "16", "--micro-batch-size", "2", "--held-out", "4",
                "--setting", 'none={"node_size": 1, "min_bytes": 0, "weights": "none", "gradients": "none"}',
                "--setting", 'coarse={"node_size": 1, "min_bytes": 0, "weights": "int2:64", "gradients": "int2:64"}']
            done = self.on_two_ranks(*command, "--seeds", "2")
            if "'scipy'" in done.stderr:
                self.skipTest("the Python with PyTorch lacks SciPy")
            self.assertEqual(done.returncode, 0, done)
            found = json.loads(path.read_text())["losses"]
            more = self.on_two_ranks(*command, "--seeds", "3")
            self.assertEqual(more.returncode, 0, more)
            self.assertEqual([line.split(",")[0] for line in more.stdout.splitlines() if line.startswith("seed")],
                             3 * ["seed 3"])
            for name, runs in json.loads(path.read_text())["losses"].items():
                self.assertEqual((runs[:2], len(runs)), (found[name], 3))
            other = self.on_two_ranks(*command, "--seeds", "3", "--steps", "7")
            self.assertEqual((other.returncode, "steps 6, not 7" in other.stderr), (2, True), other)
        losses = {name: [run["held_out"] for run in runs] for name, runs in found.items()}
        plain = losses.pop("plain FSDP2")
        self.assertEqual(losses["none"], plain)
        self.assertTrue(all(coarse != exact for coarse, exact in zip(losses["coarse"], plain)), losses)
        shares = {name: runs[0]["compressed"] for name, runs in found.items()}
        self.assertEqual((shares["none"], shares["coarse"]), (0, 1))
        rows = {cells[1].strip(): cells[4].strip() for line in done.stdout.splitlines()
                if len(cells := line.split("|")) > 4}
        self.assertEqual(rows["none"], "+0.0000")
        mean = sum(coarse - exact for coarse, exact in zip(losses["coarse"], plain)) / 2
        self.assertAlmostEqual(float(rows["coarse"]), mean, places=4)


if __name__ == "__main__":
    zpp.main()
