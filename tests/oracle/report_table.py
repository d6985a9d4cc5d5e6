# ctest: name=report_table timeout=180 labels=oracle,nightly
"""zpp-validate report on traces made here: the saved factors equal factors worked out by hand.

One unit of 2^20 bf16 values on 2 nodes x 2 ranks, one micro-step. S = 2^18 values is a shard, W = 2 S bytes.
ZeRO-3 gathers twice and reduces once: a flat ring crosses nodes on 2 links, 3 shards each, so 3 * 6 W bytes; a
two-level collective sends every shard to one other node, so 3 * 4 W. ZeRO++ gathers once, two-level, in int8:256
(S + S / 128 bytes) and reduces once in int4:128 (S / 2 + S / 64).
"""

import json
import math
import os
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import h5py
import numpy

import validate

SHARD = 1 << 18
FLAT = 3 * 6 * 2 * SHARD
ALL = 4 * (SHARD + SHARD // 128) + 4 * (SHARD // 2 + SHARD // 64)
STEPS = 6


def write_trace(path, counted, predicted, qwz=False, hpz=1, qgz=False, loss=1.5, bits=2.25, exposed=None,
                seconds=0.125):
    text = h5py.string_dtype()
    with h5py.File(path, "w") as trace:
        config = {"zero_optimization": {"stage": 3, "zero_quantized_weights": qwz, "zero_hpz_partition_size": hpz,
                                        "zero_quantized_gradients": qgz, "reduce_bucket_size": 1 << 30},
                  "optimizer": {"type": "AdamW", "params": {}},
                  "zeropp": {"weight_codec": "int8:256", "gradient_codec_intra": "int4:128",
                             "gradient_codec_inter": "int4:128", "all_gather_algorithm": "two-level",
                             "reduce_scatter_algorithm": "2-hop"},
                  "bf16": {"enabled": True}, "gradient_accumulation_steps": 1}
        trace.attrs.update(world_size=4, node_count=2, emulated=1, config_json=json.dumps(config))
        columns = {
            "ranks/node": [0, 0, 1, 1], "tensors/unit": [0], "tensors/elements": [4 * SHARD],
            "steps/bytes_inter_node": [counted + 99] + [counted] * (STEPS - 1),
            "steps/bytes_predicted_inter_node": [predicted + 99] + [predicted] * (STEPS - 1),
            "steps/time": [0.5] + [seconds] * (STEPS - 1),
            "collectives/wire_bytes_inter": [counted, 0],
            "evaluations/step": [0, 3, 6], "evaluations/loss": [5.5, 2.5, loss],
            "evaluations/bits_per_byte": [8.0, 4.0, bits],
            "timers/seconds": [6.0, 2.0, 5.0, 3.0, 1.0, 9.0],
        }
        if exposed is not None:
            columns |= {"steps/time_forward": [0.0625] * STEPS, "steps/time_backward": [0.03125] * STEPS,
                        "steps/time_communication_exposed": [0.5] + [exposed] * (STEPS - 1)}
        for name, values in columns.items():
            trace[name] = numpy.array(values)
        for name, values in {"units/name": ["block"], "layers/units": ["0"],
                             "timers/category": ["matmul", "nn", "communication"] * 2,
                             "collectives/operation": ["all_gather", "all_gather"],
                             "collectives/algorithm": ["two-level", "flat"],
                             "collectives/codec": ["int8:256", "none"]}.items():
            trace.create_dataset(name, data=values, dtype=text)
        trace.create_group("data").attrs["unigram_entropy_bits"] = 4.5


def report(folder, *names, link=(), wide=True, columns="120"):
    with mock.patch.dict(os.environ, COLUMNS=columns):
        return validate.run("report", "--output", folder / "out", *link, *(["--wide"] if wide else []),
                            *(folder / name for name in names))


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def check_folded(folder, wide):
    """Without --wide no line is beyond the terminal's width, each part begins with the configuration, and no cell is
    lost."""
    for columns in ("120", "80"):
        folded = report(folder, "zero3.h5", "all.h5", wide=False, columns=columns).stdout
        lines = [line for line in folded.splitlines() if line.startswith("|")]
        assert all(len(line) <= int(columns) for line in lines), folded
        parts, count = cells(folded), len(cells(wide))
        assert len(parts) > count and len(parts) % count == 0, folded
        joined = [[row[0]] for row in cells(wide)]
        for index, row in enumerate(parts):
            assert row[0].strip("-") == joined[index % count][0].strip("-"), folded
            joined[index % count] += row[1:]
        assert [row for index, row in enumerate(joined) if index != 1] == [row for index, row in enumerate(cells(wide))
                                                                           if index != 1], folded


def check_link(folder):
    """Step times over a slow link stand in two columns more, by configuration."""
    link = ("--link", folder / "link", "--link-counters", folder / "link.json")
    (folder / "link.json").write_text('{"bits_per_second": 1e9}')
    (folder / "link" / "one").mkdir(parents=True)
    write_trace(folder / "link" / "one" / "train.h5", ALL, ALL, qwz=True, hpz=2, qgz=True, seconds=0.0625)
    result = report(folder, "zero3.h5", "all.h5", link=link)
    assert result.returncode == 2 and "no run of ZeRO-3" in result.stderr and result.stderr.count(
        "\n") == 1, result.stderr
    (folder / "link" / "two").mkdir()
    write_trace(folder / "link" / "two" / "train.h5", FLAT, FLAT, seconds=0.25)
    result = report(folder, "zero3.h5", "all.h5", link=link)
    assert result.returncode == 0, result.stderr
    header, _, plain, full = cells(result.stdout)
    assert header[12:] == ["ms at 1 Gb/s", "speed-up"], header
    assert plain[12:] == ["250.0", "1.00x"] and full[12:] == ["62.5", "4.00x"], (plain, full)
    result = report(folder, "zero3.h5", "all.h5", link=link[:2])
    assert result.returncode == 2 and "--link-counters" in result.stderr, result.stderr


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_trace(folder / "zero3.h5", FLAT, FLAT, bits=math.nan)
        write_trace(folder / "all.h5", ALL, ALL, qwz=True, hpz=2, qgz=True, loss=1.5123, exposed=0.0625)
        result = report(folder, "zero3.h5", "all.h5")
        assert result.returncode == 0, result.stderr
        header, rule, plain, full = cells(result.stdout)
        assert header[0] == "configuration" and header[5] == "bytes/step" and header[11] == "bound by", header
        assert all(len(cell.strip(":")) > 1 for cell in rule), rule
        # A trace without the times of the compute stream.
        assert plain[11] == "-", plain
        assert plain[4] == "-", plain  # of ids
        assert plain[0] == "ZeRO-3" and plain[5:9] == [f"{FLAT:,}", f"{FLAT:,}", "1.00x", "0.67x"], plain
        # 18 W against 4 (1.0078 + 0.5156) W / 2: 5.91; the two-level baseline sends 12 W: 3.94.
        assert full[0] == "ZeRO++ (all three)" and full[1] == "two-level int8:256", full
        assert full[3:5] == ["1.5123", "2.2500"] and full[7:11] == ["5.91x", "3.94x", "125.0", "75%"], full
        # The step's 1/8 s are 1/16 waiting, 3/32 - 1/16 computing, 1/32 outside.
        assert full[11] == "communication across nodes 50 %", full
        assert "emulated" in result.stdout
        assert (folder / "out" / "table.md").read_text() in result.stdout
        assert (folder / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")

        check_folded(folder, result.stdout)

        shutil.copyfile(folder / "all.h5", folder / "unread.h5")
        with h5py.File(folder / "unread.h5", "r+") as trace:  # of a run that evaluated nothing
            for column in ("step", "loss", "bits_per_byte"):
                del trace[f"evaluations/{column}"]
                trace[f"evaluations/{column}"] = numpy.array([], dtype=int if column == "step" else float)
        unread = report(folder, "zero3.h5", "unread.h5")
        assert unread.returncode == 0, unread.stderr
        assert cells(unread.stdout)[3][3:5] == ["-", "-"], unread.stdout

        for name in ("first", "second"):
            (folder / name).mkdir()
            write_trace(folder / name / "train.h5", ALL, ALL, qwz=True, hpz=2, qgz=True)
        names = [row[0] for row in cells(report(folder, "zero3.h5", "first/train.h5", "second/train.h5").stdout)[2:]]
        assert names == ["ZeRO-3", "ZeRO++ (all three) (first)", "ZeRO++ (all three) (second)"], names

        assert "warning" not in report(folder, "zero3.h5", "first/train.h5").stderr
        with h5py.File(folder / "second" / "train.h5", "r+") as trace:
            config = json.loads(trace.attrs["config_json"])
            trace.attrs["config_json"] = json.dumps(config
                                                    | {"zeropp": config["zeropp"] | {"data": {"source": "text"}}})
        warned = report(folder, "zero3.h5", "second/train.h5").stderr
        assert warned.startswith("zpp-validate report: warning: the runs are of other data, "), warned
        assert warned.count("\n") == 1, warned

        check_link(folder)

        write_trace(folder / "wrong.h5", ALL, ALL + 16, qwz=True, hpz=2, qgz=True)
        result = report(folder, "zero3.h5", "wrong.h5")
        assert result.returncode == 1 and "ZeRO++ (all three)" in result.stderr, (result.returncode, result.stderr)

        (folder / "foreign.h5").write_text("not a trace")
        result = report(folder, "foreign.h5")
        assert result.returncode == 2 and result.stderr.count(
            "\n") == 1 and "foreign.h5" in result.stderr, result.stderr
    print("the report's factors are those worked out by hand")


main()
