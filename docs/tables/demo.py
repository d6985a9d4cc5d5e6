"""The table of the demo, as it is kept in results/host-2core/demo/, without the columns of times."""

import markdown

SHOWN = ("configuration", "loss", "bytes/step", "predicted", "vs flat", "vs two-level")


def demo(programs):
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in (programs.root / "results" / "host-2core" / "demo" / "table.md").read_text().splitlines() if line.startswith("|")]
    rows = [[dict(zip(lines[0], line))[name] for name in SHOWN] for line in lines[2:]]
    return markdown.table(SHOWN, rows, right=range(1, len(SHOWN)))


TABLES = {"demo": demo}
