"""The state that a rank holds at each stage of ZeRO, four ranks side by side."""

import svg

RANKS = 4
ROWS = [("parameters", svg.FULL, 3), ("gradients", svg.CODED, 2), ("master weights,\noptimizer states", svg.KEPT, 1)]


def draw():
    drawing = svg.Drawing(760, 290, "What each of four ranks holds at ZeRO stages 0 to 3")
    for row, (name, _, _) in enumerate(ROWS):
        drawing.words(66, 90 + 62 * row, name, 12)
    for stage in range(4):
        left = 140 + 155 * stage
        drawing.words(left + 66, 24, f"stage {stage}", 14, bold=True)
        for rank in range(RANKS):
            drawing.words(left + 15 + 34 * rank, 48, f"{rank}", 11)
        for row, (_, colour, sharded_from) in enumerate(ROWS):
            for rank in range(RANKS):
                x, y = left + 34 * rank, 64 + 62 * row
                drawing.box(x, y, 30, 52)
                whole = stage < sharded_from
                drawing.box(x, y if whole else y + 13 * rank, 30, 52 if whole else 13, fill=colour)
    drawing.words(380, 268, "columns: ranks 0 to 3; filled: what the rank holds; a shard is one part in four", 12)
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
