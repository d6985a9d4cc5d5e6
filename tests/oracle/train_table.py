# ctest: name=train_table timeout=60 labels=oracle
"""zpp-validate train-table on studies made here: statistics, MFU, speed-ups and bytes equal values worked out by
hand, and the row of a run names its faults."""

import json
import math
import tempfile
from pathlib import Path

import validate
from zpp_validate.forms import model_flops
from zpp_validate.forms.transformer import Shape
from zpp_validate.stats import bound, sample_statistics

COLUMNS = ("session", "shape", "layout", "kind", "name", "warmup", "exit", "seconds", "loopback_before",
           "loopback_after", "stem", "command")
WARMUP, GB = 5, 10**9
STEADY = [0.5] * 20
# Mean 21, standard deviation sqrt(35): CV 28 %.
SPREAD = [x / 10 for x in range(11, 31)]


def around(mean, variation, count=20):
    """So many samples with this mean, median and coefficient of variation."""
    deviation = mean * variation * ((count - 1) / count) ** 0.5
    return [mean - deviation, mean + deviation] * (count // 2)


BATCH, RANKS = 10, 4
MODEL = {"num_layers": 4, "hidden_size": 1000, "num_attention_heads": 10, "seq_length": 100, "vocab_size": 2000}
GPT, LLAMA = MODEL | {"name": "gpt"}, MODEL | {"name": "llama", "num_key_value_heads": 2, "head_dim": 50}


def check_statistics():
    # Ranks of the 95 % interval of a median, from tables of the sign test.
    for count, rank in ((1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (25, 8), (100, 40)):
        assert sample_statistics.rank_of_interval(count) == rank, (count, sample_statistics.rank_of_interval(count))
    result = sample_statistics.summarize(range(20, 0, -1))
    assert (result.count, result.median, result.low, result.high) == (20, 10.5, 6, 15), result
    assert math.isclose(result.p95, 19.05) and math.isclose(result.variation, math.sqrt(35) / 10.5), result
    one = sample_statistics.summarize([2.0])
    assert (one.median, one.low, one.high, one.p95, one.variation) == (2.0, 2.0, 2.0, 2.0, 0.0), one
    try:
        sample_statistics.summarize([])
    except ValueError:
        pass
    else:
        raise AssertionError("no samples were summarized")
    # 6 (12 * 4 * 10^6 + 2 * 10^6) + 12 * 4 * 100 * 1000
    gpt, llama = Shape.of(GPT), Shape.of(LLAMA)
    assert model_flops.flops_per_token(gpt) == 304_800_000
    # 2816 is 8000 / 3, rounded up to a multiple of 256.
    # 6 (4 (700 + 500 + 3 * 2816) 1000 + 2 * 10^6) + 12 * 4 * 100 * 500
    assert llama.ffn == 2816 and model_flops.flops_per_token(llama) == 245_952_000
    assert math.isclose(model_flops.utilization(1000, 304_800_000, 0.6096), 0.5)
    # 3 (16 * 10^6 + 4 * 100 * 1000) more, and 3 (2 (700 + 500 + 2 * 2816) 1000 + 4 * 100 * 500)
    assert model_flops.hardware_flops_per_token(gpt, 3) == 354_000_000
    assert model_flops.hardware_flops_per_token(llama, 3) == 245_952_000 + 41_592_000
    assert model_flops.blocks_recomputed(gpt.layers) == 3


def check_bound():
    def named(time, forward, backward, exposed, across=0):
        values = {"time": time, "time_forward": forward, "time_backward": backward,
                  "time_communication_exposed": exposed, "bytes_inter_node": across}
        return bound.bound_by({name: [value] for name, value in values.items()})

    for wanted, times in (
            ("compute 97 %", (1.0, 0.375, 0.625, 0.03)),
            ("compute 75 %", (1.0, 0.25, 0.625, 0.125, 8)),
            ("communication inside the node 50 %", (1.0, 0.25, 0.625, 0.5)),
            ("communication across nodes 51 %", (1.0, 0.25, 0.625, 0.51, 8)),
            ("communication across nodes 100 %", (1.0, 0.5, 0.5, 1.0, 8)),
            ("host and optimizer 75 %", (1.0, 0.125, 0.125, 0.125, 8)),
            # Ties: of all three, then of two.
            ("compute 33 %", (0.375, 0.125, 0.125, 0.125, 8)), ("compute 50 %", (1.0, 0.5, 0.5, 0.5, 8)),
            ("compute 50 %", (1.0, 0.25, 0.25, 0.0)),
            ("communication inside the node 50 %", (1.0, 0.25, 0.25, 0.5)),
            # The largest of different ranks: 3/2 s of schedule in a step of 1 s; 3/4 s of waits in a schedule of 1/2 s.
            ("compute 75 %", (1.0, 0.75, 0.75, 0.375)),
            ("communication inside the node 60 %", (1.0, 0.25, 0.25, 0.75)),
            ("-", (1.0, 0.0, 0.0, 0.0))):
        assert named(*times) == wanted, (times, named(*times), wanted)
    # Medians of the columns: one step is long, another waits for long, and one or two cross nodes.
    steps = {"time": [1.0, 1.0, 9.0], "time_forward": [0.25, 0.25, 4.5], "time_backward": [0.5, 0.5, 4.5],
             "time_communication_exposed": [9.0, 0.5, 0.5], "bytes_inter_node": [0, 8, 0], "loss": [1, 2, 3]}
    assert bound.bound_by(steps) == "communication inside the node 50 %", bound.bound_by(steps)
    steps["bytes_inter_node"] = [0, 8, 8]
    assert bound.bound_by(steps) == "communication across nodes 50 %", bound.bound_by(steps)
    for name in bound.COLUMNS:
        without = {other: values for other, values in steps.items() if other != name}
        assert bound.bound_by(without) == bound.bound_by({**without, name: []}) == "-", name


class Study:
    def __init__(self, folder):
        self.folder, self.rows = folder, ["\t".join(COLUMNS)]
        (folder / "runs").mkdir(parents=True)

    def add(self, kind, name, summary, code=0, log="", session="s1", layout="emulated", loopback=(0, 0), seconds=9):
        stem = f"{len(self.rows):03d}-{name}"
        if summary is not None:
            text = summary if isinstance(summary, str) else json.dumps(summary)
            (self.folder / "runs" / f"{stem}.json").write_text(text)
        (self.folder / "runs" / f"{stem}.log").write_text(log)
        self.rows.append("\t".join(map(str, (session, "shape", layout, kind, name, WARMUP, code, seconds, *loopback,
                                             stem, "command \"with' quotes"))))

    def table(self, *words):
        (self.folder / "runs.tsv").write_text("\n".join(self.rows) + "\n")
        done = validate.run("train-table", self.folder, *words)
        assert not (self.folder / "table.md").exists()  # of a study that is kept, a table may be committed there
        tables = []
        for line in done.stdout.splitlines():
            if line.startswith("## "):
                tables.append([])
            elif line.startswith("| ") and not line.startswith(("| run ", "| ---")):
                tables[-1].append([cell.strip() for cell in line.split("|")[1:-1]])
        return done, tables


def peer(seconds, node_size=2, loopback=3 * GB, recompute=False):
    return {"step_seconds": seconds, "world_size": RANKS, "node_size": node_size, "emulated": node_size is not None,
            "loopback_bytes_per_step": loopback, "peak_memory_bytes": 3 * 2**30,
            "options": MODEL | {"micro_batch_size": BATCH, "recompute": recompute}}


def zpp(seconds, inter=2 * GB, predicted=None, verdict="VALID", modelled=0, transport="nccl", recompute=False,
        shares=None):
    steps = WARMUP + len(seconds)
    predicted = inter if predicted is None else predicted
    # Forward, backward and exposed; the warm-up waits for most of its time.
    split = {} if shares is None else {
        name: [warmup] * WARMUP + [share * second for second in seconds] for name, warmup, share in
        zip(("time_forward", "time_backward", "time_communication_exposed"), (40.0, 40.0, 77.0), shares)}
    return {"world_size": RANKS, "node_count": 2, "emulated": 1, "verdict": verdict, "transport": transport,
            "config": {"train_batch_size": BATCH * RANKS,
                       "zeropp": {"model": GPT | {"recompute_activations": recompute}}},
            "steps": {"time": [99.0] * WARMUP + seconds, **split,
                      "bytes_inter_node": [inter] * steps, "bytes_predicted_inter_node": [predicted] * steps,
                      "bytes_intra_node": [7] * steps, "bytes_predicted_intra_node": [7] * steps,
                      "skipped": [0] * steps},
            "memory": {"name": ["master", "buffers_peak"], "bytes_actual": [5, 2**30]},
            "collectives": {"modelled": [modelled], "wire_bytes_inter": [inter]}}


def main():
    check_statistics()
    check_bound()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = Study(folder / "good")
        study.add("peer", "fsdp2", peer([1.01] * 20))
        study.add("peer", "fsdp2-compile", peer([1.0] * 20))
        study.add("peer", "hybrid", peer([0.4] * 20))
        study.add("zeropp", "all", zpp(STEADY, shares=(0.25, 0.5, 0.25)), loopback=(10 * GB, 62 * GB + GB // 2))
        study.add("zeropp", "none", zpp([2.0] * 20, modelled=1, shares=(0.25, 0.5, 0.75)))
        study.add("zeropp", "recompute", zpp(STEADY, recompute=True), loopback=(0, 60 * GB))
        study.add("peer", "fsdp2-recompute", peer([2.0] * 20, recompute=True))
        study.add("zeropp", "noisy", zpp(SPREAD), loopback=(0, 100 * GB))
        study.add("zeropp", "few", zpp([6.0] * 5), loopback=(0, 10 * GB))
        study.add("plugin", "plugin-both", peer([0.25] * 20))
        study.add("zeropp", "not-alone", zpp(STEADY), loopback=("", ""))
        study.add("peer", "fsdp2", peer([1.1] * 20))
        study.add("peer", "fsdp2", peer([8.0] * 20, node_size=None), session="s2", layout="node")
        done, (rows, other) = study.table("--peak-tflops", "1.2192")
        assert done.returncode == 0, done
        fsdp2, compiled, hybrid, full, plain, again, peer_again, noisy, few, plugin, not_alone, _ = rows
        # 1000 tokens per GPU in half a second, 304.8 MFLOP each: half of 1.2192 TFLOP/s. 105 GB / 2 over 25 steps.
        assert full == ["all", "500.0", "500.0 to 500.0", "500.0", "0.0%", "2,000", "50.0%", "50.0%", "125.0",
                        "compute 50 %", "2.000", "2.000", "2.100", "1.0", "2.00x", "0.80x", ""], full
        # 354 and 370.4 MFLOP: 58.07 % of the peak at 2000 tokens/s, 15.19 % at 500.
        assert again[6:8] == ["50.0%", "58.1%"] and peer_again[6:8] == ["12.5%", "15.2%"], (again, peer_again)
        assert fsdp2[:2] == ["fsdp2", "1,010.0"] and fsdp2[8:] == ["-", "-", "-", "-", "3.000", "3.0", "0.99x", "0.40x",
                                                                  ""], fsdp2
        assert compiled[14] == "1.00x" and hybrid[14:16] == ["2.50x", "1.00x"], (compiled, hybrid)
        assert plain[8:10] == ["1,500.0", "communication across nodes 75 %"], plain
        assert noisy[8:10] == ["-", "-"], noisy  # a trace without the times of the compute stream
        assert plain[14] == "0.50x" and "slower than FSDP2" in plain[-1] and "modelled" in plain[-1], plain
        assert noisy[1:3] == ["2,050.0",
                              "1,600.0 to 2,500.0"] and noisy[-1] == "unsteady: run again; slower than FSDP2", noisy
        assert "samples" not in few[-1], few
        # The plug-in is compared with FSDP2, and nothing with the plug-in.
        assert plugin[12:] == ["3.000", "3.0", "4.00x", "1.60x", ""], plugin
        assert not_alone[12:] == ["-", "1.0", "2.00x", "0.80x", ""], not_alone
        assert "drifted by 8.9%" in done.stdout, done.stdout
        assert "2 x 2, emulated" in done.stdout and "session s2: 1 x 4\n" in done.stdout, done.stdout
        assert other[0][14:16] == ["1.00x", "-"], other

        # Ratios are over the fastest steady run of all variants, however fast an unsteady one was.
        study = Study(folder / "unsteady")
        for name, mean, variation in (("fsdp2", 1.0, 0.03), ("fsdp2-compile", 0.9, 0.049), ("fsdp2-symm", 0.8, 0.06),
                                      ("hybrid", 0.6, 0.2),
                                      ("fsdp2", 1.1, 0.0), ("fsdp2-compile", 0.95, 0.0), ("hybrid-pairs", 0.5, 0.1)):
            study.add("peer", name, peer(around(mean, variation)))
        study.add("zeropp", "all", zpp([0.45] * 20), loopback=(0, 60 * GB))
        done, (rows,) = study.table()
        assert done.returncode == 0, done
        assert [row[14] for row in rows] == ["0.90x", "1.00x", "1.12x", "1.50x", "0.82x", "0.95x", "1.80x",
                                             "2.00x"], rows
        assert [row[15] for row in rows][-2:] == ["1.00x", "1.11x"], rows  # no hybrid run is steady: the fastest
        assert [row[16] for row in rows] == ["CV above 2%", "CV above 2%", *["unsteady: run again"] * 2, "", "",
                                             "unsteady: run again", ""], rows
        assert done.stdout.count("took") == 1, done.stdout
        assert ("fsdp2-symm took 800.0 ms in an unsteady run, fsdp2-compile 900.0 in the steady one that ratios "
                "are taken "
                "over: run again.") in done.stdout, done.stdout

        study = Study(folder / "bad")
        study.add("zeropp", "no-peer", zpp(STEADY[:19]), loopback=(0, GB))
        study.add("zeropp", "other-bytes", zpp(STEADY, predicted=1), loopback=(0, 60 * GB))
        study.add("zeropp", "invalid", zpp(STEADY, verdict="INVALID: loss | is not finite"), code=1,
                  loopback=(0, 60 * GB))
        study.add("zeropp", "died", None, code=3, log="starting\nzpp_train: error: no GPU\nmpirun: bye\n")
        study.add("peer", "fsdp2", None, code=1, log="Traceback\n\nOutOfMemoryError: 141 GB\n")
        study.add("peer", "hybrid", None, code=124, seconds=300)
        study.add("peer", "fsdp2-compile", "{}")
        study.add("zeropp", "warm-up-only", zpp([]))
        done, (rows,) = study.table("--output", folder / "bad.md")
        assert (folder / "bad.md").read_text() == done.stdout
        assert done.returncode == 1 and "7 problems" in done.stderr, done.stderr
        notes = {row[0]: row[-1] for row in rows}
        for run, words in {"no-peer": ("no FSDP2 to compare with", "19 samples only", "lo sent less"),
                           "other-bytes": ("inter-node bytes differ",), "invalid": ("INVALID: loss / is",),
                           "died": ("exit code 3: zpp_train: error: no GPU",), "hybrid": ("time limit after 300 s",),
                           "fsdp2": ("exit code 1: OutOfMemoryError: 141 GB",),
                           "fsdp2-compile": ("no summary of a run: it has no options: run it again",),
                           "warm-up-only": ("failed",)}.items():
            for word in words:
                assert word in notes[run], (run, word, notes[run])
        assert [row[1] for row in rows] == ["500.0", "500.0", "500.0", "-", "-", "-", "-", "-"], rows

        done = validate.run("train-table", folder / "nowhere")
        assert done.returncode == 5 and done.stderr.count("\n") == 1 and "nowhere" in done.stderr, done
    print("statistics, speed-ups and reasons are those worked out by hand")


main()
