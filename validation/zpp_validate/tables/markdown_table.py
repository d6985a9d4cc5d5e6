"""Markdown tables that are as readable unrendered."""


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
