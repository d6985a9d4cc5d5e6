"""Rows of /memory of what a run of the options' matrix offloads, written once more for it."""


def pages(elements, size):
    """Bytes of an array in a file."""
    return -(-elements * size // 4096) * 4096


def memory(row, counts, on_host, element, states, moments, piece, buffers, in_cpu):
    """Rows of /memory by name. `row`: of the matrix; `counts`: elements that a rank updates by unit, `on_host` those that are
    offloaded; `moments(n)`: bytes of one moment of n elements; two buffers of weights."""
    on_file = row["offload_to"] == "nvme"
    longest = min(piece, max(on_host))
    filed = [row["offload_param"] == "nvme" and sum(counts[: unit + 1]) > in_cpu for unit in range(len(counts))]
    slot = 4 * longest + (pages(longest, 4) + states * pages(moments(longest), 1) if on_file else 0)
    if any(filed):
        slot += pages(longest, element)
    elif element == 2 and not row["offload_param"]:
        slot += 2 * longest
    there = 0 if on_file else sum(on_host)
    rows = {"offloaded_master": 4 * there, "offloaded_moments": states * moments(there), "offloaded_staging": buffers * slot}
    if row["offload_param"]:
        master = element == 4 and row["offload_param"] == "cpu" and not on_file
        rows["offloaded_weights"] = 0 if master else element * sum(count for count, gone in zip(counts, filed) if not gone)
    if row["offload_param"] == "nvme":
        records = [sum(pages(min(piece, count - at), element) for at in range(0, count, piece)) for count, gone in zip(counts, filed) if gone]
        rows["offloaded_weight_buffers"] = min(2, len(records)) * max(records)
    return rows
