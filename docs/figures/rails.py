"""Rails join equal local ranks of the nodes; a rail may have several lanes; copies inside a node go by copy engines."""

import nodes
import svg


def draw():
    drawing = svg.Drawing(760, 400, "Rails, lanes and copy engines")
    row0, row1 = nodes.two_nodes(drawing, 20, 4, left=(20, 400), width=340, height=120)
    for row in (row0, row1):
        for (x0, y), (x1, _) in zip(row, row[1:]):
            drawing.line(x0 + 30, y, x1 - 30, y, svg.KEPT, 6)
        drawing.words((row[0][0] + row[3][0]) / 2, 52, "NVLink: messages by copy engines", 11)
    for local in range(4):
        (x0, y), (x1, _) = row0[local], row1[local]
        level = 175 + 48 * local
        lanes = 4 if local == 3 else 1
        for lane in range(lanes):
            at = level + 6 * (lane - (lanes - 1) / 2)
            drawing.line(x0, at, x1, at, svg.CODED, 3)
        for x in (x0, x1):
            drawing.line(x, y + 18, x, level, svg.CODED, 2)
        drawing.words((x0 + x1) / 2, level - 16 - 3 * (lanes - 1), f"rail {local}" + (", drawn with four lanes" if lanes > 1 else ""), 12)
    drawing.legend(60, 375, [(svg.KEPT, "inside a node"), (svg.CODED, "across nodes: one rail for each local rank")])
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
