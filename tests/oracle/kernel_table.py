# ctest: name=kernel_table timeout=60 labels=oracle
"""zpp-validate kernel-table on times made here: every product finds its layer, floors are those worked out by hand, so
are busy, idle and exposed times; steps outside the window do not count; and what is malformed is refused."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from zpp_validate.forms import gpt_floors
from zpp_validate.readers import kernel_file
from zpp_validate.tables import kernel_table

VALIDATE = Path(os.environ["ZEROPP_SOURCE"]) / "validation" / "zpp-validate"
LAYERS, HIDDEN, HEADS, LENGTH, VOCAB, SEQUENCES = 3, 10, 2, 25, 40, 4  # 100 rows
SHAPE = gpt_floors.Shape(LAYERS, HIDDEN, HEADS, LENGTH, VOCAB, SEQUENCES)
# 1 GB/s and 1 GFLOP/s: a byte or an operation is a nanosecond, a product's floor its operations.
UNITS = ["--bandwidth", "0.001", "--tflops", "0.001"]
FLAGS = ["--num-layers", LAYERS, "--hidden-size", HIDDEN, "--num-attention-heads", HEADS, "--seq-length", LENGTH,
         "--vocab-size", VOCAB, "--micro-batch-size", SEQUENCES, *UNITS]
NAMESPACE = "zeropp::nn::cuda_ops::(anonymous namespace)::"
LOSS = f"void {NAMESPACE}cross_entropy_kernel<zeropp::Bf16, 8>(unsigned long, bool)"
PRODUCTS = {"forward": "nvjet_sm90_tst_192x192_64x4_1x2_h_bx_coopB_bias_TNN",
            "data": "sm90_xmma_gemm_bf16_nn_n_tilesize128",
            "weight": "void cutlass::Kernel2<cutlass_80_tensorop_bf16_128x256_32x6_nt_align8>(int)"}
LAYER_TIMES = {"qkv": 1, "proj": 2, "fc": 3, "mlp": 4, "head": 5}  # us, and more by role
ROLE_TIMES = {"forward": 10, "data": 20, "weight": 30}
BACKWARD = ["head"] + ["mlp", "fc", "proj", "qkv"] * LAYERS
FORWARD = ["qkv", "proj", "fc", "mlp"] * LAYERS + ["head"]


class Recording:
    """A file that is filled kernel after kernel."""

    def __init__(self):
        self.lines, self.now = [], 5_000_000

    def add(self, name, us, kind="kernel", stream=7, at=None, wait=0):
        begin = self.now + int(wait * 1000) if at is None else at
        end = begin + int(us * 1000)
        self.lines.append(f"{begin}\t{end}\t0\t{stream}\t{kind}\t{name}")
        if at is None:
            self.now = end
        return begin

    def products(self, role, layers, more=0):
        for layer in layers:
            self.add(PRODUCTS[role], LAYER_TIMES[layer] + ROLE_TIMES[role] + more)

    def micro_step(self, recompute=False, weight_first=True):
        """From a loss to before the next one."""
        self.add(LOSS, 100)
        for layer in BACKWARD:
            if recompute and layer == "mlp" and self.blocks_behind > 0:
                self.products("forward", ["qkv", "proj", "fc"], more=0.5)
            self.blocks_behind += layer == "mlp"
            self.products("weight" if weight_first else "data", [layer])
            self.products("data" if weight_first else "weight", [layer])
        self.products("forward", FORWARD)

    blocks_behind = 0

    def write(self, path, end="# complete, 0 records lost"):
        path.write_text("\n".join([*reversed(self.lines), *([end] if end else [])]) + "\n")
        return path


def table(*words):
    done = subprocess.run([sys.executable, VALIDATE, "kernel-table", *map(str, words)], capture_output=True, text=True,
                          check=False)
    tables, previous = [], []
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if line.startswith("| -"):
            tables.append([])
            header = previous
            tables[-1].append(header)
        elif cells and tables and len(cells) == len(tables[-1][0]) and cells[0] not in ("category", "rank",
                                                                                        "operation"):
            tables[-1].append(cells)
        previous = cells
    return done, [{row[0]: dict(zip(part[0], row)) for row in part[1:]} for part in tables]


def check_products(folder):
    for recompute in (False, True):
        for weight_first in (True, False):
            recording = Recording()
            recording.add(LOSS, 900)  # the skipped step is another
            recording.add(PRODUCTS["forward"], 77)
            for _ in range(3):
                recording.blocks_behind = 0
                recording.micro_step(recompute, weight_first)
            recording.add(LOSS, 100)
            recording.add(PRODUCTS["forward"], 77)  # after the last loss
            done, (rows, categories, ranks) = table(recording.write(folder / "products.tsv"), *FLAGS, "--skip", 1)
            assert done.returncode == 0 and "Note:" not in done.stdout, done
            assert ranks["0"]["steps"] == "3", ranks
            for role, name in kernel_table.ROLE_NAMES.items():
                for layer, us in LAYER_TIMES.items():
                    row = rows[f"{layer} {name}"]
                    calls = 1 if layer == "head" else LAYERS
                    assert row["calls"] == f"{calls:.1f}", row
                    assert row["us a call"] == f"{us + ROLE_TIMES[role]:.1f}", (recompute, weight_first, row)
                    assert row["category"] == "products", row
            again = {name: row for name, row in rows.items() if "recomputed" in name}
            assert set(again) == ({f"{layer} forward, recomputed" for layer in ("qkv", "proj", "fc")}
                                  if recompute else set())
            for row in again.values():
                assert row["calls"] == f"{LAYERS - 1:.1f}" and row["us a call"].endswith(".5"), row
            # 2 * 100 * 10 * 30 operations, three times a step, of 11 us each: 0.18 ms of 0.033 ms.
            assert rows["qkv forward"]["floor (ms)"] == "0.180" and rows["qkv forward"]["of floor"] == "545.5%", rows
            assert rows["head weight gradient"]["floor (ms)"] == "0.080", rows
            assert rows["qkv forward"]["kernels"] == PRODUCTS["forward"], rows
            assert rows["qkv weight gradient"]["kernels"] == "cutlass_80_tensorop_bf16_128x256_32x6_nt_align8", rows


def check_other_products(folder):
    """One product too many: its role stays together, without a floor; the others do not. Splits belong to a product."""
    recording = Recording()
    for _ in range(2):
        recording.add(LOSS, 1)
        recording.products("data", BACKWARD)
        recording.products("weight", BACKWARD + ["qkv"])
        recording.add("void cublasLt::splitKreduce_kernel<32, 16>(int)", 7)
        recording.products("forward", FORWARD)
        recording.add("void cublasLt::splitKreduce_kernel<32, 16>(int)", 7)
    recording.add(LOSS, 1)
    done, (rows, _, _) = table(recording.write(folder / "other.tsv"), *FLAGS, "--skip", 0)
    assert done.returncode == 0 and "Note: 14 products, weight gradient, in a micro-step" in done.stdout, done
    assert rows["products, weight gradient"]["floor (ms)"] == "-", rows
    assert rows["products, weight gradient"]["calls"] == "15.0", rows  # with what finishes the last
    assert rows["head forward"]["ms a step"] == "0.022" and rows["head forward"]["calls"] == "2.0", rows
    assert rows["head input gradient"]["us a call"] == "25.0", rows


def check_device_times(folder):
    """Of a step of 1000 us: loss 100, idle 100, sum 200 | nccl 100..400 of it beside it, alone to 500; a copy, a
    set."""
    recording = Recording()
    for _ in range(4):
        begin = recording.now
        recording.add(LOSS, 100, at=begin)
        recording.add(f"void {NAMESPACE}column_sums_kernel<zeropp::Bf16, 8>(int)", 200, at=begin + 200_000)
        recording.add(f"{NAMESPACE}add_shares_kernel(int)", 5, at=begin + 390_000)
        recording.add("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 200, at=begin + 300_000,
                      stream=9)
        recording.add("3000", 10, "copy", 9, at=begin + 700_000)
        recording.add("4000", 20, "set", 9, at=begin + 800_000)
        recording.add("void zeropp::cuda::for_each_kernel<zeropp::optim::(anonymous namespace)::ByFour<zeropp::optim::"
                      "(anonymous namespace)::Add> >(unsigned long, zeropp::optim::Add)", 5, at=begin + 900_000)
        recording.now = begin + 1_000_000
    recording.add(LOSS, 100)
    first = recording.write(folder / "first.tsv")
    recording.lines = [line for line in recording.lines if "nccl" not in line]
    second = recording.write(folder / "second.tsv", end=None)
    done, (rows, categories, ranks) = table(first, second, *FLAGS, "--skip", 2)
    assert done.returncode == 0, done
    assert list(ranks["0"].values()) == ["0", "2", "1.000", "0.435", "0.565", "0.200", "0.100", "0.100"], ranks
    assert list(ranks["1"].values()) == ["1", "2", "1.000", "0.335", "0.665", "0.000", "0.000", "0.000"], ranks
    assert "2 ranks" in done.stdout and "Note: second.tsv lacks its end" in done.stdout, done.stdout
    assert "A step takes 1.000 ms." in done.stdout, done.stdout
    communication = rows["ncclDevKernel_AllGather_RING_LL"]  # of one of the two ranks
    assert (communication["ms a step"], communication["calls"], communication["us a call"]) == ("0.100", "0.5", "200.0")
    assert rows["copies"]["floor (ms)"] == "0.006" and rows["memory sets"]["floor (ms)"] == "0.004", rows
    assert rows["memory sets"]["of floor"] == "20.0%", rows
    # dy of all biases of a block: 2 bytes * 100 rows * (30 + 10 + 40 + 10), three blocks.
    assert rows["bias gradient"]["floor (ms)"] == "0.054" and rows["bias gradient"]["calls"] == "2.0", rows
    assert rows["bias gradient"]["kernels"] == "column_sums_kernel + add_shares_kernel", rows
    assert rows["cross entropy"]["floor (ms)"] == "0.016", rows  # 2 * 2 bytes * 100 * 40
    assert rows["Add"]["category"] == "optimizer" and rows["Add"]["floor (ms)"] == "-", rows
    assert categories["bias"]["of the step"] == "20.5%", categories
    short, (rows, _, _) = table(first, *FLAGS, "--top", 2, "--output", folder / "table.md")
    assert (folder / "table.md").read_text() == short.stdout
    assert len(rows) == 3 and rows["4 more"]["ms a step"] == "0.135", rows


def check_optimizers():
    """AdamW's kernel has a floor; another optimizer's, and that of other moments, is a row of its own."""
    for rule, expected in (("adamw::Update", "AdamW"), ("sgd::Plain", "update_kernel"),
                           ("adam::Update", "update_kernel")):
        name = (f"void zeropp::optim::cuda_ops::update_kernel<zeropp::optim::rule::{rule}, float>"
                f"(zeropp::optim::GradientScale, zeropp::optim::rule::adamw::Update::Constants)")
        activity = kernel_file.Activity(0, 1, 0, 0, "kernel", name, 0)
        assert kernel_table.classify(activity)[:2] == (expected, "optimizer"), (rule, kernel_table.classify(activity))
    for kernel, chosen in (("update_moments_kernel", "float, "), ("update_tiles_kernel", "")):
        other = (f"void zeropp::optim::cuda_ops::{kernel}<zeropp::optim::rule::adamw::Update, "
                 f"{chosen}(zeropp::optim::Moments)1>(int)")
        assert kernel_table.classify(kernel_file.Activity(0, 1, 0, 0, "kernel", other, 0))[:2] == (kernel, "optimizer")


def check_summary(folder):
    model = {"name": "gpt", "num_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
             "seq_length": LENGTH, "vocab_size": 0,
             "tied_head": False}
    summary = {"world_size": 8, "data": {"vocab_size": VOCAB}, "steps": {"time": [9.0, 0.11, 0.11, 0.12]},
               "config": {"train_micro_batch_size_per_gpu": SEQUENCES, "gradient_accumulation_steps": 2,
                          "bf16": {"enabled": False}, "zero_optimization": {"stage": 3}, "zeropp": {"model": model}}}
    (folder / "run.json").write_text(json.dumps(summary))
    (folder / "plain.json").write_text(json.dumps({"steps": {"time": [9.0, 0.1, 0.1, 0.1]}}))
    recording = Recording()
    for _ in range(6):
        recording.add(LOSS, 100)
        recording.add("void zeropp::cuda::for_each_kernel<zeropp::optim::AdamW>(int)", 50)
    path = recording.write(folder / "summary.tsv")
    done, (rows, _, ranks) = table(path, "--summary", folder / "run.json", "--unrecorded", folder / "plain.json",
                                   "--skip", 1,
                                   *UNITS)
    assert done.returncode == 0, done
    assert "2 x 4 sequences a rank and step, 8 ranks, 32-bit" in done.stdout, done.stdout
    assert "110.000 ms recorded, 100.000 ms unrecorded (+10.0%)" in done.stdout, done.stdout
    assert ranks["0"]["steps"] == "1" and ranks["0"]["step (ms)"] == "0.300", ranks  # one whole step of two, after one
    assert rows["cross entropy"]["calls"] == "2.0", rows
    # (2 * 40 + 25) * 10 + 3 * (1200 + 130) + 20 = 5060 parameters over 8 ranks, 28 bytes each.
    assert SHAPE.parameters == 4660 and rows["AdamW"]["floor (ms)"] == "0.018", rows
    summary["config"]["zeropp"]["model"]["name"] = "encoder"
    (folder / "run.json").write_text(json.dumps(summary))
    done, _ = table(path, "--summary", folder / "run.json")
    assert done.returncode == 2 and "floors of a GPT only" in done.stderr, done
    (folder / "run.json").write_text("{}")
    done, _ = table(path, "--summary", folder / "run.json")
    assert done.returncode == 2 and done.stderr.count(
        "\n") == 1 and "no summary of zpp_train: it has no config" in done.stderr, done


def check_malformed(folder):
    good = "5\t9\t0\t7\tkernel\tcross_entropy"
    for text, words in (("", "too few for one step"), (good, "too few for one step"),
                        ("5\t9\t0\t7\tkernel", "5 columns"),
                        (f"{good}\nfive\t9\t0\t7\tkernel\tx", ":2 is no line of kernel times: a value in it is"),
                        ("9\t5\t0\t7\tkernel\tx", "ends before"),
                        ("5\t9\t0\t7\tcopy\tmany", "another kind"), ("5\t9\t0\t7\tevent\tx", "unknown kind 'event'"),
                        (f"{good}\n5\t9\t1\t7\tkernel\tx", "several GPUs"),
                        ("# complete, 3 records lost", "3 records were lost"),
                        ("\x00\xff garbage", "1 columns")):
        path = folder / "bad.tsv"
        path.write_text(text + "\n" if text else "")
        done, _ = table(path, *FLAGS)
        assert done.returncode == 2 and done.stdout == "", (text, done)
        assert done.stderr.startswith(f"zpp-validate kernel-table: error: {path}"), (text, done)
        assert words in done.stderr, (text, done)
        assert done.stderr.count("\n") == 1, (text, done)
    done, _ = table(folder / "nowhere.tsv", *FLAGS)
    assert done.returncode == 5 and "nowhere.tsv" in done.stderr and done.stderr.count("\n") == 1, done
    for words in (["--bandwidth", "0"], ["--tflops", "inf"], ["--skip", "-1"], ["--unrecorded", folder / "first.tsv"]):
        done, _ = table(folder / "first.tsv", *words)
        assert done.returncode == 2 and "error: " in done.stderr, done


def main():
    assert kernel_file.union([(5, 9), (1, 2), (8, 12), (2, 3)]) == [[1, 3], [5, 12]]
    assert kernel_table.role_of("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1") == "forward"
    assert kernel_table.role_of("nvjet_sm90_tss_320x128_64x3_1x2_h_badd_coopB_NTT") == "weight"
    assert kernel_table.role_of("nvjet_sm90_tst_192x192_64x3_1x2_h_bz_coopB_NNN") == "data"
    assert kernel_table.role_of("gemv2T_kernel_val") is None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_products(folder)
        check_other_products(folder)
        check_device_times(folder)
        check_summary(folder)
        check_optimizers()
        check_malformed(folder)
    print("operations, floors and device times are those worked out by hand")


main()
