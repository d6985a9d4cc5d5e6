# ctest: name=kernel_times_script timeout=120 labels=cli,nightly processors=2
"""jobscripts/local/kernel_times.sh: each flag of each command that it would run exists; with a program that stands for
zpp_train and writes what the library would, it makes the table; where nothing is recorded it says so."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import local_script
import zpp

FOLDER = zpp.SOURCE / "jobscripts" / "local"

# Stands for zpp_train: two losses a step and 1 ms between, and the summary that the table reads.
PROGRAM = """#!{python}
import json, os, sys
words = sys.argv[1:]
value = lambda flag: words[words.index(flag) + 1]
steps = int(value("--train-iters"))
number = lambda flag: int(value(flag))
json.dump({{"world_size": int(os.environ["OMPI_COMM_WORLD_SIZE"]), "steps": {{"time": [0.001] * steps}},
           "config": {{"train_micro_batch_size_per_gpu": number("--micro-batch-size"), "gradient_accumulation_steps": 1,
                      "bf16": {{"enabled": True}}, "zero_optimization": {{"stage": 3}},
                      "zeropp": {{"model": {{"name": "gpt", "num_layers": number("--num-layers"), "hidden_size": \
number("--hidden-size"),
                                 "num_attention_heads": 4, "seq_length": number("--seq-length"), "tied_head": False,
                                 "vocab_size": number("--vocab-size")}}}}}}}}, open(value("--json"), "w"))
prefix = os.environ.get("ZEROPP_KERNEL_TIMES")
if prefix and os.environ["CUDA_INJECTION64_PATH"].endswith("/lib/libkernel_times.so") and {records}:
    with open(f"{{prefix}}.{{os.getpid()}}.tsv", "w") as out:
        for step in range(steps):
            out.write(f"{{step * 10**6}}\\t{{step * 10**6 + 400000}}\\t0\\t7\\tkernel\\tcross_entropy_kernel\\n")
        out.write("# complete, 0 records lost\\n")
"""


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=90,
                          check=False, **options)


def flags_of(*program):
    flags = set(re.findall(r"--[a-z][a-z0-9-]*", local_script.whole_help(*program)))
    return flags | {f"--no-{flag[2:]}" for flag in flags}


class KernelTimes(zpp.TestCase):
    def script(self, *words, build=None):
        return run(FOLDER / "kernel_times.sh", "--build", build or zpp.BIN.parent, "--results", self.folder / "results",
                   "--machine", "here", "--table-python", sys.executable, *words)

    def build(self, records):
        """A folder as the build's."""
        folder = self.folder / "build"
        (folder / "bin").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "lib" / "libkernel_times.so").touch()
        for name, text in (("zpp_train", PROGRAM.format(python=sys.executable, records=records)),
                           ("zpp_info", "#!/bin/sh\necho versions\n")):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        return folder

    def test_every_flag_exists(self):
        known = {"zpp_train": flags_of(zpp.TRAIN), "kernel-table": flags_of(*zpp.VALIDATE, "kernel-table")}
        for shape in ("1.64b", "6.86b", "9.4b", "18.7b", "tiny"):
            done = self.script("--dry-run", "--gpus", "4", "--shape", shape, "--layout", "emulated", "--feature", "all",
                               "--ranks", "all", "--bandwidth", "3", "--tflops", "500", "--", "--autotune-gemm")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            commands = [shlex.split(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(commands), 3, done)
            self.assertEqual([any("record_kernels.sh" in word for word in command) for command in commands],
                             [False, True, False])
            for command in commands:
                program = next(i for i, word in enumerate(command) if pathlib.Path(word).name in known)
                flags = {word for word in command[program:] if word.startswith("--")}
                self.assertEqual(flags - known[pathlib.Path(command[program]).name], set(), command)
            self.assertIn("--zero-quantized-weights", commands[1])
        self.assertFalse((self.folder / "results").exists())

    def test_makes_the_table_of_what_was_recorded(self):
        words = ["--gpus", "2", "--shape", "tiny", "--ranks", "1", "--steps", "3", "--warmup", "1"]
        done = self.script(*words, build=self.build(True))
        self.assertEqual(done.returncode, 0, done)
        study = self.folder / "results" / "here" / "kernels"
        table, = study.glob("*-tiny-node-none.md")
        self.assertEqual(table.read_text(), done.stdout)
        self.assertIn("GPT of 2 x 64, 4 heads, 32 tokens, vocabulary 257; 1 x 2 sequences a rank and step, 2 ranks",
                      done.stdout)
        self.assertIn("1.000 ms recorded, 1.000 ms unrecorded (+0.0%)", done.stdout)
        self.assertRegex(done.stdout, r"\| +0 \| +3 \| +1\.000 \| +0\.400 \| +0\.600 \|")
        self.assertEqual(len((study / "runs.tsv").read_text().splitlines()), 1 + 2)

    def test_says_that_nothing_was_recorded(self):
        done = self.script("--gpus", "1", "--shape", "tiny", build=self.build(False))
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("kernel_times: error: nothing was recorded", done.stderr)

    def test_only_the_ranks_that_are_asked_for_are_recorded(self):
        for ranks, rank, wanted in (("0", "0", True), ("0", "1", False), ("all", "3", True), ("3", "3", True)):
            done = run(FOLDER / "record_kernels.sh", "here.so", "there", ranks, "env",
                       env={"PATH": os.environ["PATH"], "OMPI_COMM_WORLD_RANK": rank})
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual("CUDA_INJECTION64_PATH=here.so\n" in done.stdout, wanted, done)
            self.assertEqual(f"ZEROPP_KERNEL_TIMES=there.000{rank}\n" in done.stdout, wanted, done)
        self.assertEqual(run(FOLDER / "record_kernels.sh", "here.so").returncode, 2)

    def test_bad_usage(self):
        for words in (["--shape", "2b"], ["--feature", "qwzz"], ["--layout", "rack"], ["--frob", "1"], ["--gpus", "0"],
                      ["--steps", "0"], ["--steps"], ["--ranks", "4"], ["--ranks", "some"], ["--warmup", "-1"]):
            with self.subTest(words=words):
                done = self.script("--gpus", "4", *words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
                self.assertTrue(done.stderr.startswith("kernel_times: error: "), done)
        done = self.script("--gpus", "1", build=self.folder / "nowhere")
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("--target zpp_train zpp_info kernel_times", done.stderr)


if __name__ == "__main__":
    zpp.main()
