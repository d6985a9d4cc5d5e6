"""Four counts of the bytes sent, which share no code and give one number."""

import svg

SOURCES = [("counters at the call that sends", "lib/comm"), ("closed form of the algorithm", "lib/collective"),
           ("counter under MPI's profiling interface", "tests"), ("derived again in Python from the trace", "validation")]


def draw():
    drawing = svg.Drawing(760, 260, "Four independent counts of the same bytes")
    for number, (words, folder) in enumerate(SOURCES):
        y = 18 + 58 * number
        drawing.box(30, y, 370, 44, words, svg.FULL if number % 2 == 0 else svg.KEPT)
        drawing.words(470, y + 22, folder + "/", 12)
        drawing.arrow(525, y + 22, 608, 127)
    drawing.box(612, 100, 120, 54, "equal,\nto the byte", svg.CODED)
    return drawing


if __name__ == "__main__":
    svg.write(__file__, draw())
