"""qgZ: gradients are reduced inside a node, encoded again, and reduced across nodes on the rails."""

import nodes
import svg


def draw():
    drawing = svg.Drawing(760, 460, "qgZ: two hops")
    drawing.words(380, 22, "Hop 1, inside each node: all-to-all of codes, decode, sum", 14, bold=True)
    for row in nodes.two_nodes(drawing, 40, 2):
        (x0, y), (x1, _) = row
        for local, x in enumerate((x0, x1)):
            drawing.box(x - 62, y + 28, 58, 26, f"for {local}, {local + 2}", svg.CODED, 11)
            drawing.box(x + 4, y + 28, 58, 26, f"for {1 - local}, {3 - local}", svg.CODED, 11)
            drawing.words(x, y + 96, f"sum for {local}, {local + 2}", 11)
        drawing.arrow(x0 + 20, y + 72, x1 - 20, y + 72, width=3, both=True)
    drawing.words(380, 234, "Hop 2, on the rails: the sums are encoded again and sent once across nodes", 14, bold=True)
    row0, row1 = nodes.two_nodes(drawing, 252, 2)
    for local in range(2):
        (x0, y), (x1, _) = row0[local], row1[local]
        lane = y + 38 + 30 * local
        drawing.words(x0, lane + 1, f"sum for {local + 2}", 11)
        drawing.words(x1, lane + 1, f"sum for {local}", 11)
        drawing.arrow(x0 + 42, lane, x1 - 42, lane, svg.CODED, 3, both=True)
        for node, (x, _) in enumerate((row0[local], row1[local])):
            drawing.words(x, y + 94, f"shard {2 * node + local}", 11, bold=True)
    drawing.words(380, 443, "Each value leaves its node once, in few bits, after the node has added it up.", 12)
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
