"""Milliseconds of a step over the rate of links between nodes, planned and measured: the table link-speed."""

import math

from page_table import page_table
import svg

COLOURS = {"ZeRO-3": svg.FULL, "ZeRO++": svg.CODED}
LEFT, TOP, WIDTH, HEIGHT, GAP = 62, 76, 200, 210, 44


def curves():
    """By model and setting: planned (rate, milliseconds), and the measured one."""
    head, lines = page_table("docs/howto/planning-times.md", "link-speed")
    found = {}
    for column, name in enumerate(head[1:], 1):
        points = [(float(cells[0].split(",")[0]), float(cells[column].replace(",", ""))) for cells in lines]
        model, setting = name.split(", ")
        found.setdefault(model, {})[setting] = points[:-1], points[-1]
    return found


def draw():
    found = curves()
    drawing = svg.Drawing(LEFT + len(found) * (WIDTH + GAP) - GAP + 30, TOP + HEIGHT + 60, "Milliseconds of a step over the rate between nodes")
    drawing.legend(LEFT, 22, [(colour, name) for name, colour in COLOURS.items()])
    drawing.words(LEFT + 190, 22, "lines: planned; circles: measured between emulated nodes", 12, "start")
    rates = [rate for rate, _ in next(iter(next(iter(found.values())).values()))[0]]
    for panel, (model, settings) in enumerate(found.items()):
        left = LEFT + panel * (WIDTH + GAP)
        times = [time for points, measured in settings.values() for _, time in (*points, measured)]
        least, most = min(times) / 1.2, max(times) * 1.1

        def place(rate, time, left=left, least=least, most=most):
            across, up = (math.log(value / first) / math.log(last / first) for value, first, last in ((rate, rates[0], rates[-1]), (time, least, most)))
            return left + WIDTH * across, TOP + HEIGHT * (1 - up)

        drawing.words(left + WIDTH / 2, TOP - 18, f"{model} parameters", 13, bold=True)
        for tick in (factor * 10 ** power for power in range(2, 5) for factor in (1, 2, 5)):
            if least <= tick <= most:
                _, y = place(rates[0], tick)
                drawing.line(left, y, left + WIDTH, y, svg.QUIET, 1)
                drawing.words(left - 6, y, f"{tick:,}", 11, "end")
        for rate in rates:
            x, y = place(rate, least)
            drawing.line(x, y, x, y + 4, width=1)
            drawing.words(x, y + 15, f"{rate:g}", 11)
        for name, (points, measured) in settings.items():
            for first, second in zip(points, points[1:]):
                drawing.line(*place(*first), *place(*second), COLOURS[name], 3)
            drawing.circle(*place(*measured), 5, COLOURS[name])
    drawing.words(14, TOP - 18, "ms", 12, "start")
    drawing.words(LEFT + (len(found) * (WIDTH + GAP) - GAP) / 2, TOP + HEIGHT + 42, "Gbit/s per GPU between nodes", 12)
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
