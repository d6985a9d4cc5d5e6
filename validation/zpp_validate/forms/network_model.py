"""The time of a step over a link, from the step without one and the bytes that cross.

  step(rate) = step(unshaped) + 8 B / (H rate)        B: bytes between hosts per step, over all ranks; H: hosts

Every algorithm here is symmetric: each host sends B / H, while it receives as much, and its link carries both
directions at the full rate. Nothing overlaps: the back end `host` has one thread per rank, which computes or
communicates, and the ranks of a host wait for the same link. step(unshaped) is measured with the same ranks on the same
cores: it has all computing, codec work, and the copies that any transfer costs. The model therefore counts these copies
twice where the link is about as fast as they are (10 Gb/s here). It has no latency: a collective in many small messages
takes longer than the model says.
"""


def link_seconds(bytes_across, hosts, bits_per_second):
    """Seconds that the link adds to a step; 0 without a rate."""
    return 8 * bytes_across / (hosts * bits_per_second) if bits_per_second else 0.0


def step_seconds(unshaped_seconds, bytes_across, hosts, bits_per_second):
    return unshaped_seconds + link_seconds(bytes_across, hosts, bits_per_second)
