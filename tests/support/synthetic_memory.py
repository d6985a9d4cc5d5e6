"""Bytes that a rank of a synthetic trace holds, by kind, and what its steps read from files and write to them: written
apart from the closed forms. `c`: a case of synthetic_cases.py with its defaults."""

from synthetic_network import image, up


def inside(c):
    """Hops that feed errors back in a reduction among the ranks that share a copy."""
    one_node = c["shard"] and c["shard"] <= c["local"]
    return [hop for hop in c["feedback"] if not (one_node and hop == "inter")]


def moment_bytes(c, elements):
    """Bytes of moments. In 8 bits each 64 elements have 4 bytes more; shards are multiples of 64 elements."""
    return c["states"] * {None: 4 * elements, "bf16": 2 * elements, "int8": elements * 68 // 64}[c["moments"]]


def updates_write_images(c):
    return c["images"] and c["tables"] and c["states"] == 2


def image_tables(c, of_units, tensors):
    """Bytes of the image tables of the first rank's shards, counted weight by weight: a tile of 4096 weights has 40
    bytes, and 72 for each tensor in it."""
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
            **({"measurement": 99} if c["measure"] else {}),
            **({"verification": 8 * 11 * len(tensors)} if c["verify"] else {}), "arena": 12345, "activations": 678}


def pages(size):
    return up(size, 4096)


def cut(count, c):
    """Lengths of the pieces of a unit's elements that are offloaded."""
    left, longest = min(count, up(int(c["offload"][0] * count), 64)), min(c["offload"][1],
                                                                          *(c["files"] or (1 << 60,))[:1])
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
                slot += pages(4 * longest) + c["states"] * pages(moment_bytes(c, longest)
                                                                 // max(1, c["states"])) + (pages(element * longest)
                                                                                            if any(filed) else 0)
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
    """File counters of all ranks; `gathers`: the gathers of each unit, in all steps."""
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
