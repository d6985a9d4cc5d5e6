"""The groups of a synthetic trace of training, as {group: {column: values}}: a function for each that is not a
constant. A new column of zpp_train's traces goes here. `c`: a case of synthetic_cases.py with its defaults."""

import math

from synthetic_config import SEQUENCE, SEQUENCES, WIDTH
from synthetic_memory import file_counters, inside, memory_of, offload_memory
from synthetic_network import up
from synthetic_replay import FLAT, LAYERS, TENSORS

TIMERS = "matmul nn codec optimizer communication data other".split()


def groups_of(c, shape, replay):
    """All of them, in the order of the file."""
    memory = bytes_of_memory(c, shape)
    groups = {"ranks": ranks_of(c, shape), "units": units_of(c, shape), "tensors": tensors_of(), "layers": layers_of(c),
              "steps": steps_of(c, shape, replay), "evaluations": evaluations_of(c),
              "collectives": collectives_of(c, replay),
              "timers": dict(rank=[rank for rank in range(shape.ranks) for _ in TIMERS], category=TIMERS * shape.ranks,
                             seconds=[0.1] * (shape.ranks * len(TIMERS))),
              "counters": counters_of(c, shape, replay),
              "memory": dict(name=list(memory), bytes_predicted=list(memory.values()),
                             bytes_actual=list(memory.values()))}
    if c["measure"]:
        groups["errors"] = errors_of(c)
    if c["cuda"]:
        groups["gpus"] = gpus_of(shape)
    return groups


def ranks_of(c, shape):
    n = shape.ranks
    return dict(host=["h"] * n, node=shape.nodes, local_rank=[rank % c["local"] for rank in range(n)],
                pid=list(range(1, n + 1)), gpu=[""] * n, gpu_uuid=[""] * n, gpu_pci=[""] * n)


def units_of(c, shape):
    uses = [sum(layer.count(unit) for layer in LAYERS) if c["stage"] == 3 else 0 for unit in range(len(TENSORS))]
    return dict(name=[f"u{unit}" for unit in range(len(TENSORS))], elements=[sum(unit) for unit in TENSORS],
                flat=list(FLAT), padded=[size * shape.group for size in shape.shard], shard=shape.shard,
                gathers_forward=list(uses), gathers_backward=list(uses))


def tensors_of():
    rows = [(unit, elements, sum(up(before, 64) for before in tensors[:index]))
            for unit, tensors in enumerate(TENSORS) for index, elements in enumerate(tensors)]
    return dict(unit=[row[0] for row in rows], name=[f"t{index}" for index in range(len(rows))],
                elements=[row[1] for row in rows], offset=[row[2] for row in rows])


def layers_of(c):
    """Again the two blocks that recompute have all but the last product of each: 8000 + 16 * 10^2 + 4 * 8 * 10."""
    flops = [0.0, 8000.0, 8000.0, 12320.0]
    return dict(name=["a", "b", "c", "d"], units=[",".join(map(str, units)) for units in LAYERS],
                flops_per_token=list(flops),
                hardware_flops_per_token=[0.0, 9920.0, 9920.0, 12320.0] if c["recompute"] else list(flops))


def steps_of(c, shape, replay):
    count, skipped = len(replay.steps), c["skipped"]
    intra, inter = ([step[kind] for step in replay.steps] for kind in (0, 1))
    tokens = shape.ranks * c["micro"] * SEQUENCES * SEQUENCE
    return dict(loss=[float("nan") if skip else 2.0 for skip in skipped],
                grad_norm=[float("inf") if skip else 1.0 for skip in skipped],
                time=[0.5] * count, tokens_per_second=[tokens / 0.5] * count,
                bytes_intra_node=intra, bytes_inter_node=inter,
                bytes_predicted_intra_node=list(intra), bytes_predicted_inter_node=list(inter),
                learning_rate=[1e-3] * count, loss_scale=list(c["scales"] or [1.0] * count), skipped=list(skipped),
                time_forward=[0.1] * count, time_backward=[0.2] * count, time_communication_exposed=[0.0] * count,
                time_gather=[0.05] * count, time_reduce=[0.05] * count,
                time_optimizer=[0.0 if skip else 0.1 for skip in skipped],
                time_offload_wait=[0.1 if c["offload"] and not skip else 0.0 for skip in skipped])


def evaluations_of(c):
    count = len(c["evaluations"])
    return {"@cut_off": c["cut_off"]} | dict(
                step=[c["first"] + before for before, _ in c["evaluations"]], loss=[1.0] * count,
                bits_per_byte=[1.0 / math.log(2)] * count, batches=[batches for _, batches in c["evaluations"]])


def collectives_of(c, replay):
    keys, values = list(replay.net.rows), list(replay.net.rows.values())
    return dict(operation=[key[0] for key in keys], purpose=[key[1] for key in keys], phase=[key[2] for key in keys],
                algorithm=[key[3] for key in keys], codec=[key[4] for key in keys], group=[key[5] for key in keys],
                path=[path_of(c, key) for key in keys], modelled=[0] * len(keys),
                calls=[value[2] for value in values], logical_bytes=[value[3] for value in values],
                wire_bytes_intra=[value[0] for value in values], wire_bytes_inter=[value[1] for value in values],
                seconds=[0.0] * len(keys))


def path_of(c, key):
    """How the reduction of a row went from the first hop to the second."""
    if key[1] == "gradients_across":
        return "feedback:inter" * ("inter" in c["feedback"])
    if key[0] != "reduce_scatter" or not inside(c):
        return "fused" if "/" in key[4] else ""
    hops = "feedback:" + ",".join(inside(c))
    return ("composed+" if "inter" in c["feedback"] else "fused+") * ("/" in key[4]) + hops


def counters_of(c, shape, replay):
    """Sums over ranks; what never happened has no row."""
    secondary = sum(value[2] for key, value in replay.net.rows.items() if key[5] == "secondary")
    steps = range(c["first"] + 1, c["first"] + 1 + len(c["skipped"]))
    verified = [step for step in steps if c["verify"] and (step % c["verify"] == 0 or step == steps[0])]
    of_rank = {"nonfinite_steps": sum(c["skipped"]), "secondary_gathers": secondary,
               "verified_steps": len(verified), "verification_alarms": c["alarms"], **replay.made}
    counters = {name: value * shape.ranks for name, value in of_rank.items() if value}
    if c["files"]:
        counters |= file_counters(c, shape.updated(c["stage"]), shape.element, replay.gathers)
    return dict(name=list(counters), value=list(counters.values()))


def bytes_of_memory(c, shape):
    """{name: bytes} of /memory, on GPUs with what is measured there."""
    memory = memory_of(c, shape.shard, shape.ranks, shape.element, [sum(part) for part in shape.parts], TENSORS)
    if c["offload"]:
        offload_memory(c, memory, shape.updated(c["stage"]), shape.element)
    if c["cpu_checkpointing"]:  # of three blocks one, in multiples of 256 bytes
        memory["offloaded_activations"] = up(SEQUENCES * SEQUENCE * WIDTH * (shape.element if c["cuda"] else 4), 256)
    if c["cuda"]:
        on_device = sum(size for name, size in memory.items() if not name.startswith("offloaded"))
        memory |= {"buffers_peak": on_device, "gpu_used": on_device}
    return memory


def errors_of(c):
    """Errors of units u0 to u3, each a kind of its own: gradients that lose a fifth at a right angle, weights
    nothing."""
    nothing, a_fifth = (0.0, 1.0, 0.0, 1.0), (0.2, 1 / math.sqrt(1.04), 0.1, math.sqrt(1.04))
    rows = [(c["first"] + step, kind, f"u{unit}", *(nothing if kind == "weights" and not c["qwz"] else a_fifth))
            for step in range(-c["first"] % c["measure"], len(c["skipped"]), c["measure"])
            for kind in ("weights", "gradients") if c["stage"] > 0 or kind == "gradients"
            for unit in range(len(TENSORS)) if kind == "weights" or not c["skipped"][step]]
    names = ("step", "kind", "unit_kind", "relative_l2", "cosine", "largest", "norm_ratio")
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def gpus_of(shape):
    """Two readings of each rank's GPU."""
    n = shape.ranks
    return {"@period": 1.0, "@absent": "", "@throttled": "", "rank": [rank for rank in range(n) for _ in range(2)],
            "time": [0.0, 1.0] * n, "sm_clock": [1980.0] * 2 * n, "memory_clock": [3201.0] * 2 * n,
            "power": [600.0, float("nan")] * n, "temperature": [50.0] * 2 * n,
            "utilization": [0.0, 100.0] * n, "memory_utilization": [0.0, 50.0] * n,
            "reasons": ["gpu_idle", ""] * n}
