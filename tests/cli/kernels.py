# ctest: name=kernels cuda=mpi labels=cli timeout=300
"""zpp_kernels: the rows that there are, a quick run of all of them, its table, JSON and trace that say the same, and
what it refuses."""

import json
import os
import pathlib
import re
import statistics

import zpp

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
PROGRAM = str(zpp.BIN / "zpp_kernels")
# Machines list caches of hundreds of megabytes, which take seconds to fill for each kernel.
CACHE = ["--cache", "4M"] if zpp.BACKEND == "host" else []
SMALL = [*CACHE, "--values", "20000", "--shape", "2x16x64x2", "--vocab", "101", "--images", "3", "--samples", "6"]
# The head's width of a GPU's fused attention and the hidden size of its embedding are multiples of 8.
CODECS = ["int8:256", "int4:128"]
KERNELS = {"copy", "clear", "convert", "encode", "decode", "decode_add", "decode_reduce", "decode_reduce_encode",
           "reorder_encode", "exact_count", "exact_encode", "exact_decode", "adamw", "adamw_encode", "gradient_norm",
           "add", "embedding_forward", "embedding_backward", "layernorm_forward", "layernorm_backward",
           "rmsnorm_forward", "rmsnorm_backward", "linear_forward", "linear_gelu_forward", "linear_backward",
           "swiglu_forward", "swiglu_backward", "rotary", "attention_forward", "attention_backward", "cross_entropy"}


def name_of(row):
    return f"{row['kernel']}/{row['variant']}/{row['dtype']}/{row['shape']}"


class Kernels(zpp.TestCase):
    def run_program(self, *words, env=None):
        backend = [] if "--backend" in words else ["--backend", zpp.BACKEND]
        command = [PROGRAM, *words, *backend, "--output", self.out]
        return zpp.Process(command, cwd=self.folder, env=env).end(timeout=240)

    def measured(self, *words):
        """(standard output, JSON)"""
        path = self.folder / "kernels.json"
        result = self.check_ok(self.run_program(*words, "--json", path))
        return result.stdout, json.loads(path.read_text())

    def names(self, *words):
        result = self.check_ok(self.run_program("--list", *words))
        return [line for line in result.stdout.splitlines() if not line.startswith("#")]

    def refused(self, *words, code=zpp.USAGE):
        *words, part = words
        words += [] if "--backend" in words else ["--backend", "host"]
        result = self.run_program(*words, env={"CUDA_VISIBLE_DEVICES": ""})
        self.check_fails(result, code, *([part] if isinstance(part, str) else part), program="zpp_kernels")

    def test_list(self):
        names = self.names("--dtype", "fp32,bf16,fp16")
        self.assertEqual({name.split("/")[0] for name in names}, KERNELS)
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("encode/int8:256/bf16/1024", self.names("--dtype", "bf16", "--values", "1K"))
        self.assertEqual(self.names("--filter", "^encode/int4", "--dtype", "fp16", "--values", "7", "--images", "7"),
                         ["encode/int4:128/fp16/7"])
        self.assertFalse(self.out.exists())

    def test_every_kernel_and_every_output(self):
        out, found = self.measured(*SMALL, "--dtype", "fp32,bf16,fp16")
        self.assertEqual((found["schema"], found["verdict"], found["backend"]),
                         ("zeropp-kernels", "VALID", zpp.BACKEND))
        self.assertEqual([name_of(row) for row in found["rows"]], self.names(*SMALL, "--dtype", "fp32,bf16,fp16"))
        ceilings = {ceiling["name"]: ceiling for ceiling in found["ceilings"]}
        self.assertLessEqual({"copy", "read", "write", "fp32", "copy again"}, set(ceilings))
        self.assertEqual("memcpy" in ceilings, zpp.BACKEND == "host")
        for name in ("bf16", "to host", "from host"):
            self.assertEqual(name in ceilings, zpp.BACKEND == "cuda", name)
        lines = [line for line in out.splitlines() if line and not line.startswith(("#", "kernel "))]
        self.assertEqual(len(lines), len(found["rows"]))
        for line, row in zip(lines, found["rows"]):
            with self.subTest(row=name_of(row)):
                self.check_row(row, ceilings, found)
                words = line.split()
                self.assertEqual(words[:4], [row["kernel"], row["variant"], row["dtype"], row["shape"]])
                self.assertAlmostEqual(float(words[4]), row["time"], delta=0.006)
                self.assertEqual(int(words[7]), len(row["samples"]))
                self.assertEqual(words[13], row["limit"])
                self.assertAlmostEqual(float(words[14]), 100 * row["of_limit"], delta=0.06)
        self.assertRegex(out, r"(?m)^# Verdict : VALID$")

    def check_row(self, row, ceilings, found):
        self.assertEqual((row["verdict"], len(row["samples"])), ("VALID", 6))
        self.assertAlmostEqual(row["time"], statistics.median(row["samples"]), delta=1e-9 * row["time"])
        moved = row["read"] + row["written"]
        self.assertAlmostEqual(row["bandwidth"], moved / row["time"] / 1e3, delta=1e-6 * row["bandwidth"])
        self.assertGreaterEqual(row["sets"] * moved, min(4 * found["cache_bytes"], 4096 * moved))
        reference = ceilings["memcpy" if zpp.BACKEND == "host" else "copy"]["rate"]
        self.assertAlmostEqual(row["of_copy"], row["bandwidth"] * 1e9 / reference, delta=1e-6 * row["of_copy"])
        amount = row["operations"] if row["limit"] in ("fp32", "bf16") else moved
        least = amount / ceilings[row["limit"]]["rate"]
        self.assertAlmostEqual(row["of_limit"], least / row["time"] * 1e6, delta=1e-6 * row["of_limit"])

    def test_trace(self):
        _, found = self.measured(*SMALL, "--filter", "encode|layernorm")
        root, groups = zpp.read_trace(self.out / "kernels.h5")
        self.assertEqual((root["app"], root["verdict"], root["backend"]), ("kernels", "VALID", zpp.BACKEND))
        results, samples = groups["results"], groups["samples"]
        self.assertEqual(results["time"], [row["time"] for row in found["rows"]])
        self.assertEqual(results["of_limit"], [row["of_limit"] for row in found["rows"]])
        self.assertEqual(samples["result"], [i for i in range(len(found["rows"])) for _ in range(6)])
        wanted = [value for row in found["rows"] for value in row["samples"]]
        for got, value in zip(samples["time"], wanted):
            self.assertAlmostEqual(got * 1e6, value, delta=1e-9 * value)
        checked = self.check_ok(zpp.check_trace(self.out / "kernels.h5"))
        self.assertEqual(checked.stdout, "VALID\n")

    def test_the_machines_cache_is_taken_unless_another_is_given(self):
        copy = ["--values", "20000", "--samples", "5", "--filter", "^copy/", "--dtype", "fp32"]
        for words, cache in (([], None), (["--cache", "5M"], 5 << 20)):
            _, found = self.measured(*copy, *words)
            self.assertEqual(found["cache_bytes"] == 5 << 20, cache is not None)
            (row,) = found["rows"]
            self.assertEqual(row["sets"], min(4096, -(-4 * found["cache_bytes"] // (row["read"] + row["written"]))))

    def test_samples_end_when_known_or_when_time_is_up(self):
        _, found = self.measured(*SMALL[:-2], "--max-seconds", "0.02", "--filter", "^(copy|encode)/")
        for row in found["rows"] + found["ceilings"]:
            self.assertGreaterEqual(len(row["samples"]), 5)
            low, high = row["ci95"]
            self.assertTrue(low <= row["time"] <= high)

    def test_help_says_how_shares_are_counted(self):
        out = self.check_ok(zpp.Process([PROGRAM, "--help"]).end()).stdout
        for part in ("memcpy, whose bytes count once", "read + written", "every input read once",
                     "checked before it is timed"):
            self.assertIn(part, re.sub(r"\s+", " ", out))

    def test_refusals(self):
        self.refused("--codec", "int9", ["--codec", "int9", "nearest"])
        self.refused("--codec", "int8:7", "int8:7")
        self.refused("--codec", "int8,int8", "given twice")
        self.refused("--filter", "encod3", ["--filter", "encod3", "nearest kernel: encode", "--list"])
        self.refused("--filter", "(", ["--filter", "no regular expression"])
        self.refused("--dtype", "fp64", ["--dtype", "fp64", "bf16"])
        self.refused("--dtype", "fp16", "--filter", "^layernorm", "no row")
        self.refused("--shape", "8x16x30x4", ["--shape", "8x16x30x4", "multiple of the heads"])
        self.refused("--shape", "8x16", "SEQUENCESxLENGTHxHIDDENxHEADS")
        self.refused("--images", "0", ["--images", "from 1 to"])
        self.refused("--samples", "3", "--max-seconds", "1", "no effect")
        self.refused("--kernel", "encode", ["unknown flag --kernel", "nearest"])
        self.refused("--backend", "cuda", "--list", "no GPU", code=zpp.ENVIRONMENT)
        result = zpp.launch([(2, [PROGRAM, "--list"])], cwd=self.folder, patient=True).end()
        self.check_fails(result, zpp.USAGE, "2 ranks", "one process", program="zpp_kernels")

    def test_files_that_cannot_be_written(self):
        self.out.mkdir()
        (self.out / "kernels.h5").write_text("not ours")
        result = self.run_program(*SMALL, "--filter", "^add/", "--backend", "host")
        self.assertEqual(result.code, zpp.IO, result)
        self.assertEqual((self.out / "kernels.h5").read_text(), "not ours")


zpp.skip_without_gpus(1)
zpp.main()
