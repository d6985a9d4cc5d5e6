"""Times of kernels as the library kernel_times (validation/kernel_times/) writes them, and the arithmetic of intervals.
Times are nanoseconds on the GPU's clock."""

import re
from dataclasses import dataclass

from zpp_validate.problem import Problem, Unfit, reading

KINDS = ("kernel", "copy", "set")
# The library's last line. A file without it may lack the end of the run.
END = re.compile(r"# complete, (\d+) records lost\n?")


@dataclass(frozen=True)
class Activity:
    begin: int
    end: int
    device: int
    stream: int
    kind: str  # of KINDS
    name: str  # of a kernel
    size: int  # bytes of a copy or a set


def parse(line):
    fields = line.rstrip("\n").split("\t")
    if len(fields) != 6:
        raise Unfit(f"{len(fields)} columns instead of 6")
    begin, end, device, stream = (int(field) for field in fields[:4])
    kind, what = fields[4:]
    if kind not in KINDS:
        raise Unfit(f"unknown kind '{kind}'")
    if end < begin:
        raise Unfit("ends before it begins")
    return Activity(begin, end, device, stream, kind, what if kind == "kernel" else "", 0 if kind == "kernel"
                    else int(what))


def read(path):
    """All activities of one GPU, in the order in which they began, and whether the file has its end. Raises Problem,
    OSError."""
    activities, complete = [], False
    with open(path, encoding="utf-8", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            end = END.fullmatch(line)
            if end:
                complete = True
                if int(end[1]) > 0:
                    raise Problem(f"{path}: {end[1]} records were lost: record fewer steps")
                continue
            with reading(f"{path}:{number}", "line of kernel times", "name what the library kernel_times wrote"):
                activities.append(parse(line))
    if len({activity.device for activity in activities}) > 1:
        raise Problem(f"{path}: several GPUs: record each rank into a file of its own")
    return sorted(activities, key=lambda activity: (activity.begin, activity.end)), complete


def union(intervals):
    """Disjoint intervals, in order, that cover the same times."""
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def covered(activities, begin, end):
    """Nanoseconds of [begin, end) in which at least one of the activities runs."""
    clipped = ((max(a.begin, begin), min(a.end, end)) for a in activities)
    return sum(last - first for first, last in union((b, e) for b, e in clipped if b < e))
