# ctest: name=readme timeout=30 labels=style
"""README is as short as a first page is read, and each of its links leads to a file or a heading that is there."""

import os
import re
import sys
from pathlib import Path

SOURCE = Path(os.environ["ZEROPP_SOURCE"])
LINES, WORDS, COLUMNS, ROWS = 150, 1100, 120, 8
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
REFERENCE = re.compile(r"^\[\w+\]: (\S+)$", re.MULTILINE)


def anchors(path):
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)}


def complaints(text, root):
    lines = text.splitlines()
    if len(lines) > LINES:
        yield f"README.md: {len(lines)} lines, {LINES} are the most: move a part to a page of docs/"
    words = len(text.split())
    if words > WORDS:
        yield f"README.md: {words} words, {WORDS} are the most: move a part to a page of docs/"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS and not line.startswith("|"):
            yield f"README.md:{number}: {len(line)} columns, {COLUMNS} are the most"
    measured = re.search(r"<!-- table: headline -->(.*?)<!-- end -->", text, re.DOTALL)
    rows = measured[1].strip().splitlines()[2:] if measured else []
    if not 0 < len(rows) <= ROWS:
        yield f"README.md: {len(rows)} rows of measured results, 1 to {ROWS} are shown"
    for row in rows:
        data = re.match(r"\| *\[[^\]]*\]\[(\w+)\]", row)
        if not data or not re.search(rf"^\[{data[1]}\]: results/", text, re.MULTILINE):
            yield f"README.md: no link to raw data: {row}"
    for target, anchor in [*LINK.findall(text), *((target, "") for target in REFERENCE.findall(text))]:
        path = root / (target or "README.md")
        if not path.exists():
            yield f"README.md: {target} is not there"
        elif anchor and anchor not in anchors(path):
            yield f"README.md: {target} has no heading {anchor}"


planted = ("x\n" * 160 + "w " * 1100 + "\n[a](gone.md) [b](README.md#no-such-heading)\n[c]: lost.md\n<!-- table: "
           "headline -->\n| a |\n| - |\n| b |\n<!-- end -->\n")
found = list(complaints(planted, SOURCE))
assert [any(words in each for each in found) for words in
        ("lines", "words", "columns", "no link to raw data", "gone.md is not", "lost.md is not",
         "no heading")] == [True] * 7, found
errors = list(complaints((SOURCE / "README.md").read_text(), SOURCE))
print("\n".join(errors))
sys.exit(1 if errors else 0)
