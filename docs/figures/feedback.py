"""Error feedback: what encoding loses of one reduction is added to the gradient of the next."""

import svg


def draw():
    drawing = svg.Drawing(760, 240, "Error feedback of one hop")
    drawing.box(20, 50, 110, 44, "gradient g", svg.FULL)
    drawing.arrow(132, 72, 188, 72)
    drawing.box(192, 50, 110, 44, "h = g + e")
    drawing.arrow(304, 72, 360, 72)
    drawing.box(364, 50, 110, 44, "encode h", svg.CODED)
    drawing.arrow(476, 72, 580, 72)
    drawing.words(528, 56, "codes", 12)
    drawing.box(584, 50, 150, 44, "sent in this hop", svg.CODED)
    drawing.arrow(419, 96, 419, 142)
    drawing.box(349, 146, 140, 44, "h - decoded", svg.QUIET)
    drawing.arrow(345, 168, 308, 168)
    drawing.box(130, 146, 174, 44, "e = b e + (1 - b) (h - decoded)", svg.KEPT, 10)
    drawing.arrow(247, 144, 247, 98)
    drawing.words(262, 122, "at the next reduction", 11, "start")
    drawing.words(380, 220, "b is beta; beta 0 keeps the whole error", 12)
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
