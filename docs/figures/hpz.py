"""hpZ: the forward gather crosses nodes and fills the secondary copy; backward gathers stay inside the node."""

import nodes
import svg


def draw():
    drawing = svg.Drawing(760, 480, "hpZ: forward across nodes, backward inside the node")
    drawing.words(380, 22, "Forward: all four shards are gathered; each GPU keeps one half of them", 14, bold=True)
    for node, row in enumerate(nodes.two_nodes(drawing, 44, 2)):
        for local, (x, y) in enumerate(row):
            drawing.box(x - 60, y + 30, 120, 26, f"shard {2 * node + local} of 4", svg.FULL, 12)
            drawing.box(x - 60, y + 66, 120, 30, f"secondary {local} of 2", svg.KEPT, 12)
    drawing.arrow(332, 129, 428, 129, width=3, both=True)
    drawing.words(380, 108, "across\nnodes", 12)

    drawing.words(380, 244, "Backward: each node gathers its own secondary copy", 14, bold=True)
    for row in nodes.two_nodes(drawing, 264, 2, height=172):
        (x0, y), (x1, _) = row
        for local, x in enumerate((x0, x1)):
            drawing.box(x - 60, y + 30, 120, 30, f"secondary {local} of 2", svg.KEPT, 12)
        drawing.arrow(x0 + 40, y + 78, x1 - 40, y + 78, width=3, both=True)
        drawing.words((x0 + x1) / 2, y + 92, "inside the node", 11)
    drawing.words(380, 344, "nothing\ncrosses", 12)
    drawing.legend(110, 452, [(svg.FULL, "canonical shard"), (svg.KEPT, "shard of the secondary copy, 16 bits")])
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
