# ctest: name=train_shapes timeout=300 labels=cli,nightly processors=2
"""jobscripts/local/train_shapes.sh: each flag of each command that it would run exists; on the host it times a tiny
model and prints the table; a command that fails is a row of it."""

import json
import os
import pathlib
import re

import local_script
import zpp
from local_script import option, run, whole_help

SCRIPT = zpp.SOURCE / "jobscripts" / "local" / "train_shapes.sh"
PEER = (*zpp.VALIDATE, "peer-fsdp2")
FEATURES = "none,none-flat,none-2hop,qwz,hpz,qgz,qwz-qgz,all"
PEERS = (
    "fsdp2,fsdp2-compile,fsdp2-recompute,fsdp2-prefetch,fsdp2-compile-prefetch,fsdp2-symm,fsdp2-compile-autotune,"
    "fsdp2-cudnn,fsdp2-pairs-root,fsdp2-keep,hybrid,hybrid-compile")
PLUGINS = "both,lanes,both-torch,both-hpz,lanes-compile,both-hpz-compile,differences,exact,hybrid"


def read(path):
    """The text of a file in /proc; empty if the process ended meanwhile."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def flags_of(*program):
    """The long flags in its help, with the --no- form of those that are true or false."""
    flags = set(re.findall(r"--[a-z][a-z0-9-]*", whole_help(*program)))
    return flags | {f"--no-{flag[2:]}" for flag in flags}


class TrainShapes(local_script.TestCase):
    script_path = SCRIPT

    def python(self, commands):
        """A program that says as a Python that it has all modules, and does `commands` when it is to train."""
        path = self.folder / "python"
        path.write_text(f"#!/bin/sh\ncase $1 in *needed_modules.py) exit 0 ;; esac\n{commands}\n")
        path.chmod(0o755)
        return path

    def test_every_flag_exists(self):
        known = {"zpp_train": flags_of(zpp.TRAIN), "peer-fsdp2": flags_of(*PEER)}
        for peers in ("auto", PEERS):
            commands = self.dry_run("--gpus", "8", "--features", FEATURES, "--peers", peers, "--plugins", PLUGINS,
                                    "--shapes",
                                    "124m,1.64b,6.86b,9.4b,18.7b,tiny,llama-1.5b,llama-8b,llama-tiny",
                                    "--", "--pipeline-depth", "2")
            self.assertGreater(len(commands), 9 * 3 * (8 + 3))
            for command in commands:
                self.assertEqual(command[:2], ["timeout", "--kill-after=20"])
                program = next(i for i, word in enumerate(command) if pathlib.Path(word).name in known)
                flags = {word for word in command[program:] if word.startswith("--")}
                self.assertEqual(flags - known[pathlib.Path(command[program]).name], set(), command)

    def test_both_sides_train_the_same_model(self):
        shared = ("--num-layers", "--hidden-size", "--num-attention-heads", "--seq-length", "--micro-batch-size",
                  "--vocab-size", "--node-size", "-n")
        wanted = {("124m", None): ("12", "768", "12", "1024", "16"), ("1.64b", None): ("48", "1600", "25", "1024", "8"),
                  ("6.86b", "2"): ("32", "4096", "32", "2048", "4"),
                  ("9.4b", "2"): ("20", "6144", "48", "512", "1"), ("18.7b", "2"): ("40", "6144", "48", "512", "1")}
        for (shape, nodes), sizes in wanted.items():
            commands = self.dry_run("--gpus", "4", "--shapes", shape, "--layouts", "emulated" if nodes else "node")
            kinds = ["peer-fsdp2" if "peer-fsdp2" in command else "zpp_train" for command in commands]
            self.assertEqual((kinds[0], kinds[-1]), ("peer-fsdp2", "peer-fsdp2"))
            self.assertEqual(kinds.count("zpp_train"), 5)
            for command, kind in zip(commands, kinds):
                self.assertEqual(tuple(option(command, flag) for flag in shared), (*sizes, "50257", nodes, "4"))
                steps = int(option(command, "--warmup") or 0) + int(
                    option(command, "--steps" if kind == "peer-fsdp2" else "--train-iters"))
                short = shape in ("9.4b", "18.7b") and "--zero-hpz-partition-size" not in command
                self.assertIn(steps, (8,) if short else (8, 25), command)
            self.assertEqual(len({option(command, "--json") for command in commands}), len(commands))

    def test_both_sides_train_the_same_llama(self):
        wanted = {"llama-8b": ("llama", "8", None, "14336", "500000", "128256"),
                  "llama-tiny": ("llama", "2", "24", "80", None, "257")}
        for shape, sizes in wanted.items():
            for command in self.dry_run("--gpus", "4", "--shapes", shape, "--layouts", "node"):
                self.assertEqual(tuple(option(command, flag) for flag in (
                    "--model", "--num-key-value-heads", "--head-dim", "--ffn-hidden-size", "--rope-theta",
                    "--vocab-size")), sizes)
                self.assertEqual("--add-qkv-bias" in command, shape == "llama-tiny")

    def test_the_plugin_trains_what_its_peer_trains(self):
        commands = self.dry_run("--gpus", "4", "--shapes", "tiny", "--layouts", "emulated", "--features", "",
                                "--peers", "fsdp2",
                                "--plugins", PLUGINS)
        plain, *plugins, _ = commands
        self.assertEqual([("--compile" in command, option(command, "--reshard")) for command in plugins],
                         [(False, None)] * 3 + [(False, "2"), (True, None), (True, "2")] + [(False, None)] * 3)
        self.assertEqual([option(command, "--hybrid") for command in plugins], [None] * 8 + ["2"])
        for command in plugins:
            name, _, arguments = option(command, "--prepare").partition(" ")
            self.assertEqual(name, "zeropp.torch:compress")
            self.assertEqual(json.loads(arguments)["node_size"], int(option(plain, "--node-size")))
            for flag in ("--num-layers", "--hidden-size", "--steps", "--warmup", "--node-size", "--micro-batch-size"):
                self.assertEqual(option(command, flag), option(plain, flag))
        on_one_node = self.dry_run("--gpus", "4", "--shapes", "tiny", "--layouts", "node", "--features", "",
                                   "--peers", "", "--plugins", PLUGINS)
        self.assertEqual(len(on_one_node), 4, "hpZ, and what is for several nodes, on one node")

    def test_variants_run_in_turn(self):
        """Each word of a peer's name is a flag of it, and rounds go through all peers, plugins and features."""
        flags = {"fsdp2": [], "fsdp2-compile-prefetch": ["--compile", "--prefetch", "2"],
                 "fsdp2-symm": ["--symmetric-memory"],
                 "fsdp2-compile-autotune": ["--compile", "--compile", "--autotune"], "fsdp2-recompute": ["--recompute"],
                 "fsdp2-pairs-root-keep-cudnn": ["--blocks-per-group", "2", "--root-group", "--keep-weights",
                                                 "--attention", "cudnn"],
                 "hybrid-compile": ["--hybrid", "2", "--compile"]}
        words = ["--gpus", "4", "--shapes", "tiny", "--layouts", "emulated", "--repeat", "3",
                 "--peers", ",".join(flags)]
        for features, rounds in (("", 3), ("none,all", 4)):
            commands = self.dry_run(*words, "--features", features)
            trained = [command for command in commands if "peer-fsdp2" not in command]
            self.assertEqual(len(trained), 3 * len(features.split(",")) if features else 0)
            of_peers = [command[command.index("--node-size") + 2:command.index("--json")] for command in commands
                        if command not in trained]
            self.assertEqual(of_peers, list(flags.values()) * rounds)
            self.assertEqual(len({option(command, "--json") for command in commands}), len(commands))

    def test_one_gpu_is_compared_with_pytorch_alone(self):
        commands = self.dry_run("--gpus", "1", "--shapes", "124m,1.64b", "--layouts", "node", "--features", "none")
        peers = [{word for word in command if word in ("--plain", "--compile")} for command in commands
                 if "peer-fsdp2" in command]
        self.assertEqual(peers, [{"--plain"}, {"--plain", "--compile"}, {"--compile"}] * 4)
        self.assertEqual(len(commands), len(peers) + 2)

    def test_sockets_are_set_for_both_sides(self):
        for command in self.dry_run("--gpus", "4", "--shapes", "tiny", "--layouts", "emulated-4x4"):
            self.assertIn("NCCL_SOCKET_NTHREADS=4", command)
            self.assertIn("NCCL_NSOCKS_PERTHREAD=4", command)

    def test_emulated_hosts(self):
        """Each command runs on them, and the counters of their interfaces lie beside its summary."""
        commands = self.dry_run("--gpus", "4", "--backend", "host", "--shapes", "tiny", "--layouts", "network-1gbit",
                                "--peers", "fsdp2", "--plugins", "exact", "--features", "all")
        self.assertEqual(len(commands), 4)
        for command in commands:
            network = [option(command, name) for name in ("--hosts", "--ranks-per-host", "--rate")]
            self.assertEqual(network, ["2", "2", "1gbit"])
            self.assertEqual(option(command, "--counters"), option(command, "--json") + ".counters")
            self.assertIsNone(option(command, "--node-size"))
        mixed = self.dry_run("--gpus", "4", "--backend", "host", "--shapes", "tiny", "--layouts",
                             "network-1gbit,emulated,node", "--peers", "", "--features", "none")
        self.assertEqual([option(command, "--hosts") for command in mixed], ["2", None, None])
        done = self.script("--gpus", "4", "--layouts", "network-1gbit", "--dry-run", "--peers", "")
        self.assertEqual(done.returncode, zpp.USAGE, done)
        self.assertIn("--backend host", done.stderr)

    def test_times_a_tiny_model_and_reports_what_fails(self):
        if not zpp.OPEN_MPI:
            self.skipTest("the script starts programs with Open MPI, and this build's MPI is another")
        words = ["--gpus", "2", "--shapes", "tiny", "--backend", "host", "--steps", "5", "--warmup", "1"]
        done = self.script(*words, "--layouts", "node,emulated", "--features", "none,qwz,qgz", "--peers", "")
        self.assertEqual(done.returncode, 0, done)
        study = self.folder / "results" / "here" / "train_shapes"
        self.assertEqual((study / "table.md").read_text(), done.stdout)
        self.assertIn("1 x 2", done.stdout)
        self.assertIn("2 x 1, emulated", done.stdout)
        self.assertEqual(len(list((study / "runs").glob("*.json"))), 6)
        self.assertEqual(list(study.rglob("*.h5")), [])
        self.assertRegex(next(study.glob("session-*.txt")).read_text(), r"(?m)^mpi +\S")  # of zpp_info

        # A second session adds to the first.
        python = self.python("exit 1")
        done = self.script(*words, "--layouts", "node", "--features", "none", "--peers", "fsdp2", "--python", python,
                           "--limit", "50")
        self.assertEqual(done.returncode, 1, done)
        failed = [line for line in done.stdout.splitlines() if line.startswith("| fsdp2")]
        self.assertEqual(len(failed), 2, done)
        self.assertTrue(all("failed: exit code 1" in line for line in failed), done)
        self.assertEqual(len((study / "runs.tsv").read_text().splitlines()), 1 + 6 + 3)
        self.assertTrue((study / "runs" / "008-tiny-node-none.json").exists())

    def test_ends_what_a_run_leaves(self):
        marker = f"3600.{os.getpid()}"
        python = self.python(f"sleep {marker} >/dev/null 2>&1 &\nsleep 60")
        done = self.script("--gpus", "2", "--shapes", "tiny", "--backend", "host", "--layouts", "node",
                           "--features", "",
                           "--peers", "fsdp2", "--python", python, "--limit", "1")
        self.assertEqual(done.stdout.count("ended by the time limit"), 1, done)
        left = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if marker in read(path)]
        self.assertEqual(left, [])

    def test_bad_usage(self):
        for words in (["--shapes", "2b"], ["--features", "qwzz"], ["--peers", "ddp"], ["--peers", "fsdp2-fast"],
                      ["--peers", "plain"], ["--peers", "plain-prefetch", "--gpus", "1"], ["--repeat", "0"],
                      ["--plugins", "gloo"], ["--layouts", "rack"],
                      ["--frob", "1"], ["--backend", "tpu"], ["--gpus", "0"], ["--steps"],
                      ["--gpus", "3", "--layouts", "emulated"]):
            with self.subTest(words=words):
                done = self.script("--gpus", "4", *words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
                self.assertTrue(done.stderr.startswith("train_shapes: error: "), done)

    def test_peer_without_pytorch(self):
        """Its help needs none; training says what is missing, in one line."""
        (self.folder / "torch.py").write_text("raise ModuleNotFoundError('hidden', name='torch')\n")
        done = run(*PEER, env={**os.environ, "PYTHONPATH": str(self.folder)})
        self.assertEqual((done.returncode, done.stderr.count("\n")), (zpp.ENVIRONMENT, 1), done)
        self.assertIn("has no module torch: install torch there, ", done.stderr)
        model = zpp.SOURCE / "validation" / "zpp_validate" / "peers" / "transformer.py"
        compile(model.read_text(), model.name, "exec")

    def test_peer_refuses_sizes(self):
        for words, ranks in ((["--num-attention-heads", "3"], 1), (["--num-key-value-heads", "3"], 1),
                             (["--model", "llama", "--head-dim", "5"], 1), (["--hybrid", "3"], 4),
                             (["--node-size", "3"], 4), (["--steps", "0"], 1)):
            done = run(*PEER, *words,
                       env={**os.environ, "RANK": "0", "WORLD_SIZE": str(ranks), "LOCAL_RANK": "0"})
            self.assertEqual(done.returncode, zpp.USAGE, done)


if __name__ == "__main__":
    zpp.main()
