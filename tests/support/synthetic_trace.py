"""Traces made without the program, for tests of what reads them. The bytes come from a plain message-by-message count,
written here apart from the closed forms."""

import hashlib
import json
import math

import h5py
import numpy as np

from zpp_validate.readers import trace_format

TEXT = ("version git_commit build_type cxx_compiler mpi_library hdf5_version kokkos_version blas_library "
        "cuda_versions backend transport kernels run_id started_at command_line").split()
VERSION = "1.7"
TIMERS = "matmul nn codec optimizer communication data other".split()


def up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


def image(codec, count, element):
    """Bytes of one wire image, block by block."""
    if codec == "none":
        return up(count * element, 16)
    if codec in ("bf16", "fp16"):
        return up(count * 2, 16)
    bits, block = (int(x) for x in codec[3:].split(":"))
    payload = scales = 0
    for _ in range(0, count, block):
        payload += block * bits // 8
        scales += 2
    return up(payload, 16) + up(scales, 16)


class Network:
    """Sends messages one by one and adds them up, in the row that is being written."""

    def __init__(self, nodes, secondary, shard):
        self.nodes, self.secondary, self.shard, self.rows = nodes, secondary, shard, {}

    def begin(self, *key, part):
        """Counts one more run of operation, purpose, phase, algorithm, codec and group; `part`: bytes that each rank
        of the group has, uncompressed, for each other."""
        self.row = self.rows.setdefault(key, [0, 0, 0, 0])
        self.row[2] += 1
        n = len(self.nodes)
        group_of = {"world": lambda rank: 0, "secondary": lambda rank: rank // self.secondary,
                    "shard": lambda rank: rank // self.shard, "replica": lambda rank: rank % self.shard}[key[5]]
        for rank in range(n):
            for other in range(n):
                if rank != other and group_of(rank) == group_of(other):
                    self.row[3] += part

    def shard_groups(self):
        return [range(begin, begin + self.shard) for begin in range(0, len(self.nodes), self.shard)]

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

    def reduce(self, algorithm, codecs, count, element, group):
        block = max(1 if c == "none" else int(c.split(":")[1]) for c in codecs)
        count = up(count, block)
        if algorithm == "flat":
            return self.gather("flat", codecs[0], count, element, group)
        local = self.nodes.count(0)
        for r in group:
            for other in group:
                if r == other:
                    continue
                if algorithm != "2-hop":
                    self.send(r, other, image(codecs[0], count, element))
                elif self.nodes[r] == self.nodes[other]:
                    self.send(r, other, image(codecs[0], len({self.nodes[rank] for rank in group}) * count, element))
                elif r % local == other % local:
                    self.send(r, other, image(codecs[1], count, element))
        return None

    def across(self, codec, count, element):
        """Sends an image to each replica, which has the same place in another shard group."""
        for r in range(len(self.nodes)):
            for other in range(r % self.shard, len(self.nodes), self.shard):
                if other != r:
                    self.send(r, other, image(codec, count, element))

    def total(self):
        return [sum(row[i] for row in self.rows.values()) for i in (0, 1)]


def inside(c):
    """Hops that feed errors back in a reduction among the ranks that share a copy."""
    one_node = c["shard"] and c["shard"] <= c["local"]
    return [hop for hop in c["feedback"] if not (one_node and hop == "inter")]


def moment_bytes(c, elements):
    """In 8 bits 64 elements, of which shards are multiples, have 4 bytes more."""
    return c["states"] * {None: 4 * elements, "bf16": 2 * elements, "int8": elements * 68 // 64}[c["moments"]]


def updates_write_images(c):
    return c["images"] and c["cuda"] and c["states"] == 2


def image_tables(c, of_units, tensors):
    """Of the first rank's shards, weight by weight: a tile of 4096 weights has 40 bytes, and 72 for each tensor in it."""
    if not updates_write_images(c):
        return {}
    total = 0
    for count, unit in zip(of_units, tensors):
        begins = [sum(up(x, 64) for x in unit[:i]) for i in range(len(unit))]
        owner = {begin + k: i for i, (begin, elements) in enumerate(zip(begins, unit)) for k in range(elements)}
        for tile in range(0, count, 4096):
            total += 40 + 72 * len({owner[at] for at in range(tile, min(count, tile + 4096)) if at in owner})
    return {"weight_image_tables": total}


def memory_of(c, of_units, ranks, element, parts, tensors):
    """Each kind of state by the stages that hold it, a shard or the whole."""
    stored = "int8:256" if c["feedback_dtype"] == "int8" else "none"
    group = c["shard"] or ranks
    slices = {"intra": group, "inter": max(1, group // c["local"])}
    errors = {f"error_feedback_{hop}": sum(image(stored, part, 4) for part in parts for _ in range(2 * slices[hop]))
              for hop in inside(c)}
    if c["shard"] and "inter" in c["feedback"]:
        copies = ranks // group
        errors["error_feedback_across"] = sum(image(stored, up(-(-part // copies), 16 // element), 4)
                                              for part in parts for _ in range(2 * (copies + 1)))
    shards = sum(of_units)
    whole = shards * group
    copy = element * whole // c["hpz"] if c["hpz"] > 1 else 0
    copies = {"secondary": 0, "offloaded_secondary": copy} if c["hpz_device"] == "cpu" else {"secondary": copy}
    images = {"weight_images": sum(image(c["codecs"][0], count, element) for count in of_units),
              **image_tables(c, of_units, tensors)} if c["images"] else {}
    return {"master": 4 * [whole, shards, shards, shards][c["stage"]],
            "moments": moment_bytes(c, [whole, shards, shards, shards][c["stage"]]),
            "gradient_shard": 4 * [0, shards, shards, shards][c["stage"]],
            "compute_shard": 0,
            "resident_weights": element * [whole, whole, whole, 0][c["stage"]],
            "local_gradients": 4 * [whole, whole, 0, 0][c["stage"]],
            **copies, **images, **errors,
            **({"measurement": 99} if c["measure"] else {}), "arena": 12345, "activations": 678}


def offload_options(c):
    if c["offload"] is None:
        return {}
    files = {} if c["files"] is None else {"sub_group_size": c["files"][0]}
    of_optimizer = "nvme" if c["files"] else "cpu"
    of_weights = "none" if not c["offload_param"] else "cpu" if c["files"] is None else "nvme"
    return {"offload_optimizer": {"device": of_optimizer, "pin_memory": False, "ratio": c["offload"][0], "buffer_count": c["offload"][2]},
            "offload_param": {"device": of_weights, **({"max_in_cpu": c["files"][1], "buffer_count": c["files"][2]}
                                                       if of_weights == "nvme" else {})}, **files}


def pages(size):
    return up(size, 4096)


def cut(count, c):
    """Lengths of the pieces of a unit's elements that are offloaded."""
    left, longest = min(count, up(int(c["offload"][0] * count), 64)), min(c["offload"][1], *(c["files"] or (1 << 60,))[:1])
    lengths = []
    while left:
        lengths.append(min(left, longest))
        left -= lengths[-1]
    return lengths


def in_file(c, counts):
    total, found = 0, []
    for count in counts:
        total += count
        found.append(bool(c["files"] and c["offload_param"] and total > c["files"][1]))
    return found


def offload_memory(c, memory, counts, element):
    """Moves to the host or to files what is kept there, in its place among the rows."""
    buffers = c["offload"][2]
    lengths = [cut(count, c) for count in counts]
    there, filed = sum(map(sum, lengths)), in_file(c, counts)
    longest = max(max(unit, default=0) for unit in lengths)
    rows = list(memory.items())
    memory.clear()
    for name, size in rows:
        memory[name] = size
        if name in ("master", "moments"):
            memory[name] -= 4 * there if name == "master" else moment_bytes(c, there)
        elif name == "compute_shard" and c["stage"] > 0 and not c["offload_param"]:
            memory[name] = element * sum(counts)
        elif name == ("offloaded_secondary" if c["hpz_device"] == "cpu" else "secondary"):
            slot = longest * (6 if element == 2 and not c["offload_param"] else 4)
            if c["files"]:
                slot += pages(4 * longest) + c["states"] * pages(moment_bytes(c, longest) // max(1, c["states"])) + (pages(element * longest) if any(filed) else 0)
                there = 0
            memory.update(offloaded_master=4 * there, offloaded_moments=moment_bytes(c, there),
                          offloaded_staging=min(buffers, sum(map(len, lengths))) * slot)
            if c["offload_param"]:
                stay = sum(count for count, gone in zip(counts, filed) if not gone)
                memory["offloaded_weights"] = element * stay if element == 2 or c["files"] else 0
            if c["offload_param"] and c["files"]:
                records = [sum(pages(element * part) for part in unit) for unit, gone in zip(lengths, filed) if gone]
                memory["offloaded_weight_buffers"] = min(c["files"][2], len(records)) * max(records, default=0)


def file_counters(c, counts, element, gathers):
    """File counters of all ranks; `gathers`: those of each unit, in all steps."""
    n, taken, filed = c["nodes"] * c["local"], sum(not skipped for skipped in c["skipped"]), in_file(c, counts)
    arrays = sum(pages(4 * part) + c["states"] * pages(moment_bytes(c, part) // max(1, c["states"]))
                 for count in counts for part in cut(count, c))
    records = [sum(pages(element * part) for part in cut(count, c)) for count in counts]
    parts = [len(cut(count, c)) for count in counts]
    read = sum(times * record for times, record, gone in zip(gathers, records, filed) if gone)
    return {"files": n * (1 + any(filed)), "files_io_uring": n, "file_wait_ns": 123,
            "file_bytes_read": n * (taken * arrays + read),
            "file_bytes_written": n * taken * (arrays + sum(record for record, gone in zip(records, filed) if gone)),
            "file_reads": n * (taken * sum(parts) + sum(times for times, gone in zip(gathers, filed) if gone)),
            "file_writes": n * taken * (sum(parts) + sum(part for part, gone in zip(parts, filed) if gone))}


def errors_of(c):
    """Errors of units u0 to u3, each a kind of its own: gradients that lose a fifth at a right angle, weights nothing."""
    rows = [(c["first"] + step, kind, f"u{unit}", *((0.0, 1.0, 0.0, 1.0) if kind == "weights" and not c["qwz"] else
                                       (0.2, 1 / math.sqrt(1.04), 0.1, math.sqrt(1.04))))
            for step in range(-c["first"] % c["measure"], len(c["skipped"]), c["measure"])
            for kind in ("weights", "gradients") if c["stage"] == 3 or kind == "gradients"
            for unit in range(4) if kind == "weights" or not c["skipped"][step]]
    names = ("step", "kind", "unit_kind", "relative_l2", "cosine", "largest", "norm_ratio")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def path_of(c, key):
    if key[1] == "gradients_across":
        return "feedback:inter" * ("inter" in c["feedback"])
    if key[0] != "reduce_scatter" or not inside(c):
        return "fused" if "/" in key[4] else ""
    hops = "feedback:" + ",".join(inside(c))
    return ("composed+" if "inter" in c["feedback"] else "fused+") * ("/" in key[4]) + hops


def make(case):
    """A whole trace as {group: {column: values}} and root attributes."""
    c = dict(nodes=2, local=2, stage=3, shard=0, qwz=False, images=False, peer_stores=False, hpz=1, hpz_device="", qgz=False, bf16=False, bucket=5000, micro=2,
             gather="flat", reduce="flat", skipped=(0, 1, 0), evaluations=((0, 2), (2, 2), (3, 2)), interval=2,
             codecs=("int8:256", "int4:64", "int8:128"), recompute=False, cpu_checkpointing=False, interrupted="", planned=None, first=0, cuda=False,
             offload=None,  # ratio, elements of a piece, buffers
             offload_param=False,
             files=None,  # where that goes to files: sub_group_size, max_in_cpu, buffers of weights
             optimizer=("AdamW", {}), states=2, moments=None, feedback=(), feedback_dtype="fp32", measure=0,
             fp16=None, scales=None)  # keys of the object fp16, and the loss scale of every step
    c.update(case)
    n = c["nodes"] * c["local"]
    nodes = [r // c["local"] for r in range(n)]
    element = 2 if c["bf16"] or c["fp16"] else 4
    tensors = [[97 * 16, 33], [640, 640, 7], [641, 63, 128], [16]]
    layers = [[0], [1], [2], [3, 0]]
    flat = [sum(up(t, 64) for t in unit) for unit in tensors]
    group = c["shard"] or n  # ranks that share a copy
    copies = n // group
    shard = [copies * up((f + n - 1) // n, 64 if c["moments"] == "int8" else 16 // element) for f in flat]
    weight = c["codecs"][0] if c["qwz"] else "none"
    codecs = c["codecs"][1:] if c["qgz"] else ("none", "none")
    two = c["reduce"] == "2-hop" and len(set(nodes[:group])) > 1
    ran = "/".join(codecs) if two and c["local"] > 1 else codecs[1] if two else codecs[0]
    quantum = 8 * (max(int(x.split(":")[1]) for x in codecs) if c["qgz"] else 1)
    capacity = max(quantum, c["bucket"] // group // quantum * quantum)
    parts = [[]]
    for unit in (3, 2, 1, 0):  # unit 0 is used again by the last layer, and finishes first in forward
        left = shard[unit]
        if parts[-1] and sum(parts[-1]) + left > capacity:
            parts.append([])
        while left > capacity:
            parts[-1:] = [[capacity], []]
            left -= capacity
        parts[-1].append(left)
    net = Network(nodes, c["hpz"], group)
    among = "world" if copies == 1 else "shard"
    sums = codecs[1] if codecs[1] != "none" or element == 4 else "bf16" if c["bf16"] else "fp16"  # of a gather over groups
    fresh = set()
    gathers = [0] * 4  # of a unit from the shards of all ranks, in steps
    imaged, made = set(), {"weight_images_by_updates": 0, "weight_images_encoded": 0, "peer_store_reductions": 0}  # made: of a rank

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
                    net.begin("all_gather", "weights", phase, c["gather"], weight, among,
                              part=shard[unit] * element)
                    for ranks in net.shard_groups():
                        net.gather(c["gather"], weight, shard[unit], element, ranks)
                    gathers[unit] += phase != "evaluation"
                    if c["images"] and unit not in imaged:
                        imaged.add(unit)
                        made["weight_images_encoded"] += 1
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
                    net.begin("reduce_scatter", "gradients", "backward", c["reduce"], ran, among,
                              part=sum(part) * element)
                    for ranks in net.shard_groups():
                        net.reduce(c["reduce"], codecs, sum(part), element, ranks)
                    # What lies in one row and has the type that is sent is sent from there.
                    made["peer_store_reductions"] += c["peer_stores"] and (c["qgz"] or element == 2 or len(part) == 1 and part[0] not in shard)
                    if copies > 1 and micro + 1 == c["micro"]:
                        count = up(-(-sum(part) // copies), 16 // element)
                        block = 1 if codecs[1] == "none" else int(codecs[1].split(":")[1])
                        net.begin("reduce_scatter", "gradients_across", "backward", "1-hop", codecs[1], "replica",
                                  part=count * element)
                        net.across(codecs[1], up(count, block), element)
                        made["peer_store_reductions"] += c["peer_stores"] and c["nodes"] == 1 and (c["qgz"] or element == 2)
                        net.begin("all_gather", "gradients_across", "backward", "direct", sums, "replica", part=count * 4)
                        net.across(sums, count, 4)
                    if c["stage"] == 0:
                        net.begin("all_gather", "gradients", "backward", c["gather"], "none", "world",
                                  part=sum(part) * 4)
                        net.gather(c["gather"], "none", sum(part), 4)
        if not skipped:
            fresh.clear()
            if c["images"]:
                imaged = set(range(4))
                made["weight_images_by_updates" if updates_write_images(c) else "weight_images_encoded"] += 4
            if c["stage"] in (1, 2):
                everything("update")
        steps.append([a - b for a, b in zip(net.total(), before)])
    evaluate(len(steps))

    own = {"all_gather_algorithm": c["gather"], "reduce_scatter_algorithm": c["reduce"], "node_size": 0,
           "deterministic": False, "seed": 7, "train_steps": c["planned"] or c["first"] + len(steps), "evaluation_batches": 2,
           "evaluation_interval": c["interval"], "data": {"source": "text"},
           "model": {"seq_length": 8, "name": "gpt", "num_layers": 3, "hidden_size": 10, "vocab_size": 0,
                     "recompute_activations": c["recompute"],
                     **({"recompute_interval": 1, "cpu_checkpointing": True} if c["cpu_checkpointing"] else {})}}
    if c["cuda"]:
        own["gpu_sampling"], own["backend"] = 1.0, "cuda"
    if c["moments"]:
        own["moments"] = c["moments"]
    if c["shard"]:
        own["shard_group_size"] = c["shard"]
    if c["qwz"]:
        own["weight_codec"] = c["codecs"][0]
    if c["qgz"]:
        own["gradient_codec_intra"], own["gradient_codec_inter"] = c["codecs"][1:]
    if c["measure"]:
        own["measure_quantization_error"] = c["measure"]
    if c["feedback"]:
        own["error_feedback"] = {"hops": "both" if len(c["feedback"]) == 2 else c["feedback"][0], "beta": 0.5,
                                 "reset_period": 0, "dtype": c["feedback_dtype"]}
    if c["images"]:
        own["keep_weight_images"] = True
    if c["peer_stores"]:
        own["peer_stores"] = "on"
    if c["hpz_device"]:
        own["hpz_device"] = c["hpz_device"]
    if c["offload"]:
        own["offload_piece_size"] = c["offload"][1]
    config = {"zero_optimization": {"stage": c["stage"], "zero_quantized_weights": c["qwz"],
                                    "zero_hpz_partition_size": c["hpz"],
                                    "zero_quantized_gradients": c["qgz"],
                                    "reduce_bucket_size": c["bucket"], **offload_options(c)},
              "bf16": {"enabled": c["bf16"]}, "fp16": {"enabled": c["fp16"] is not None, **(c["fp16"] or {})}, "train_batch_size": n * c["micro"] * 3,
              "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": c["micro"],
              "optimizer": {"type": c["optimizer"][0], "params": {"lr": 1e-3, **c["optimizer"][1]}}, "zeropp": own}
    attributes = {name: "x" for name in TEXT}
    attributes.update(schema="zeropp-trace", schema_version=VERSION, app="train", verdict="VALID", interrupted=c["interrupted"], first_step=c["first"],
                      parameters_hash="0a" * 32,
                      # 6 (3 * 12 * 10^2 + 64 * 10) + 12 * 3 * 8 * 10; again (3 - 1) (16 * 10^2 + 4 * 8 * 10)
                      flops_per_token=28320.0, hardware_flops_per_token=32160.0 if c["recompute"] else 28320.0,
                      complete=1, git_dirty=0, world_size=n, node_count=c["nodes"],
                      ranks_per_node=c["local"], emulated=0, seed=7, deterministic=0)
    configure(attributes, config)
    if c["cuda"]:
        attributes["backend"] = "cuda"
    count = len(steps)
    uses = [sum(layer.count(u) for layer in layers) if c["stage"] == 3 else 0 for u in range(4)]
    offsets = [(u, t, sum(up(x, 64) for x in unit[:i]))
               for u, unit in enumerate(tensors) for i, t in enumerate(unit)]
    keys, values = list(net.rows), list(net.rows.values())
    counters = {"nonfinite_steps": sum(c["skipped"]) * n,
                "secondary_gathers": sum(v[2] for k, v in net.rows.items() if k[5] == "secondary") * n,
                **{name: value * n for name, value in made.items()}}
    counters = {name: value for name, value in counters.items() if value}
    memory = memory_of(c, shard, n, element, [sum(part) for part in parts], tensors)
    updated = [size * (n if c["stage"] == 0 else 1) for size in shard]
    if c["offload"]:
        offload_memory(c, memory, updated, element)
    if c["cpu_checkpointing"]:  # of three blocks one, 3 * 8 * 10 values in multiples of 256 bytes
        memory["offloaded_activations"] = up(240 * (element if c["cuda"] else 4), 256)
    if c["files"]:
        counters |= file_counters(c, updated, element, gathers)
    groups = {
        "ranks": dict(host=["h"] * n, node=nodes, local_rank=[r % c["local"] for r in range(n)],
                      pid=list(range(1, n + 1)), gpu=[""] * n, gpu_uuid=[""] * n, gpu_pci=[""] * n),
        "units": dict(name=[f"u{i}" for i in range(4)], elements=[sum(t) for t in tensors], flat=flat,
                      padded=[s * group for s in shard], shard=shard, gathers_forward=list(uses),
                      gathers_backward=list(uses)),
        "tensors": dict(unit=[o[0] for o in offsets], name=[f"t{i}" for i in range(len(offsets))],
                        elements=[o[1] for o in offsets], offset=[o[2] for o in offsets]),
        "layers": dict(name=["a", "b", "c", "d"], units=[",".join(map(str, l)) for l in layers],
                       flops_per_token=[0.0, 8000.0, 8000.0, 12320.0],
                       hardware_flops_per_token=[0.0, 9920.0, 9920.0, 12320.0] if c["recompute"] else [0.0, 8000.0, 8000.0, 12320.0]),
        "steps": dict(loss=[float("nan") if s else 2.0 for s in c["skipped"]],
                      grad_norm=[float("inf") if s else 1.0 for s in c["skipped"]],
                      time=[0.5] * count, tokens_per_second=[n * c["micro"] * 3 * 8 / 0.5] * count,
                      bytes_intra_node=[s[0] for s in steps], bytes_inter_node=[s[1] for s in steps],
                      bytes_predicted_intra_node=[s[0] for s in steps],
                      bytes_predicted_inter_node=[s[1] for s in steps], learning_rate=[1e-3] * count,
                      loss_scale=list(c["scales"] or [1.0] * count), skipped=list(c["skipped"]), time_forward=[0.1] * count,
                      time_backward=[0.2] * count, time_communication_exposed=[0.0] * count,
                      time_gather=[0.05] * count, time_reduce=[0.05] * count, time_optimizer=[0.0 if s else 0.1 for s in c["skipped"]],
                      time_offload_wait=[0.1 if c["offload"] and not s else 0.0 for s in c["skipped"]]),
        "evaluations": dict(step=[c["first"] + e[0] for e in c["evaluations"]],
                            loss=[1.0] * len(c["evaluations"]),
                            bits_per_byte=[1.0 / math.log(2)] * len(c["evaluations"]),
                            batches=[e[1] for e in c["evaluations"]]),
        "collectives": dict(operation=[k[0] for k in keys], purpose=[k[1] for k in keys],
                            phase=[k[2] for k in keys], algorithm=[k[3] for k in keys],
                            codec=[k[4] for k in keys], group=[k[5] for k in keys],
                            path=[path_of(c, k) for k in keys], modelled=[0] * len(keys),
                            calls=[v[2] for v in values], logical_bytes=[v[3] for v in values],
                            wire_bytes_intra=[v[0] for v in values],
                            wire_bytes_inter=[v[1] for v in values], seconds=[0.0] * len(keys)),
        "timers": dict(rank=[r for r in range(n) for _ in TIMERS], category=TIMERS * n,
                       seconds=[0.1] * (n * len(TIMERS))),
        "counters": dict(name=list(counters), value=list(counters.values())),
        "memory": dict(name=list(memory), bytes_predicted=list(memory.values()),
                       bytes_actual=list(memory.values())),
    }
    if c["measure"]:
        groups["errors"] = errors_of(c)
    if c["cuda"]:
        predicted = sum(size for name, size in memory.items() if not name.startswith("offloaded"))
        for name in ("buffers_peak", "gpu_used"):
            for column, value in (("name", name), ("bytes_predicted", predicted), ("bytes_actual", predicted)):
                groups["memory"][column].append(value)
        groups["gpus"] = {"@period": 1.0, "@absent": "", "@throttled": "", "rank": [r for r in range(n) for _ in range(2)],
                          "time": [0.0, 1.0] * n, "sm_clock": [1980.0] * 2 * n, "memory_clock": [3201.0] * 2 * n,
                          "power": [600.0, float("nan")] * n, "temperature": [50.0] * 2 * n,
                          "utilization": [0.0, 100.0] * n, "memory_utilization": [0.0, 50.0] * n,
                          "reasons": ["gpu_idle", ""] * n}
    return attributes, groups


def configure(attributes, config):
    """Puts `config` into a run's attributes."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    attributes.update(config_json=text, config_hash=hashlib.sha256(text.encode()).hexdigest())


def columns_of(app, group):
    """Kinds and units of columns, {column: "KIND UNIT"}, as validation/zpp_validate/readers/trace_format.py describes it."""
    return {**trace_format.ERROR_COLUMNS, **trace_format.COLUMNS_OF[app], **trace_format.GPU_COLUMNS}[group]


def write(path, attributes, groups):
    with h5py.File(path, "w", libver=("v108", "latest")) as file:
        for name, value in attributes.items():
            file.attrs[name] = (np.bytes_(value) if isinstance(value, str) else
                                np.float64(value) if isinstance(value, float) else np.uint64(value))
        file.create_group("env")
        app = attributes.get("app", "train")
        if app == "train":
            data = file.create_group("data")
            for name in trace_format.DATA_ATTRIBUTES:
                data.attrs[name] = 64 if name == "vocab_size" else 1
        for group, columns in groups.items():
            for name, values in columns.items():
                if name.startswith("@"):
                    file.require_group(group).attrs[name[1:]] = np.bytes_(values) if isinstance(values, str) else np.float64(values)
                    continue
                kind, _, unit = columns_of(app, group)[name].partition(" ")
                if kind == "S":
                    values = np.array([value.encode() for value in values], dtype=f"S{max(1, *map(len, values), 1)}")
                else:
                    values = np.array(values, dtype=f"{kind}8")
                dataset = file.create_dataset(f"{group}/{name}", data=values, fletcher32=True,
                                              chunks=(max(1, min(len(values), 64)),),
                                              maxshape=(max(1, len(values)),))
                dataset.attrs["units"] = np.bytes_(unit)
                dataset.attrs["description"] = np.bytes_("text")


DYNAMIC = {"loss_scale": 0.0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1.0,
           "consecutive_hysteresis": False}
FEATURES = dict(qwz=True, hpz=2, qgz=True, gather="two-level", reduce="2-hop")
CASES = {
    "plain": {},
    "stage 0": dict(stage=0), "stage 1": dict(stage=1, gather="two-level"),
    "stage 2": dict(stage=2, reduce="ordered"), "bf16": dict(bf16=True),
    "qwz": dict(qwz=True), "kept images": dict(qwz=True, images=True), "kept images with hpz": dict(FEATURES, images=True, bf16=True),
    "kept images on GPUs": dict(FEATURES, images=True, bf16=True, cuda=True),
    "kept images of one moment on GPUs": dict(qwz=True, images=True, cuda=True, optimizer=("Lion", {}), states=1),
    "kept images of a run that goes on": dict(qwz=True, images=True, cuda=True, first=1, evaluations=((0, 2), (1, 2), (3, 2))),
    "peer stores": dict(FEATURES, nodes=1, local=3, hpz=3, cuda=True, peer_stores=True),
    "peer stores without a codec": dict(nodes=1, local=3, bf16=True, reduce="1-hop", cuda=True, peer_stores=True),
    "peer stores of parts of shards": dict(nodes=1, local=3, reduce="1-hop", bucket=300, cuda=True, peer_stores=True),
    "peer stores in shard groups": dict(nodes=1, local=4, shard=2, reduce="1-hop", qgz=True, cuda=True, peer_stores=True),
    "peer stores in shard groups of several nodes": dict(nodes=2, local=4, shard=2, reduce="1-hop", qgz=True, cuda=True, peer_stores=True),
    "hpz": dict(hpz=2), "hpz over nodes": dict(nodes=4, hpz=4),
    "hpz on the host": dict(FEATURES, bf16=True, hpz_device="cpu"), "hpz on GPUs": dict(hpz=2, hpz_device="device", cuda=True),
    "hpz on the host of GPUs": dict(hpz=2, hpz_device="cpu", cuda=True, offload=(0.6, 1000, 4)),
    "hpz inside a node": dict(nodes=2, local=4, hpz=2), "qgz": dict(qgz=True, reduce="2-hop"),
    "qgz in one hop": dict(qgz=True, reduce="1-hop"), "all": dict(FEATURES, bf16=True),
    "many small buckets": dict(FEATURES, bucket=1, codecs=("int8:256", "int4:32", "int4:32")), "one bucket": dict(FEATURES, bucket=10**9),
    "error feedback": dict(FEATURES, feedback=("intra", "inter")),
    "error feedback in the first hop": dict(FEATURES, feedback=("intra",), feedback_dtype="int8"),
    "error feedback between nodes of one rank": dict(FEATURES, nodes=3, local=1, hpz=3, gather="flat", feedback=("inter",)),
    "measured errors": dict(FEATURES, measure=1), "measured errors of every second step": dict(measure=2),
    "measured errors at stage 1": dict(stage=1, measure=2),
    "measured errors of a run that goes on": dict(FEATURES, measure=2, first=1, evaluations=((0, 2), (1, 2), (3, 2))),
    "measured errors of a run that goes on between two": dict(measure=4, first=2, skipped=(0,), evaluations=(), interval=0),
    "recompute": dict(recompute=True), "cpu checkpointing": dict(recompute=True, cpu_checkpointing=True),
    "cpu checkpointing in 16 bits on GPUs": dict(FEATURES, bf16=True, recompute=True, cpu_checkpointing=True, cuda=True), "GPUs": dict(FEATURES, cuda=True), "one rank": dict(nodes=1, local=1), "one node": dict(FEATURES, nodes=1, local=3, hpz=3),
    "one rank a node": dict(FEATURES, nodes=3, local=1, hpz=3, gather="flat"),
    "two-level without codecs": dict(gather="two-level", reduce="2-hop"),
    "shard groups of a node": dict(shard=2), "shard groups in bf16": dict(shard=2, bf16=True, reduce="ordered"),
    "shard groups in fp16": dict(shard=2, nodes=3, fp16=DYNAMIC, scales=(65536.0,) * 3),
    "shard groups inside a node": dict(nodes=2, local=4, shard=2, reduce="1-hop", qgz=True),
    "shard groups of nodes": dict(nodes=4, shard=4, qwz=True, qgz=True, gather="two-level", reduce="2-hop"),
    "shard groups with error feedback": dict(shard=2, qgz=True, reduce="2-hop", bf16=True, feedback=("intra", "inter")),
    "shard groups of nodes with error feedback": dict(nodes=4, shard=4, qgz=True, reduce="2-hop", gather="two-level", feedback=("inter",),
                                                      feedback_dtype="int8"),
    "momentum": dict(optimizer=("SGD", {"momentum": 0.9}), states=1),
    "no optimizer state": dict(stage=0, optimizer=("SGD", {"momentum": 0.0}), states=0),
    "moments in bf16": dict(bf16=True, moments="bf16"), "moments in 8 bits": dict(stage=2, bf16=True, moments="int8"),
    "moments in 8 bits at stage 0": dict(stage=0, optimizer=("Lion", {}), states=1, moments="int8"),
    "moments in 8 bits in shard groups": dict(shard=2, qgz=True, reduce="2-hop", bf16=True, moments="int8"),
    "moments in 8 bits in files": dict(offload=(0.6, 128, 2), files=(128, 1 << 60, 5), moments="int8", bf16=True),
    "moments in bf16 in files": dict(offload=(1.0, 2000, 2), files=(2000, 1 << 60, 5), moments="bf16"),
    "moments in 8 bits on the host": dict(offload=(0.6, 64, 2), moments="int8", bf16=True),
    "Lion": dict(stage=1, optimizer=("Lion", {}), states=1), "Adam": dict(bf16=True, optimizer=("Adam", {})),
    "fp16": dict(fp16=DYNAMIC, scales=(65536.0,) * 3),
    "fp16 that halves": dict(FEATURES, fp16=dict(DYNAMIC, hysteresis=1), scales=(65536.0, 65536.0, 32768.0)),
    "fp16 that ends too large": dict(fp16=dict(DYNAMIC, loss_scale_window=2, initial_scale_power=3, consecutive_hysteresis=True),
                                     skipped=(0, 0, 1), scales=(8.0, 8.0, 16.0)),
    "fp16 that goes on": dict(fp16=DYNAMIC, first=4, evaluations=(), interval=0, scales=(64.0, 128.0, 64.0)),
    "fp16 with a fixed scale": dict(stage=1, fp16={"loss_scale": 1000.0}, scales=(1000.0,) * 3),
    "no evaluation": dict(FEATURES, evaluations=(), interval=0),
    "all skipped but the last": dict(FEATURES, skipped=(1, 1, 0)),
    "interrupted": dict(FEATURES, evaluations=((0, 2), (2, 2)), interrupted="SIGUSR1", planned=9),
    "interrupted after a skipped step": dict(FEATURES, skipped=(0, 0, 1), evaluations=((0, 2), (2, 2)),
                                             interrupted="SIGTERM", planned=4),
    "goes on after a step": dict(FEATURES, first=1, evaluations=((0, 2), (1, 2), (3, 2))),
    "goes on after the last": dict(FEATURES, first=3, skipped=(), evaluations=((0, 2),)),
    "goes on after two and is interrupted": dict(FEATURES, first=2, evaluations=((0, 2), (2, 2)), interrupted="SIGTERM", planned=6),
    "an evaluation after every step": dict(FEATURES, evaluations=((0, 1), (1, 1), (2, 1), (3, 1)),
                                           interval=1),
}
