"""Weight differences: the owner sends how its shard differs from a copy that every node holds, and every node adds it."""

import svg


def draw():
    drawing = svg.Drawing(760, 300, "Weight differences: encode what changed, gather it along the rail, add it to every copy")
    drawing.words(105, 24, "owner, after its update", 13, bold=True)
    drawing.box(20, 46, 170, 40, "new weights w, fp32", svg.FULL)
    drawing.box(20, 150, 170, 40, "copy r, 16 bits", svg.KEPT)
    drawing.words(105, 118, "w - r, element by element", 12)
    drawing.line(105, 88, 105, 106)
    drawing.line(105, 148, 105, 130)
    drawing.arrow(194, 118, 244, 118)
    drawing.words(219, 102, "encode", 12)

    drawing.words(315, 24, "between nodes", 13, bold=True)
    drawing.box(250, 100, 84, 36, "int4 codes", svg.CODED, 12)
    drawing.box(338, 100, 44, 36, "scales", svg.KEPT, 11)
    drawing.words(315, 158, "a quarter of 16 bits", 12)
    drawing.arrow(386, 118, 446, 118)
    drawing.words(416, 86, "all-gather\nalong the rail", 12)

    drawing.words(610, 24, "every node, the owner's too", 13, bold=True)
    for node in range(2):
        y = 46 + 104 * node
        drawing.box(456, y, 116, 40, f"node {node}: copy r", svg.KEPT, 12)
        drawing.arrow(576, y + 20, 640, y + 20)
        drawing.words(608, y + 6, "+ decoded", 12)
        drawing.box(646, y, 96, 40, "new copy r", svg.KEPT, 12)
        drawing.line(446, 118, 514, y + (42 if node == 0 else -2), svg.CODED)
    drawing.words(380, 226, "Forward and backward gather the copy inside each node, in 16 bits.", 12)
    drawing.words(380, 246, "The next difference contains the error of this encoding.", 12)
    drawing.legend(90, 278, [(svg.FULL, "the optimizer's weights"), (svg.CODED, "4-bit codes"), (svg.KEPT, "the copy: equal bits in every node")])
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
