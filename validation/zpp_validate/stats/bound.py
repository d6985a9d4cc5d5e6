"""The bound of a training step, from the columns of /steps in its trace (lib/trace/README.md).

The step's time in three parts, of the medians over the measured steps:

  compute              forward + backward - exposed: the compute stream's schedule, without its waits. A gap in which
                       the host had not yet enqueued the next kernel is in it.
  communication        exposed: the compute stream waited for gathers and reductions. At stage 3 a unit's first gather
                       waits for the optimizer's update of it. At stages 1 and 2, and for units that persist, a layer
                       waits for the gathers after the update. The part of both waits that is not hidden is in it too.
                       On the back end `host`, which has one thread, the codec work of collectives is in it. Named
                       "across nodes" where bytes crossed nodes, whichever hop was waited for, else "inside the node".
  host and optimizer   time - (forward + backward): outside of that schedule. Latency of the host, the optimizer as far
                       as nothing hides it, control messages.

The largest part is the bound, at a tie the first in this order. Each column is the largest over the ranks, so parts of
different ranks may add up to more than the step: none counts as less than 0, and shares are those of the parts' sum.
"""

import statistics

COLUMNS = ("time", "time_forward", "time_backward", "time_communication_exposed", "bytes_inter_node")
UNKNOWN = "-"

LEGEND = """bound by: the largest of three parts of the median step, and its share. compute: forward and backward \
without the
waits for communication; communication: these waits (on the host with the codec work), across nodes where bytes crossed
them; host and optimizer: outside of forward and backward.
"""


def bound_by(steps):
    """As "compute 97 %". `steps`: columns by name, a value for each measured step; seconds and bytes. UNKNOWN where a
    column is missing or empty, or the compute stream was not timed."""
    columns = [steps.get(name, ()) for name in COLUMNS]
    if not all(map(len, columns)):
        return UNKNOWN
    time, forward, backward, exposed, across = map(statistics.median, columns)
    scheduled = forward + backward
    if scheduled <= 0:
        return UNKNOWN
    place = "across nodes" if across > 0 else "inside the node"
    parts = {"compute": max(scheduled - exposed, 0.0), f"communication {place}": exposed,
             "host and optimizer": max(time - scheduled, 0.0)}
    name = max(parts, key=parts.get)
    return f"{name} {100 * parts[name] / sum(parts.values()):.0f} %"
