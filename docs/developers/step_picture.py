#!/usr/bin/env python3
"""Draws one training step from the schedule that the engine executes.

usage: step_schedule | step_picture.py > step.svg

Standard input is what the tool step_schedule prints (tests/tools/step_schedule.cpp). Operations stand on their streams, as early as
their streams and the operations that they wait for allow; an operation takes a length of its kind, which is no time. A collective is
started on one stream and ends on another. Lines are events: a stream waits for an operation of another one. Below are the memories, by
owner, with what writes and what reads them, and the arena with what the schedule placed there.
"""

import json
import sys
from html import escape

STREAMS = ["compute", "gather", "gather_end", "reduce", "reduce_end", "secondary", "update"]
LENGTH = {"forward": 2, "backward": 3, "clear_gradients": 0.6, "end_reduce": 0.3}
STARTED = {"gather", "gather_secondary", "reduce", "refresh"}  # and ended on another stream
LABEL = {"forward": "forward", "backward": "backward", "gather": "gather", "gather_secondary": "in hpZ",
         "keep_secondary": "keep", "clear_gradients": "", "reduce": "reduce", "end_reduce": "", "update": "update", "refresh": "refresh"}
COLOUR = {"forward": "#cfe3f7", "backward": "#9cc3ea", "gather": "#f9dcae", "gather_secondary": "#fbecd0", "reduce": "#c8e6c0",
          "keep_secondary": "#e4d3f0", "clear_gradients": "#dddddd", "end_reduce": "#7aa870", "update": "#f3c2c2", "norm": "#f3c2c2",
          "refresh": "#f9dcae"}
# Memory, its owner, and the kinds of operations that write it and read it.
MEMORY = [("activations", "model", {"forward"}, {"backward"}),
          ("secondary shards", "RankMemory", {"keep_secondary"}, {"gather_secondary"}),
          ("gradient shards", "RankMemory", {"reduce"}, {"norm", "update"}),
          ("master weights, states", "RankOptimizer", {"update"}, {"gather", "refresh"})]
LEFT, TOP, LANE, ROW, SLOT, ARENA = 200, 46, 38, 24, 28, 190


class Box:
    """A piece of an operation on a stream, from `begin` to `end`."""

    def __init__(self, kind, lines, stream, begin, end):
        self.kind, self.lines, self.stream, self.begin, self.end = kind, lines, stream, begin, end


class Picture:
    def __init__(self, plan):
        self.plan, self.boxes, self.events = plan, [], []
        self.free = dict.fromkeys(STREAMS, 0.0)
        self.gradients = self.place(plan["gradients"])
        done = max(self.free.values())
        self.norm = Box("norm", ["norm"], "compute", done, done + 2)
        self.boxes.append(self.norm)
        self.free = dict.fromkeys(STREAMS, done + 3)
        self.update = self.place(plan["update"])
        self.end = max(self.free.values())

    def name(self, op):
        if op["kind"] in ("forward", "backward"):
            return self.plan["layers"][op["index"]]
        if op["kind"] in ("reduce", "end_reduce"):
            return f"bucket {op['index']}"
        return self.plan["units"][op["index"]]["name"]

    def place(self, ops):
        """The first and the last box of each operation."""
        placed = []
        for op in ops:
            kind, stream = op["kind"], op["stream"]
            begin = max([self.free[stream]] + [placed[i][1].end for i in op["waits_on"]])
            first = last = self.add(op, stream, begin, LENGTH.get(kind, 1.6))
            if kind in STARTED:
                last = self.add(op, op["ends_on"], max(first.end, self.free[op["ends_on"]]), LENGTH.get(kind, 1.6))
                self.events.append((first, last))
            # The latest operation of each other stream suffices: its event follows those of all operations before it.
            latest = {}
            for box in (placed[i][1] for i in op["waits_on"]):
                if box.stream != stream and box.end > latest.setdefault(box.stream, box).end:
                    latest[box.stream] = box
            self.events += [(box, first) for box in latest.values()]
            placed.append((first, last))
        return placed

    def add(self, op, stream, begin, length):
        box = Box(op["kind"], [LABEL[op["kind"]], self.name(op)], stream, begin, begin + length)
        self.free[stream] = box.end
        self.boxes.append(box)
        return box

    def lives(self):
        """Memory in the arena: (text, colour, offset, bytes, begin, end)."""
        ops = self.plan["gradients"]
        for number, op in enumerate(ops):
            first, last = self.gradients[number]
            kind, readers = op["kind"], [self.gradients[i][1].end for i, other in enumerate(ops) if number in other["waits_on"]]
            result = 0
            if op["result"] is not None and kind in ("gather", "gather_secondary"):
                result = self.plan["units"][op["index"]]["weights"]
                yield self.name(op), COLOUR[kind], op["result"], result, first.begin, max(readers, default=last.end)
            elif op["result"] is not None and kind == "clear_gradients":
                result = self.plan["units"][op["index"]]["gradients"]
                ends = [self.gradients[i][1].end for i, other in enumerate(ops)
                        if other["kind"] == "reduce" and op["index"] in self.plan["buckets"][other["index"]]]
                yield f"gradients {self.name(op)}", COLOUR["backward"], op["result"], result, first.begin, max(ends)
            if op["workspace"] is not None and op["bytes"] > result and kind in STARTED:
                yield "", "#eeeeee", op["workspace"], op["bytes"] - result, first.begin, last.end

    def svg(self):
        width = LEFT + round(self.end * SLOT) + 20
        arena_top = TOP + LANE * len(STREAMS) + 44 + ROW * len(MEMORY) + 34
        height = arena_top + ARENA + 24
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
               'font-family="sans-serif" font-size="10">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
               text(LEFT, 18, "A training step: ZeRO stage 3 with hpZ, one micro-step. Lengths are no times.", size=13)]
        out += self.streams() + self.decision(arena_top) + self.memories() + self.arena(arena_top)
        return "\n".join([*out, "</svg>", ""])

    def streams(self):
        out = []
        for stream in STREAMS:
            y = lane(stream)
            out += [text(10, y + 17, f"stream {stream}", size=11), line(LEFT, y + LANE - 3, at(self.end), y + LANE - 3, "#cccccc")]
        for first, last in self.events:
            out.append(line(at(first.end), lane(first.stream) + 13, at(last.begin), lane(last.stream) + 13, "#888888"))
        for box in self.boxes:
            out.append(rectangle(at(box.begin), lane(box.stream) + 2, (box.end - box.begin) * SLOT, LANE - 8, COLOUR[box.kind], box.lines))
        return out

    def decision(self, bottom):
        x = at(self.norm.end + 0.5)
        return [f'<line x1="{x}" y1="{TOP - 14}" x2="{x}" y2="{bottom}" stroke="#b03030" stroke-dasharray="5 3"/>',
                text(x - 4, TOP - 16, "the host waits: skip, or clip and update", anchor="end")]

    def memories(self):
        out, top = [], TOP + LANE * len(STREAMS) + 44
        out.append(text(10, top - 12, "memory, its owner: filled marks write, open ones read", size=11))
        for row, (name, owner, writers, readers) in enumerate(MEMORY):
            y = top + row * ROW
            out += [text(10, y + 14, f"{name} ({owner})"), line(LEFT, y + ROW - 3, at(self.end), y + ROW - 3, "#cccccc")]
            for first, last in [*self.gradients, (self.norm, self.norm), *self.update]:
                if first.kind in writers:
                    out.append(mark(at((last.begin + last.end) / 2), y + 10, COLOUR[first.kind]))
                elif first.kind in readers:
                    out.append(mark(at((first.begin + first.end) / 2), y + 10, "none"))
        return out

    def arena(self, top):
        total = self.plan["arena_bytes"]
        out = [text(10, top + 14, "arena (RankMemory)", size=11), text(10, top + 28, f"{total} bytes;"),
               text(10, top + 42, "grey: workspace of collectives"), rectangle(LEFT, top, at(self.end) - LEFT, ARENA, "none", [])]
        for name, colour, offset, size, begin, end in self.lives():
            out.append(rectangle(at(begin), top + ARENA * offset / total, (end - begin) * SLOT, ARENA * size / total, colour, [name]))
        return out


def at(slots):
    return LEFT + slots * SLOT


def lane(stream):
    return TOP + LANE * STREAMS.index(stream)


def text(x, y, words, size=10, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1, y1, x2, y2, colour):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def mark(x, y, colour):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}" stroke="#555555"/>'


def rectangle(x, y, width, height, colour, lines):
    """With the lines inside as far as they fit, and in full for who points at it."""
    box = (f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" stroke="#555555" '
           f'stroke-width="0.6"><title>{escape(" ".join(lines))}</title></rect>')
    if width < 25:
        return box
    shown = [words[:int(width / 4.6)] for words in lines if words]
    return box + "".join(text(x + 2, y + 10 + 11 * row, words, size=8.5) for row, words in enumerate(shown) if height > 9 + 11 * row)


if __name__ == "__main__":
    sys.stdout.write(Picture(json.load(sys.stdin)).svg())
