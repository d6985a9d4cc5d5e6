"""A drawing as the text of an SVG file: boxes, arrows and words, in colours that mean the same in every figure."""

import pathlib
import sys
from xml.sax.saxutils import escape

# Fills: values in 16 bits or more, values in few bits, values kept beside them, and values that are not sent.
FULL, CODED, KEPT, QUIET = "#7fa8d9", "#f2b15c", "#9ccb8f", "#eceff3"
INK, LINE = "#1d2733", "#5a6675"
FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"


class Drawing:
    """Millimetres do not matter: one unit is a pixel at the size that the pages show."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def box(self, x, y, width, height, words="", fill=QUIET, size=13, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" stroke="{LINE}"{dash}/>')
        if words:
            self.words(x + width / 2, y + height / 2, words, size)

    def words(self, x, y, words, size=13, anchor="middle", bold=False):
        """Centred on y; a line break begins a new line."""
        lines = words.split("\n")
        top = y - (len(lines) - 1) * size * 0.65 + size * 0.35
        weight = ' font-weight="bold"' if bold else ""
        for number, line in enumerate(lines):
            self.parts.append(f'<text x="{x:g}" y="{top + number * size * 1.3:g}" font-size="{size}" text-anchor="{anchor}"{weight}>'
                              f"{escape(line)}</text>")

    def arrow(self, x1, y1, x2, y2, colour=LINE, width=2.0, both=False):
        start = ' marker-start="url(#back)"' if both else ""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width:g}" '
                          f'marker-end="url(#head)"{start}/>')

    def line(self, x1, y1, x2, y2, colour=LINE, width=2.0):
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width:g}"/>')

    def circle(self, x, y, radius, fill):
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{INK}"/>')

    def legend(self, x, y, entries):
        """[(colour, words)] side by side."""
        for colour, words in entries:
            self.box(x, y - 7, 18, 14, fill=colour)
            self.words(x + 25, y, words, 12, "start")
            x += 50 + 6.9 * len(words)

    def text(self):
        marker = '<marker id="{0}" viewBox="0 0 10 10" refX="{1}" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="{2}" fill="{3}"/></marker>'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" '
            f'role="img" font-family="{FONT}" fill="{INK}">',
            f"<title>{escape(self.title)}</title>",
            "<defs>" + marker.format("head", 9, "M0 0L10 5L0 10z", LINE) + marker.format("back", 1, "M10 0L0 5L10 10z", LINE) + "</defs>",
            f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#ffffff"/>',
            *self.parts, "</svg>", ""])


def write(script, drawing):
    """Puts the drawing beside the script that made it; a script calls this when it is run."""
    path = pathlib.Path(script).with_suffix(".svg")
    path.write_text(drawing.text())
    print(path.name, file=sys.stderr)
