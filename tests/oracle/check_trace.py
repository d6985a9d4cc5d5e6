# ctest: name=check_trace timeout=120
"""validation/check_trace.py on synthetic traces: VALID for right ones of many kinds, INVALID for every
corruption. The bytes of the traces come from a plain message-by-message count, written here apart from
the closed forms."""

import contextlib
import hashlib
import importlib.util
import io
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
CHECKER = SOURCE / "validation" / "check_trace.py"
sys.path.insert(0, str(CHECKER.parent))
spec = importlib.util.spec_from_file_location("checker", CHECKER)  # this file has the same name
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)
TEXT = ("version git_commit build_type cxx_compiler mpi_library hdf5_version kokkos_version blas_library "
        "backend run_id started_at command_line").split()
TIMERS = "matmul nn codec optimizer communication data other".split()


def up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


def image(codec, count, element):
    """Bytes of one wire image, block by block."""
    if codec == "none":
        return up(count * element, 16)
    bits, block = (int(x) for x in codec[3:].split(":"))
    payload = scales = 0
    for _ in range(0, count, block):
        payload += block * bits // 8
        scales += 2
    return up(payload, 16) + up(scales, 16)


class Network:
    """Sends messages one by one and adds them up, in the row that is being written."""

    def __init__(self, nodes, secondary):
        self.nodes, self.secondary, self.rows = nodes, secondary, {}

    def begin(self, *key, part):
        """One more run of operation, purpose, phase, algorithm, codec and group; `part`: bytes that each rank
        of the group has, uncompressed, for each other."""
        self.row = self.rows.setdefault(key, [0, 0, 0, 0])
        self.row[2] += 1
        group = len(self.nodes) if key[5] == "world" else self.secondary
        for rank in range(len(self.nodes)):
            for other in range(len(self.nodes)):
                if rank != other and rank // group == other // group:
                    self.row[3] += part

    def send(self, source, target, count):
        self.row[0 if self.nodes[source] == self.nodes[target] else 1] += count

    def gather(self, algorithm, codec, count, element, group=None):
        group = group or range(len(self.nodes))
        bytes_ = image(codec, count, element)
        if algorithm == "flat":
            for i, rank in enumerate(group):
                for _ in range(len(group) - 1):
                    self.send(rank, group[(i + 1) % len(group)], bytes_)
        else:
            local = self.nodes.count(0)
            held = {r: 1 for r in group}
            for r in group:
                for other in group:
                    if other != r and other % local == r % local:
                        self.send(r, other, bytes_)
                        held[other] += 1
            for r in group:
                for other in group:
                    if other != r and self.nodes[other] == self.nodes[r]:
                        self.send(r, other, held[r] * bytes_)

    def reduce(self, algorithm, codecs, count, element):
        n = len(self.nodes)
        block = max(1 if c == "none" else int(c.split(":")[1]) for c in codecs)
        count = up(count, block)
        if algorithm == "flat":
            return self.gather("flat", codecs[0], count, element)
        local = self.nodes.count(0)
        for r in range(n):
            for other in range(n):
                if r == other:
                    continue
                if algorithm != "2-hop":
                    self.send(r, other, image(codecs[0], count, element))
                elif self.nodes[r] == self.nodes[other]:
                    self.send(r, other, image(codecs[0], n // local * count, element))
                elif r % local == other % local:
                    self.send(r, other, image(codecs[1], count, element))
        return None

    def total(self):
        return [sum(row[i] for row in self.rows.values()) for i in (0, 1)]


def memory_of(c, shards, ranks, element):
    """Each kind of state by the stages that hold it, a shard or the whole."""
    whole = shards * ranks
    return {"master": 4 * [whole, shards, shards, shards][c["stage"]],
            "moments": 8 * [whole, shards, shards, shards][c["stage"]],
            "gradient_shard": 4 * [0, shards, shards, shards][c["stage"]],
            "compute_shard": [0, shards, shards, shards][c["stage"]] * 2 if element == 2 else 0,
            "resident_weights": element * [whole, whole, whole, 0][c["stage"]],
            "local_gradients": 4 * [whole, whole, 0, 0][c["stage"]],
            "secondary": element * whole // c["hpz"] if c["hpz"] > 1 else 0,
            "arena": 12345}


def make(case):
    """A whole trace as {group: {column: values}} and root attributes."""
    c = dict(nodes=2, local=2, stage=3, qwz=False, hpz=1, qgz=False, bf16=False, bucket=5000, micro=2,
             gather="flat", reduce="flat", skipped=(0, 1, 0), evaluations=((0, 2), (2, 2), (3, 2)), interval=2,
             codecs=("int8:256", "int4:64", "int8:128"))
    c.update(case)
    n = c["nodes"] * c["local"]
    nodes = [r // c["local"] for r in range(n)]
    element = 2 if c["bf16"] else 4
    tensors = [[97 * 16, 33], [640, 640, 7], [641, 63, 128], [16]]
    layers = [[0], [1], [2], [3, 0]]
    flat = [sum(up(t, 64) for t in unit) for unit in tensors]
    shard = [up((f + n - 1) // n, 16 // element) for f in flat]
    weight = c["codecs"][0] if c["qwz"] else "none"
    codecs = c["codecs"][1:] if c["qgz"] else ("none", "none")
    two = c["reduce"] == "2-hop" and c["nodes"] > 1
    ran = "/".join(codecs) if two and c["local"] > 1 else codecs[1] if two else codecs[0]
    quantum = 8 * (max(int(x.split(":")[1]) for x in codecs) if c["qgz"] else 1)
    capacity = max(quantum, c["bucket"] // n // quantum * quantum)
    parts = [[]]
    for unit in (3, 2, 1, 0):  # unit 0 is used again by the last layer, and finishes first in forward
        left = shard[unit]
        if parts[-1] and sum(parts[-1]) + left > capacity:
            parts.append([])
        while left > capacity:
            parts[-1:] = [[capacity], []]
            left -= capacity
        parts[-1].append(left)
    net = Network(nodes, c["hpz"])
    fresh = set()

    def use(phase):
        for layer in layers:
            for unit in layer:
                if unit in fresh:
                    net.begin("all_gather", "weights_secondary", phase, "flat", "none", "secondary",
                              part=shard[unit] * n // c["hpz"] * element)
                    for begin in range(0, n, c["hpz"]):
                        net.gather("flat", "none", shard[unit] * n // c["hpz"], element,
                                   list(range(begin, begin + c["hpz"])))
                else:
                    net.begin("all_gather", "weights", phase, c["gather"], weight, "world",
                              part=shard[unit] * element)
                    net.gather(c["gather"], weight, shard[unit], element)
                    if c["hpz"] > 1:
                        fresh.add(unit)

    def everything(phase):
        for size in shard:
            net.begin("all_gather", "weights", phase, c["gather"], "none", "world", part=size * element)
            net.gather(c["gather"], "none", size, element)

    def evaluate(step):
        for before, batches in c["evaluations"]:
            if before == step and c["stage"] == 3:
                for _ in range(batches):
                    use("evaluation")

    if c["stage"] in (1, 2):
        everything("initial")
    steps = []
    for step, skipped in enumerate(c["skipped"]):
        evaluate(step)
        before = net.total()
        for micro in range(c["micro"]):
            if c["stage"] == 3:
                use("forward")
                use("backward")
            if c["stage"] >= 2 or micro == 0:
                for part in parts:
                    net.begin("reduce_scatter", "gradients", "backward", c["reduce"], ran, "world",
                              part=sum(part) * element)
                    net.reduce(c["reduce"], codecs, sum(part), element)
                    if c["stage"] == 0:
                        net.begin("all_gather", "gradients", "backward", c["gather"], "none", "world",
                                  part=sum(part) * 4)
                        net.gather(c["gather"], "none", sum(part), 4)
        if not skipped:
            fresh.clear()
            if c["stage"] in (1, 2):
                everything("update")
        steps.append([a - b for a, b in zip(net.total(), before)])
    evaluate(len(steps))

    own = {"all_gather_algorithm": c["gather"], "reduce_scatter_algorithm": c["reduce"], "node_size": 0,
           "deterministic": False, "seed": 7, "train_steps": len(steps), "evaluation_batches": 2,
           "evaluation_interval": c["interval"], "model": {"seq_length": 8, "name": "gpt"}}
    if c["qwz"]:
        own["weight_codec"] = c["codecs"][0]
    if c["qgz"]:
        own["gradient_codec_intra"], own["gradient_codec_inter"] = c["codecs"][1:]
    config = {"zero_optimization": {"stage": c["stage"], "zero_quantized_weights": c["qwz"],
                                    "zero_hpz_partition_size": c["hpz"],
                                    "zero_quantized_gradients": c["qgz"],
                                    "reduce_bucket_size": c["bucket"]},
              "bf16": {"enabled": c["bf16"]}, "train_batch_size": n * c["micro"] * 3,
              "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": c["micro"],
              "optimizer": {"params": {"lr": 1e-3}}, "zeropp": own}
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    attributes = {name: "x" for name in TEXT}
    attributes.update(schema="zeropp-trace", schema_version="1.0", app="train", verdict="VALID",
                      config_json=text, config_hash=hashlib.sha256(text.encode()).hexdigest(),
                      parameters_hash="0a" * 32,
                      complete=1, git_dirty=0, world_size=n, node_count=c["nodes"],
                      ranks_per_node=c["local"], emulated=0, seed=7, deterministic=0)
    count = len(steps)
    uses = [sum(layer.count(u) for layer in layers) if c["stage"] == 3 else 0 for u in range(4)]
    offsets = [(u, t, sum(up(x, 64) for x in unit[:i]))
               for u, unit in enumerate(tensors) for i, t in enumerate(unit)]
    keys, values = list(net.rows), list(net.rows.values())
    counters = {"nonfinite_steps": sum(c["skipped"]) * n,
                "secondary_gathers": sum(v[2] for k, v in net.rows.items() if k[5] == "secondary") * n}
    counters = {name: value for name, value in counters.items() if value}
    memory = memory_of(c, sum(shard), n, element)
    groups = {
        "ranks": dict(host=["h"] * n, node=nodes, local_rank=[r % c["local"] for r in range(n)],
                      pid=list(range(1, n + 1))),
        "units": dict(name=[f"u{i}" for i in range(4)], elements=[sum(t) for t in tensors], flat=flat,
                      padded=[s * n for s in shard], shard=shard, gathers_forward=list(uses),
                      gathers_backward=list(uses)),
        "tensors": dict(unit=[o[0] for o in offsets], name=[f"t{i}" for i in range(len(offsets))],
                        elements=[o[1] for o in offsets], offset=[o[2] for o in offsets]),
        "layers": dict(name=["a", "b", "c", "d"], units=[",".join(map(str, l)) for l in layers]),
        "steps": dict(loss=[float("nan") if s else 2.0 for s in c["skipped"]],
                      grad_norm=[float("inf") if s else 1.0 for s in c["skipped"]],
                      time=[0.5] * count, tokens_per_second=[n * c["micro"] * 3 * 8 / 0.5] * count,
                      bytes_intra_node=[s[0] for s in steps], bytes_inter_node=[s[1] for s in steps],
                      bytes_predicted_intra_node=[s[0] for s in steps],
                      bytes_predicted_inter_node=[s[1] for s in steps], learning_rate=[1e-3] * count,
                      skipped=list(c["skipped"]), time_forward=[0.1] * count,
                      time_backward=[0.2] * count, time_communication_exposed=[0.0] * count),
        "evaluations": dict(step=[e[0] for e in c["evaluations"]],
                            loss=[1.0] * len(c["evaluations"]),
                            bits_per_byte=[1.0 / math.log(2)] * len(c["evaluations"]),
                            batches=[e[1] for e in c["evaluations"]]),
        "collectives": dict(operation=[k[0] for k in keys], purpose=[k[1] for k in keys],
                            phase=[k[2] for k in keys], algorithm=[k[3] for k in keys],
                            codec=[k[4] for k in keys], group=[k[5] for k in keys],
                            path=["fused" if "/" in k[4] else "" for k in keys], modelled=[0] * len(keys),
                            calls=[v[2] for v in values], logical_bytes=[v[3] for v in values],
                            wire_bytes_intra=[v[0] for v in values],
                            wire_bytes_inter=[v[1] for v in values], seconds=[0.0] * len(keys)),
        "timers": dict(rank=[r for r in range(n) for _ in TIMERS], category=TIMERS * n,
                       seconds=[0.1] * (n * len(TIMERS))),
        "counters": dict(name=list(counters), value=list(counters.values())),
        "memory": dict(name=list(memory), bytes_predicted=list(memory.values()),
                       bytes_actual=list(memory.values())),
    }
    return attributes, groups


REAL = set("loss grad_norm time tokens_per_second learning_rate time_forward time_backward "
           "time_communication_exposed bits_per_byte seconds".split())
WORDS = set("host name operation purpose phase algorithm codec group path category".split())


def write(path, attributes, groups):
    with h5py.File(path, "w", libver=("v108", "latest")) as file:
        for name, value in attributes.items():
            file.attrs[name] = np.bytes_(value) if isinstance(value, str) else np.uint64(value)
        file.create_group("env")
        data = file.create_group("data")
        for name in ("source train_tokens held_out_tokens vocab_size unigram_entropy_bits "
                     "source_entropy_bits").split():
            data.attrs[name] = 64 if name == "vocab_size" else 1
        for group, columns in groups.items():
            for name, values in columns.items():
                is_text = name in WORDS or (group, name) == ("layers", "units")
                if is_text:
                    values = np.array(values, dtype=f"S{max(1, *map(len, values), 1)}")
                else:
                    values = np.array(values, dtype="f8" if name in REAL else "u8")
                dataset = file.create_dataset(f"{group}/{name}", data=values, fletcher32=True,
                                              chunks=(max(1, min(len(values), 2)),),
                                              maxshape=(max(1, len(values)),))
                dataset.attrs["units"] = np.bytes_("1")
                dataset.attrs["description"] = np.bytes_("text")


FEATURES = dict(qwz=True, hpz=2, qgz=True, gather="two-level", reduce="2-hop")
CASES = {
    "plain": {},
    "stage 0": dict(stage=0), "stage 1": dict(stage=1, gather="two-level"),
    "stage 2": dict(stage=2, reduce="ordered"), "bf16": dict(bf16=True),
    "qwz": dict(qwz=True), "hpz": dict(hpz=2), "hpz over nodes": dict(nodes=4, hpz=4),
    "hpz inside a node": dict(nodes=2, local=4, hpz=2), "qgz": dict(qgz=True, reduce="2-hop"),
    "qgz in one hop": dict(qgz=True, reduce="1-hop"), "all": dict(FEATURES, bf16=True),
    "many small buckets": dict(FEATURES, bucket=1, codecs=("int8:256", "int4:32", "int4:32")), "one bucket": dict(FEATURES, bucket=10**9),
    "one rank": dict(nodes=1, local=1), "one node": dict(FEATURES, nodes=1, local=3, hpz=3),
    "one rank a node": dict(FEATURES, nodes=3, local=1, hpz=3, gather="flat"),
    "two-level without codecs": dict(gather="two-level", reduce="2-hop"),
    "no evaluation": dict(FEATURES, evaluations=(), interval=0),
    "all skipped but the last": dict(FEATURES, skipped=(1, 1, 0)),
    "an evaluation after every step": dict(FEATURES, evaluations=((0, 1), (1, 1), (2, 1), (3, 1)),
                                           interval=1),
}


class CheckTrace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "train.h5"
        self.addCleanup(self.folder.cleanup)

    def run_program(self, *arguments):
        return subprocess.run([sys.executable, CHECKER, *arguments], capture_output=True, text=True,
                              check=False)

    def judge(self):
        """Exit code and output, in this process: starting Python takes longer than judging."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = checker.main([str(self.path)])
        return status, output.getvalue()

    def assert_invalid(self, reason):
        status, output = self.judge()
        self.assertEqual(status, 1, output)
        self.assertTrue(all(line.startswith("INVALID: ") for line in output.splitlines()), output)
        self.assertIn(reason, output)

    def test_right_traces_are_valid(self):
        for name, case in CASES.items():
            with self.subTest(name):
                write(self.path, *make(case))
                self.assertEqual(self.judge(), (0, "VALID\n"))

    def test_cases_send_across_nodes_and_inside(self):
        """The cases would prove nothing if they sent nothing."""
        steps = make(dict(FEATURES))[1]["steps"]
        self.assertTrue(all(steps["bytes_intra_node"]) and all(steps["bytes_inter_node"]))

    def change(self, edit, reason, case=FEATURES):
        attributes, groups = make(dict(case))
        edit(attributes, groups)
        write(self.path, attributes, groups)
        self.assert_invalid(reason)

    def test_bytes_counted_and_predicted_changed_together(self):
        for kind in ("intra", "inter"):
            def edit(_, groups, kind=kind):
                for name in (f"bytes_{kind}_node", f"bytes_predicted_{kind}_node"):
                    groups["steps"][name][1] += 16
                groups["collectives"][f"wire_bytes_{kind}"][0] += 16
            self.change(edit, "bytes of step 1")

    def test_bytes_of_collectives(self):
        def edit(_, groups):
            groups["collectives"]["wire_bytes_inter"][0] += 16
        self.change(edit, "/collectives")

    def test_bytes_moved_between_purposes(self):
        def edit(_, groups):
            bytes_ = groups["collectives"]["wire_bytes_intra"]
            purposes = groups["collectives"]["purpose"]
            bytes_[purposes.index("weights")] += 16
            bytes_[purposes.index("gradients")] -= 16
        self.change(edit, "weights")

    def test_a_removed_unit(self):
        def remove_row(_, groups):
            for column in groups["units"].values():
                column.pop()
        self.change(remove_row, "/units")

        def remove_everywhere(_, groups):
            remove_row(_, groups)
            keep = [i for i, unit in enumerate(groups["tensors"]["unit"]) if unit != 3]
            for name, column in groups["tensors"].items():
                groups["tensors"][name] = [column[i] for i in keep]
            groups["layers"]["units"][3] = "0"
        self.change(remove_everywhere, "bytes of step 0")

    def test_other_settings_than_those_that_ran(self):
        small_buckets = dict(FEATURES, bucket=1, codecs=("int8:256", "int4:32", "int4:32"))
        for key, value, case in (("stage", 2, FEATURES), ("zero_hpz_partition_size", 1, FEATURES),
                                 ("reduce_bucket_size", 10**9, small_buckets),
                                 ("zero_quantized_weights", False, FEATURES),
                                 ("zero_quantized_gradients", False, FEATURES)):
            def edit(attributes, _, key=key, value=value):
                config = json.loads(attributes["config_json"])
                config["zero_optimization"][key] = value
                attributes["config_json"] = json.dumps(config)
                attributes["config_hash"] = hashlib.sha256(
                    attributes["config_json"].encode()).hexdigest()
            with self.subTest(key):
                self.change(edit, "should be", case)

    def test_root_attributes(self):
        for name in make({})[0]:
            with self.subTest(name):
                self.change(lambda a, _, name=name: a.pop(name), f"no attribute {name}")
        self.change(lambda a, _: a.update(complete=0), "not complete")
        self.change(lambda a, _: a.update(config_hash="0" * 64), "config_hash")
        self.change(lambda a, _: a.update(verdict="INVALID: x"), "the run itself")
        self.change(lambda a, _: a.update(world_size=5), "world_size")
        self.change(lambda a, _: a.update(config_json="{"), "config_json")

    def test_columns(self):
        for group, columns in make({})[1].items():
            name = random.Random(group).choice(sorted(columns))
            with self.subTest(f"{group}/{name}"):
                self.change(lambda _, g, group=group, name=name: g[group].pop(name),
                            f"no column /{group}/{name}")
        self.change(lambda _, g: g["steps"]["loss"].pop(), "differ in length")

    def test_insane_numbers(self):
        def put(group, column, row, value):
            return lambda _, groups: groups[group][column].__setitem__(row, value)
        self.change(put("steps", "loss", 0, float("nan")), "loss is not finite")
        self.change(put("steps", "loss", 0, -5.0), "loss < 0")
        self.change(put("steps", "learning_rate", 2, 9.0), "learning_rate")
        self.change(put("steps", "time", 0, 0.0), "time is not positive")
        self.change(put("steps", "tokens_per_second", 2, 1.0), "tokens_per_second")
        self.change(put("steps", "time_forward", 0, 0.6), "time_forward")
        self.change(put("counters", "value", 0, 0), "nonfinite_steps")
        self.change(put("evaluations", "step", 2, 4), "/evaluations/step")
        self.change(put("evaluations", "batches", 0, 1), "/evaluations/batches")
        self.change(put("evaluations", "batches", 0, 2**63), "/evaluations/batches")
        self.change(put("evaluations", "loss", 1, float("nan")), "evaluation after step 2: loss")
        self.change(put("evaluations", "bits_per_byte", 1, 0.1), "bits_per_byte")
        self.change(put("tensors", "offset", 1, 1), "does not begin")
        self.change(put("units", "padded", 0, 1), "padded")

    def test_rows_of_collectives(self):
        def edit(name, value):
            return lambda _, groups: groups["collectives"][name].__setitem__(0, value)
        for name, value, reason in (
                ("calls", 1, "calls is 1, should be"), ("logical_bytes", 0, "logical_bytes is 0"),
                ("seconds", -1.0, "seconds"), ("codec", "none", "did not run"),
                ("algorithm", "flat", "did not run"), ("phase", "backward", "is missing"),
                ("group", "node", "did not run"), ("path", "fused", "path")):
            with self.subTest(name):
                self.change(edit(name, value), reason)

        def twice(_, groups):
            for column in groups["collectives"].values():
                column.append(column[0])
        self.change(twice, "is twice")

        def never(_, groups):
            for column in groups["collectives"].values():
                column.pop()
        self.change(never, "is missing")

        def nowhere(_, groups):
            for column in groups["collectives"].values():
                column.clear()
        self.change(nowhere, "/collectives is empty")

    def test_codecs_that_ran(self):
        """Two hops name both codecs only where both hops are taken."""
        codecs = ("int8:256", "int4:64", "int8:128")
        for nodes, local, name, others in ((2, 2, "int4:64/int8:128", ("int4:64", "int8:128")),
                                           (1, 4, "int4:64", ("int8:128", "int4:64/int8:128")),
                                           (4, 1, "int8:128", ("int4:64", "int4:64/int8:128"))):
            case = dict(nodes=nodes, local=local, qgz=True, reduce="2-hop", codecs=codecs)
            attributes, groups = make(case)
            row = groups["collectives"]["purpose"].index("gradients")
            self.assertEqual(groups["collectives"]["codec"][row], name)
            write(self.path, attributes, groups)
            self.assertEqual(self.judge(), (0, "VALID\n"))
            for other in others:
                self.change(lambda _, g, row=row, other=other:
                            g["collectives"]["codec"].__setitem__(row, other), "did not run", case)

    def test_skipped_steps(self):
        self.change(lambda *_: None, "the last step was skipped", dict(FEATURES, skipped=(0, 0, 1)))
        self.change(lambda *_: None, "all steps were skipped", dict(FEATURES, skipped=(1, 1, 1)))

    def test_evaluation_steps(self):
        """After 0, 2 and all 3 steps, or never: nothing else is the interval's."""
        for evaluations in (((0, 2), (1, 2), (3, 2)), ((0, 2), (2, 2)), ((2, 2), (3, 2)), ((0, 2), (3, 2)),
                            ((0, 2), (1, 2), (2, 2), (3, 2)), ()):
            self.change(lambda *_: None, "/evaluations/step", dict(FEATURES, evaluations=evaluations))
        self.change(lambda *_: None, "/evaluations/step", dict(FEATURES, interval=0))

    def test_counters(self):
        def zero(_, groups):
            groups["counters"]["value"] = [0, 0]

        def empty(_, groups):
            groups["counters"] = {"name": [], "value": []}

        def unknown(_, groups):
            groups["counters"]["name"][1] = "something"
        for edit in (zero, empty, unknown):
            self.change(edit, "counter secondary_gathers is 0, should be")
        self.change(empty, "counter nonfinite_steps is 0, should be 4")

    def test_timers(self):
        def first_rank(_, groups):
            groups["timers"] = {name: column[:7] for name, column in groups["timers"].items()}

        def twice(_, groups):
            groups["timers"]["category"][1] = "matmul"

        def nothing(_, groups):
            groups["timers"]["seconds"][7:14] = [0.0] * 7
        self.change(first_rank, "/timers has not every category")
        self.change(twice, "/timers has not every category")
        self.change(nothing, "rank 1 took no time")
        self.change(lambda _, g: g["timers"]["seconds"].__setitem__(3, -1.0), "timer optimizer of rank 0")

    def test_memory(self):
        def one_row(_, groups):
            groups["memory"] = {name: column[:1] for name, column in groups["memory"].items()}

        def both(_, groups):
            for name in ("bytes_predicted", "bytes_actual"):
                groups["memory"][name][1] += 4
        self.change(one_row, "/memory does not name exactly")
        self.change(lambda _, g: g["memory"]["bytes_actual"].__setitem__(7, 1), "/memory: arena takes 1 of")
        self.change(both, "/memory: moments is")

    def test_processes_and_hashes(self):
        for pids in ([0] * 4, [1, 2, 3, 3], [0, 1, 2, 3]):
            self.change(lambda _, g, pids=pids: g["ranks"].update(pid=pids), "/ranks/pid")
        attributes, groups = make(FEATURES)
        groups["ranks"].update(host=["a", "a", "b", "b"], pid=[7, 8, 7, 8])
        write(self.path, attributes, groups)
        self.assertEqual(self.judge(), (0, "VALID\n"))
        for value in ("x", "", "0A" * 32, "0a" * 32 + "\n", "0a" * 31):
            self.change(lambda a, _, value=value: a.update(parameters_hash=value), "parameters_hash")

    def test_data(self):
        for name, value in (("unigram_entropy_bits", -1.0), ("unigram_entropy_bits", float("nan")),
                            ("unigram_entropy_bits", 6.5), ("source_entropy_bits", -1.0),
                            ("vocab_size", 0), ("train_tokens", 0), ("held_out_tokens", np.bytes_("x"))):
            with self.subTest(name):
                write(self.path, *make(FEATURES))
                with h5py.File(self.path, "r+") as file:
                    file["data"].attrs[name] = value
                self.assert_invalid(name)
        write(self.path, *make(FEATURES))
        with h5py.File(self.path, "r+") as file:
            file["data"].attrs["source_entropy_bits"] = float("nan")
        self.assertEqual(self.judge(), (0, "VALID\n"))

    def test_modelled_rows_carry_the_bytes_of_a_ring(self):
        attributes, groups = make({})
        config = json.loads(attributes["config_json"])
        config["zeropp"]["reduce_scatter_algorithm"] = "native"
        attributes["config_json"] = json.dumps(config)
        attributes["config_hash"] = hashlib.sha256(attributes["config_json"].encode()).hexdigest()
        row = groups["collectives"]["purpose"].index("gradients")
        groups["collectives"]["algorithm"][row] = "native"
        write(self.path, attributes, groups)
        self.assert_invalid("modelled")
        groups["collectives"]["modelled"][row] = 1
        write(self.path, attributes, groups)
        self.assertEqual(self.judge(), (0, "VALID\n"))
        groups["collectives"]["wire_bytes_inter"][row] += 1
        write(self.path, attributes, groups)
        self.assert_invalid("wire_bytes_inter")

    def test_a_truncated_dataset(self):
        write(self.path, *make(FEATURES))
        with h5py.File(self.path, "r+") as file:
            file["steps/loss"].resize((2,))
        self.assert_invalid("differ in length")

    def test_missing_descriptions_and_checksums(self):
        write(self.path, *make(FEATURES))
        with h5py.File(self.path, "r+") as file:
            del file["steps/time"].attrs["units"]
            values = file["steps/loss"][()]
            del file["steps/loss"]
            file["steps/loss"] = values
        self.assert_invalid("no attribute units")
        self.assert_invalid("carries no checksum")

    def test_damaged_files(self):
        write(self.path, *make(FEATURES))
        image_ = self.path.read_bytes()
        position = image_.index(np.float64(1e-3).tobytes())  # a learning rate
        for at in range(position, position + 8):
            damaged = bytearray(image_)
            damaged[at] ^= 0x10
            self.path.write_bytes(damaged)
            self.assert_invalid("cannot be read")
        for size in (0, 10, len(image_) // 2, len(image_) - 1):
            self.path.write_bytes(image_[:size])
            self.assert_invalid("cannot be read")
        self.path.unlink()
        self.assert_invalid("cannot be read")

    def test_the_program(self):
        self.assertEqual(self.run_program().returncode, 2)
        write(self.path, *make(FEATURES))
        done = self.run_program(self.path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "VALID\n", ""))
        done = self.run_program(self.path, CHECKER)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn(f"{CHECKER}: INVALID: cannot be read", done.stdout)


if __name__ == "__main__":
    unittest.main()
