"""qwZ: a shard is encoded block by block, gathered as one image, and decoded on every rank."""

import svg


def draw():
    drawing = svg.Drawing(760, 250, "qwZ: encode, gather, decode")
    drawing.words(90, 24, "shard of a rank, bf16", 13, bold=True)
    for block in range(3):
        drawing.box(25, 44 + 44 * block, 130, 36, "256 values, 512 B", svg.FULL, 12)
    drawing.words(90, 190, "block after block", 12)
    drawing.arrow(165, 106, 225, 106)
    drawing.words(195, 90, "encode", 12)

    drawing.words(335, 24, "image: one message", 13, bold=True)
    for block in range(3):
        drawing.box(235, 44 + 44 * block, 140, 36, "256 codes, 256 B", svg.CODED, 12)
        drawing.box(385, 44 + 44 * block, 50, 36, "2 B", svg.KEPT, 12)
    drawing.words(305, 190, "payload", 12)
    drawing.words(410, 190, "scales", 12)
    drawing.arrow(445, 106, 515, 106)
    drawing.words(480, 82, "all-gather\nover all ranks", 12)

    drawing.words(640, 24, "every rank", 13, bold=True)
    for rank in range(4):
        drawing.box(535, 44 + 34 * rank, 75, 26, f"image {rank}", svg.CODED, 12)
        drawing.arrow(616, 57 + 34 * rank, 652, 57 + 34 * rank)
        drawing.box(660, 44 + 34 * rank, 80, 26, f"shard {rank}", svg.FULL, 12)
    drawing.words(634, 190, "decode", 12)
    drawing.legend(60, 226, [(svg.FULL, "bf16"), (svg.CODED, "8-bit codes"), (svg.KEPT, "one bf16 scale a block")])
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
