"""The times of a training run as a timeline for ui.perfetto.dev or chrome://tracing.

usage: zpp-validate timeline TRACE -o FILE.json

TRACE is a trace (HDF5) or the JSON of zpp_train. A trace holds columns and sums, not events with a beginning; what is
drawn says which of both it is, in the names of tracks and in the arguments of each slice:

  process "steps"        a slice per step, end to end in the order of /steps (pauses between steps are not recorded).
                         Below it, on tracks of their own, forward, drawn from the step's beginning, and backward, drawn
                         after it or, where that would pass the step's end, up to that end: lengths are recorded,
                         beginnings are not. All are the largest over ranks, and of different ranks: together they may
                         be longer than the step. Counters: exposed communication, bytes, loss, tokens per second.
                         Evaluations are marks.
  process "rank R"       /timers: what the host spent in each category over the whole training loop, largest first. A
                         sum, not a sequence.
  process "collectives"  /collectives: seconds of each row over the whole run, by phase; the largest over ranks. A sum,
                         not a sequence.

Microseconds from the first step. Exits with 2 when the file cannot be read or holds no times.
"""

import json
import math
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.problem import Unfit, reading
from zpp_validate.readers import run_file

STEPS, COLLECTIVES, FIRST_RANK = 1, 2, 10  # process ids
SUM = "a sum over the run: neither order nor beginning is recorded"
LARGEST = "largest over ranks"
COUNTERS = {  # counter: columns of /steps, each a series of its
    "exposed communication (s)": {"exposed": "time_communication_exposed"},
    "bytes sent": {"inside nodes": "bytes_intra_node", "across nodes": "bytes_inter_node"},
    "loss": {"loss": "loss"}, "tokens per second": {"tokens": "tokens_per_second"}}


class Timeline:
    """Events in the trace-event format. Times come in whole nanoseconds, so that what nests does so exactly; they leave
    in microseconds, as the format has them."""

    def __init__(self):
        self.metadata, self.events = [], []

    def name(self, process, text, thread=None):
        """A process, or a thread of one; both are shown in the order of their ids."""
        kind = "process" if thread is None else "thread"
        where = {"pid": process, "tid": thread or 0}
        for what, value in (("name", {"name": text}),
                            ("sort_index", {"sort_index": process if thread is None else thread})):
            self.metadata.append({"ph": "M", "name": f"{kind}_{what}", "args": value, **where})

    def slice(self, process, thread, name, begin, length, **arguments):
        self.events.append({"ph": "X", "name": name, "cat": "zeropp", "pid": process, "tid": thread, "ts": begin,
                            "dur": length,
                            "args": arguments})

    def counter(self, process, name, begin, values):
        self.events.append({"ph": "C", "name": name, "pid": process, "tid": 0, "ts": begin, "args": values})

    def mark(self, process, thread, name, begin, **arguments):
        self.events.append({"ph": "i", "s": "p", "name": name, "cat": "zeropp", "pid": process, "tid": thread,
                            "ts": begin,
                            "args": arguments})

    def end_to_end(self, process, thread, name, parts, **arguments):
        """A slice `name` over slices (name, nanoseconds, arguments) in their order."""
        parts = list(parts)
        self.slice(process, thread, name, 0, sum(length for _, length, _ in parts), meaning=SUM, **arguments)
        begin = 0
        for part, length, own in parts:
            self.slice(process, thread, part, begin, length, **own)
            begin += length

    def document(self, other):
        """Sorted by time, a slice before those inside of it."""
        ordered = sorted(self.events, key=lambda event: (event["ts"], -event.get("dur", 0)))
        scaled = [{key: value / 1000 if key in ("ts", "dur") else value for key, value in event.items()}
                  for event in ordered]
        return {"traceEvents": self.metadata + scaled, "displayTimeUnit": "ms", "otherData": other}


def nanoseconds(seconds):
    return round(seconds * 1e9)


def rows(group):
    columns = {name: values for name, values in group.items() if isinstance(values, list)}  # the rest: attributes
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def finite(value):
    """JSON has no NaN."""
    return value is not None and math.isfinite(value)


def add_steps(timeline, run):
    """/steps and /evaluations."""
    timeline.name(STEPS, f"steps ({LARGEST}; end to end)")
    for thread, text in ((1, "step"), (2, "forward (beginning not recorded)"),
                         (3, "backward (beginning not recorded)")):
        timeline.name(STEPS, text, thread)
    begin, begins = 0, []
    for index, step in enumerate(rows(run["steps"])):
        time, forward, backward = (nanoseconds(step[name]) for name in ("time", "time_forward", "time_backward"))
        begins.append(begin)
        skipped = " (skipped)" if step["skipped"] else ""
        timeline.slice(STEPS, 1, f"step {index}{skipped}", begin, time, of=LARGEST,
                       **{name: value for name, value in step.items() if finite(value)})
        # A rank's part is no longer than its step, nor that than the longest; the minimum is for rounding.
        timeline.slice(STEPS, 2, "forward", begin, min(forward, time), of=LARGEST, beginning="not recorded")
        backward = min(backward, time)
        timeline.slice(STEPS, 3, "backward", begin + min(forward, time - backward), backward, of=LARGEST,
                       beginning="not recorded")
        for name, series in COUNTERS.items():
            values = {label: step[column] for label, column in series.items() if finite(step[column])}
            if values:
                timeline.counter(STEPS, name, begin, values)
        begin += time
    begins.append(begin)
    for evaluation in rows(run.get("evaluations", {})):
        arguments = {name: value for name, value in evaluation.items() if finite(value)}
        timeline.mark(STEPS, 1, "evaluation", begins[evaluation["step"]], **arguments)


def add_timers(timeline, run):
    places = rows(run["ranks"])
    by_rank = {}
    for row in rows(run["timers"]):
        by_rank.setdefault(row["rank"], []).append((row["category"], nanoseconds(row["seconds"]), {}))
    for rank, parts in sorted(by_rank.items()):
        at = places[rank]
        gpu = f", {at['gpu']}" if at["gpu"] else ""
        timeline.name(FIRST_RANK + rank, f"rank {rank} ({at['host']}, node {at['node']}{gpu})")
        timeline.name(FIRST_RANK + rank, f"time of the host ({SUM})", 1)
        timeline.end_to_end(FIRST_RANK + rank, 1, "training loop", sorted(parts, key=lambda part: -part[1]),
                            of=f"rank {rank}")


def add_collectives(timeline, run):
    timeline.name(COLLECTIVES, f"collectives ({LARGEST})")
    by_phase = {}
    for row in rows(run["collectives"]):
        by_phase.setdefault(row["phase"], []).append(row)
    on_gpu = run["backend"] == "cuda"
    for thread, (phase, found) in enumerate(by_phase.items(), 1):
        timeline.name(COLLECTIVES, f"{phase} ({SUM})", thread)
        parts = [(f"{row['operation']} {row['purpose']}: {row['algorithm']} {row['codec']}",
                  nanoseconds(row["seconds"]), row)
                 for row in found]
        timeline.end_to_end(COLLECTIVES, thread, phase, parts, of=LARGEST,
                            time="to enqueue, of the host" if on_gpu else "in start and finish")


SOURCES = {"steps": add_steps, "timers": add_timers, "collectives": add_collectives}
ABOUT = ("app", "version", "run_id", "started_at", "backend", "transport", "world_size", "node_count",
         "emulated", "verdict")


def timeline_of(run):
    """The document. Raises KeyError, TypeError, ValueError or IndexError for what is no run, or one without times."""
    if run["schema"] != run_file.SCHEMA:
        raise Unfit(f"its schema is {json.dumps(run['schema'])}")
    timeline = Timeline()
    for group, add in SOURCES.items():
        if any(run.get(group, {}).values()):
            add(timeline, run)
    if not timeline.events:
        raise Unfit("it holds no times")
    return timeline.document({name: run[name] for name in ABOUT})


def main(words):
    parser = command_line.parser("timeline", __doc__)
    parser.add_argument("trace", type=command_line.InputFile, metavar="TRACE", help="trace or JSON of zpp_train")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json")
    arguments = parser.parse_args(words)
    with reading(arguments.trace, "trace of a training run", "name what zpp_train wrote"):
        document = timeline_of(run_file.read(arguments.trace))
    arguments.output.write_text(json.dumps(document, allow_nan=False) + "\n", encoding="utf-8")
    print(f"{arguments.output}: {len(document['traceEvents'])} events; open it at ui.perfetto.dev or chrome://tracing")
    return 0
