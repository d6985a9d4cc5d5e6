"""Markdown tables that are as readable unrendered."""

import re
import shutil


def aligned(header, rows, text_columns):
    """`header`, and each of `rows`: cells as text. Columns whose names are in `text_columns` are left-aligned, others
    right-aligned."""
    cells = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    left = [name in text_columns for name in header]
    rule = ["-" * width if text else "-" * (width - 1) + ":" for width, text in zip(widths, left)]
    lines = [[cell.ljust(width) if text else cell.rjust(width) for cell, width, text in zip(row, widths, left)]
             for row in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def folded(table, width):
    """An aligned table as several below each other that are at most `width` wide, where single columns allow it; each
    begins with the first column."""
    header, rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    text_columns = {name for name, line in zip(header, rule) if not line.endswith(":")}
    taken = [3 + max(map(len, column)) for column in zip(header, *rows)]
    parts, room = [], 0
    for index in range(1, len(header)):
        if not parts or taken[index] > room:
            parts.append([0])
            room = width - 1 - taken[0]
        parts[-1].append(index)
        room -= taken[index]
    chosen = [[[line[index] for index in part] for line in (header, *rows)] for part in parts]
    return "\n\n".join(aligned(lines[0], lines[1:], text_columns) for lines in chosen)


def fitted(text):
    """`text` with its tables folded to the terminal's width, or 120 columns where that is not known."""
    width = shutil.get_terminal_size((120, 0)).columns
    return re.sub(r"(?m)^\|.*(?:\n\|.*)+", lambda found: found[0] if found[0].index("\n") <= width
                  else folded(found[0], width), text)
