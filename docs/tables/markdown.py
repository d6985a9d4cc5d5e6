"""A Markdown table whose columns are aligned, so that it reads well as text."""


def table(head, rows, right=()):
    """`right`: the numbers of the columns that are aligned to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(head))]
    rule = ["-" * (width - 1) + ":" if column in right else "-" * width for column, width in enumerate(widths)]
    lines = []
    for row in (cells[0], rule, *cells[1:]):
        padded = [cell.rjust(width) if column in right else cell.ljust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("| " + " | ".join(padded) + " |")
    return "\n".join(lines)
