# ctest: name=sweep_script timeout=300 labels=cli,nightly processors=2
"""jobscripts/local/sweep.sh: each flag of each command that it would run exists; on the host it leaves tables and
pictures, of emulated nodes too; a run that fails is its exit code; the peer without PyTorch says so."""

import json
import os
import pathlib
import re

import local_script
import zpp
from local_script import option, run, whole_help

SCRIPT = zpp.SOURCE / "jobscripts" / "local" / "sweep.sh"
PEER = (*zpp.VALIDATE, "peer-collectives")
SWEEP = zpp.BIN / "zpp_sweep"
SHARED = ("-b", "-e", "-f", "-w", "-d", "--collective", "--max-seconds", "--node-size", "-n")


def flags_of(*program):
    """All flags in its help, short ones too."""
    return set(re.findall(r"(?<!\w)--?[a-zA-Z][a-z0-9_-]*", whole_help(*program)))


class SweepScript(local_script.TestCase):
    script_path = SCRIPT

    def test_flags_exist_and_both_sides_measure_the_same(self):
        known = {"zpp_sweep": flags_of(SWEEP), "peer-collectives": flags_of(*PEER)}
        commands = self.dry_run("--gpus", "4", "--layouts", "node,emulated,emulated-4x4", "--", "--rail-lanes", "2")
        self.assertEqual(len(commands), 6)
        for ours, theirs in zip(commands[::2], commands[1::2]):
            for command in (ours, theirs):
                program = next(i for i, word in enumerate(command) if pathlib.Path(word).name in known)
                flags = {word for word in command[program:] if re.match(r"--?[a-zA-Z]", word)}
                self.assertEqual(flags - known[pathlib.Path(command[program]).name], set(), command)
            self.assertEqual([option(ours, flag) for flag in SHARED], [option(theirs, flag) for flag in SHARED])
            self.assertEqual([word for word in ours if word.startswith("NCCL_")],
                             [word for word in theirs if word.startswith("NCCL_")])
            self.assertNotEqual(option(ours, "--json"), option(theirs, "--json"))
        self.assertEqual([option(command, "--node-size") for command in commands[::2]], [None, "2", "2"])
        deep = self.dry_run("--gpus", "4", "--layouts", "node", "--peer", "none", "--depths", "1,4")
        self.assertEqual([option(command, "--pipeline-depth") for command in deep], ["1", "4"])
        self.assertEqual([option(command, "-e") for command in commands[::2]], ["4G", "1G", "1G"])
        self.assertEqual([option(command, "--algorithm") for command in commands[::2]],
                         ["native,direct,native-images,1-hop", "auto", "auto"])

    def test_algorithms(self):
        words = ("--gpus", "4", "--layouts", "node,emulated", "--peer", "none")
        for more, expected in ((("--collectives", "all_gather"), ["native,direct,native-images", "auto"]),
                               (("--collectives", "reduce_scatter"), ["native,1-hop", "auto"]),
                               (("--algorithms", "flat,1-hop"), ["flat,1-hop", "flat,1-hop"])):
            self.assertEqual([option(command, "--algorithm") for command in self.dry_run(*words, *more)], expected)
        self.assertEqual(self.script(*words, "--collectives", "broadcast", "--dry-run").returncode, 2)

    def test_tables_and_pictures(self):
        words = ["--gpus", "4", "--backend", "host", "--peer", "none", "--max-seconds", "0.01", "--sizes", "1K:4K",
                 "--emulated-sizes", "1K:1K", "--check-maxbytes", "1K"]
        done = self.script(*words)
        self.assertEqual(done.returncode, 0, done)
        study = self.folder / "results" / "here" / "sweep"
        (tables,) = [path for path in study.iterdir() if path.is_dir() and path.name != "runs"]
        self.assertIn("## all_gather world bfloat16, 4 ranks on 1 node, out-of-place\n",
                      (tables / "node.md").read_text())
        self.assertIn("int8:256 native-images mpi", (tables / "node.md").read_text())
        self.assertIn("4 ranks on 2 nodes, emulated", (tables / "emulated.md").read_text())
        self.assertIn("2-hop", (tables / "emulated.md").read_text())
        self.assertIn("emulated", (tables / "crossings.md").read_text())
        self.assertEqual(len(list(tables.glob("*-bandwidth.png"))), 2 * 2)
        (first, _) = sorted((study / "runs").glob("*.json"))
        for row in json.loads(first.read_text())["results"]:
            self.assertEqual(row["out_of_place"]["nwrong"], 0 if row["size"] <= 1024 else None)
        done = self.script(*words, "--layouts", "node", "--", "--no-such-flag")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("failed with exit code 2", done.stderr)

    def test_bad_usage(self):
        for words in (["--layouts", "rack"], ["--frob", "1"], ["--backend", "tpu"], ["--gpus", "0"], ["--sizes"],
                      ["--sizes", "4G"], ["--depths", "1,x"], ["--emulated-sizes", "1:x"], ["--peer", "jax"],
                      ["--gpus", "3", "--layouts", "emulated"]):
            with self.subTest(words=words):
                done = self.script("--gpus", "4", *words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
                self.assertTrue(done.stderr.startswith("sweep: error: "), done)

    def test_peer_refuses(self):
        (self.folder / "torch.py").write_text("raise ModuleNotFoundError('hidden', name='torch')\n")
        done = run(*PEER, env={**os.environ, "PYTHONPATH": str(self.folder)})
        self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.ENVIRONMENT, 1), done)
        self.assertIn("has no module torch: install torch there, ", done.stderr)
        place = {**os.environ, "RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}
        for words in (["--node-size", "3"], ["-b", "2K", "-e", "1K"], ["-f", "1"], ["-b", "1T"],
                      ["--collective", "broadcast"],
                      ["--max-seconds", "0"], ["-w", "0"]):
            self.assertEqual(run(*PEER, *words, env=place).returncode, zpp.USAGE, words)


if __name__ == "__main__":
    zpp.main()
