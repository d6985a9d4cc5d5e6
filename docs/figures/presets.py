"""Held-out loss over the bytes between nodes: the presets of README, each with its 95 % interval."""

import re

from page_table import page_table
import svg

COLOURS = {"equal": svg.KEPT, "equivalent": svg.KEPT, "worse": svg.CODED}
MARGIN = 0.005  # nats: within it a preset is equivalent
LEFT, TOP, WIDTH, HEIGHT = 88, 60, 640, 240
LEAST, MOST, WIDEST = -0.006, 0.008, 60  # nats; per cent


def rows():
    """(name, per cent of the bytes, loss, ends of its interval, verdict) of each preset; an exact one has no interval."""
    for name, share, loss, interval, verdict in page_table("README.md", "presets")[1]:
        ends = [float(end) for end in interval.split(" to ")] if " to " in interval else [0, 0]
        yield re.match(r"\[(.*?)\]", name)[1], float(share.rstrip("%")), float(loss), ends, verdict


def draw():
    drawing = svg.Drawing(LEFT + WIDTH + 30, TOP + HEIGHT + 60, "Held-out loss over the bytes that cross nodes, of what can be sent")
    drawing.legend(LEFT, 22, [(svg.KEPT, "equal or equivalent"), (svg.CODED, "worse"), (svg.QUIET, "within 0.005 nats")])

    def place(share, loss):
        return LEFT + WIDTH * share / WIDEST, TOP + HEIGHT * (MOST - loss) / (MOST - LEAST)

    _, top = place(0, MARGIN)
    _, bottom = place(0, -MARGIN)
    drawing.box(LEFT, top, WIDTH, bottom - top)
    for loss in (-0.005, 0, 0.005):
        drawing.words(LEFT - 8, place(0, loss)[1], f"{loss:+.3f}" if loss else "0", 12, "end")
    drawing.line(*place(0, 0), *place(WIDEST, 0), width=1)
    for share in range(0, WIDEST + 1, 10):
        x, y = place(share, LEAST)
        drawing.line(x, y, x, y + 4, width=1)
        drawing.words(x, y + 16, f"{share}", 12)
    drawing.words(LEFT + WIDTH / 2, TOP + HEIGHT + 42, "per cent of ZeRO-3's bytes between nodes", 13)
    drawing.words(10, TOP - 14, "nats above ZeRO-3", 12, "start")
    above = True  # words of neighbours stay apart; those of a worse preset have room above
    for name, share, loss, (low, high), verdict in sorted(rows(), key=lambda row: row[1]):
        x, _ = place(share, loss)
        drawing.line(x, place(share, low)[1], x, place(share, high)[1])
        drawing.circle(*place(share, loss), 6, COLOURS[verdict])
        y = place(share, high)[1] - 26 if above or low > 0 else place(share, low)[1] + 24
        above = above == (low > 0)
        drawing.words(x, y, name.replace(", ", ",\n"), 12)
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
