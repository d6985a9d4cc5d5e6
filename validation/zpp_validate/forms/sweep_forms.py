"""How a sweep counts: sizes and bus bandwidths as nccl-tests defines them (its doc/PERFORMANCE.md), and the bytes that
one run of a row sends, by the rules of lib/trace/README.md. Shares nothing with the library.
"""

from zpp_validate.forms import wire
from zpp_validate.problem import Unfit

ELEMENT_BYTES = {"float": 4, "half": 2, "bfloat16": 2}
WIRE_DTYPE = {"half": "fp16", "bfloat16": "bf16"}
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast")
OPERATIONS = {"reduce_scatter": "sum", "all_reduce": "sum"}  # of the others: none
UNDIVIDED = ("all_reduce", "broadcast")  # their count is of the whole buffer, else of a rank's part


def count_of(collective, size, dtype, ranks):
    """The column `count` for a buffer of `size` bytes. Parts are multiples of 16 bytes."""
    element = ELEMENT_BYTES[dtype]
    if collective in UNDIVIDED:
        return size // element
    return size // element // ranks // (16 // element) * (16 // element)


def size_of(collective, count, dtype, ranks):
    """The column `size`, in bytes."""
    return count * ELEMENT_BYTES[dtype] * (1 if collective in UNDIVIDED else ranks)


def bus_factor(collective, ranks):
    """Bus bandwidth over algorithm bandwidth."""
    return {"broadcast": 1.0, "all_reduce": 2 * (ranks - 1) / ranks}.get(collective, (ranks - 1) / ranks)


def gather_of(algorithm):
    """Which all-gather ends an all-reduce that begins with this reduce-scatter."""
    return {"2-hop": "two-level", "flat": "flat"}.get(algorithm, "direct")


def sent(topology, collective, codec, algorithm, dtype, count, root):
    """Bytes that one run sends, over all ranks of the topology. Raises ValueError where there is no closed form."""
    element, size = ELEMENT_BYTES[dtype], topology.size
    if collective == "all_gather":
        return wire.all_gather(topology, algorithm, codec, count, element)
    if collective == "reduce_scatter":
        return wire.reduce_scatter(topology, algorithm, (codec, codec), count, element)
    if collective == "all_to_all":
        return wire.all_to_all(topology, wire.wire_bytes(codec, count, element))
    if collective == "broadcast":
        links = wire.Bytes()
        for rank in range(size):
            if (rank + 1) % size != root:
                links += topology.sent(rank, (rank + 1) % size, count * element)
        return links
    if collective != "all_reduce":
        raise Unfit(f"no closed form for {collective!r}")
    if algorithm == "native":
        return wire.ring(topology, -(-count * element // size)) * 2
    part = -(-count // size)
    gathered = WIRE_DTYPE.get(dtype, codec) if codec == "none" else codec
    return (wire.reduce_scatter(topology, algorithm, (codec, codec), part, element)
            + wire.all_gather(topology, gather_of(algorithm), gathered, part, 4))


def busiest(collective, total, ranks, groups):
    """Bytes of the rank that sends most, where all of `groups` groups of `ranks` ranks together send `total`: on a
    chain all ranks but the last send, else all send the same."""
    senders = ranks - 1 if collective == "broadcast" else ranks
    return total / (senders * groups) if senders else 0.0
