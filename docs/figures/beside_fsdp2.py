"""Milliseconds of a step with FSDP2, zeropp.torch, ZeRO-3 and ZeRO++, as bars: the numbers of the table beside-fsdp2."""

from page_table import page_table
import svg

BARS = (("FSDP2", svg.QUIET), ("FSDP2 hybrid", svg.QUIET), ("zeropp.torch", svg.KEPT), ("ZeRO-3", svg.FULL), ("ZeRO++", svg.CODED))
LEFT, WIDTH, BAR, GROUP = 240, 350, 16, 66


def rows():
    """(what was trained, its times as (name, time, colour)) of each row of the table of steps."""
    head, lines = page_table("docs/results/beside-fsdp2.md", "steps")
    for cells in lines:
        row = dict(zip(head, cells))
        times = [(name, float(row[name]), colour) for name, colour in BARS if row[name] != "-"]
        yield f"{row['model']}, {row['GPUs']} GPUs, {row['links']}", times


def draw():
    found = list(rows())
    drawing = svg.Drawing(760, 50 + sum(GROUP + BAR * (len(times) - 3) for _, times in found), "Milliseconds of a training step: FSDP2, zeropp.torch, ZeRO-3 and ZeRO++")
    drawing.legend(LEFT, 22, [(colour, name) for name, colour in BARS if "hybrid" not in name])
    longest = max(time for _, times in found for _, time, _ in times)
    top = 46
    for what, times in found:
        drawing.words(LEFT - 12, top + len(times) * BAR / 2, what, 13, "end")
        for bar, (name, time, colour) in enumerate(times):
            length = WIDTH * time / longest
            drawing.box(LEFT, top + BAR * bar, length, BAR - 2, fill=colour)
            drawing.words(LEFT + length + 6, top + BAR * bar + BAR / 2 - 1, f"{time:.1f} ms" + (", hybrid sharding" if "hybrid" in name else ""), 11, "start")
        top += GROUP + BAR * (len(times) - 3)
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
