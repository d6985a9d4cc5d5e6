"""Milliseconds of a step with FSDP2, ZeRO-3 and ZeRO++, as bars: the numbers of the table beside-fsdp2."""

import pathlib
import re

import svg

PAGE = pathlib.Path(__file__).resolve().parents[1] / "results" / "beside-fsdp2.md"
COLOURS = (("FSDP2", svg.QUIET), ("ZeRO-3", svg.FULL), ("ZeRO++", svg.CODED))
LEFT, WIDTH, BAR, GROUP = 190, 480, 16, 66


def rows():
    """(what was trained, the three times) of each row of milliseconds of the table."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and re.fullmatch(r"[\d.]+", cells[1]):
            yield cells[0], [float(cell) for cell in cells[1:4]]


def draw():
    found = list(rows())
    drawing = svg.Drawing(760, 50 + GROUP * len(found), "Milliseconds of a training step: FSDP2, ZeRO-3 and ZeRO++")
    drawing.legend(LEFT, 22, [(colour, name) for name, colour in COLOURS])
    longest = max(max(times) for _, times in found)
    for number, (what, times) in enumerate(found):
        top = 46 + GROUP * number
        drawing.words(LEFT - 12, top + 1.5 * BAR, what, 13, "end")
        for bar, (time, (_, colour)) in enumerate(zip(times, COLOURS)):
            length = WIDTH * time / longest
            drawing.box(LEFT, top + BAR * bar, length, BAR - 2, fill=colour)
            drawing.words(LEFT + length + 6, top + BAR * bar + BAR / 2 - 1, f"{time:.1f} ms", 11, "start")
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
