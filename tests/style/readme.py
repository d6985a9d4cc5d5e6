# ctest: name=readme timeout=30 labels=style
"""README is as short as a first page is read, each of its links leads to a file or a heading that is there, and what it
answers by a page the documentation's first page answers by the same."""

import os
import re
import sys
from pathlib import Path

from source_tree import SOURCE

LINES, WORDS, COLUMNS, ROWS = 150, 1100, 120, 10
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
    tables = re.findall(r"<!-- table: (?:headline|presets) -->(.*?)<!-- end -->", text, re.DOTALL)
    rows = [row for table in tables for row in table.strip().splitlines()[2:]]
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


def answers(page, text):
    """The wish and the page of each row below "I want to ..."; README has the command in a column of its own. Pages are
    relative to the root of the tree."""
    rows = re.findall(r"^\| ([a-z][^|]*?) +\|(?:[^|]*\|)? \[[^\]]*\]\(([^)]*)\)[^|]*\|$",
                      text.partition("## I want to ...")[2], re.MULTILINE)
    return {wish: os.path.normpath(page.parent / target) for wish, target in rows}


def other_answers(text, index):
    own, others = answers(Path("README.md"), text), answers(Path("docs/index.md"), index)
    if len(own) < 5:
        yield "README.md: hardly a row below 'I want to ...'"
    for wish, page in own.items():
        if others.get(wish) != page:
            yield f"README.md: '{wish}' leads to {page}, and in docs/index.md to {others.get(wish, 'nothing')}"


planted = ("x\n" * 160 + "w " * 1100 + "\n[a](gone.md) [b](README.md#no-such-heading)\n[c]: lost.md\n<!-- table: "
           "headline -->\n| a |\n| - |\n| b |\n<!-- end -->\n")
found = list(complaints(planted, SOURCE))
assert [any(words in each for each in found) for words in
        ("lines", "words", "columns", "no link to raw data", "gone.md is not", "lost.md is not",
         "no heading")] == [True] * 7, found
rows = "## I want to ...\n" + "".join(f"| {wish} | | [P]({wish}.md) |\n" for wish in "abcdef")
others = rows.replace("a.md", "../a.md").replace("| b ", "| z ")
assert len(list(other_answers(rows, others))) == 5, "other pages, and a wish that is not there"
text = (SOURCE / "README.md").read_text()
errors = [*complaints(text, SOURCE), *other_answers(text, (SOURCE / "docs" / "index.md").read_text())]
print("\n".join(errors))
sys.exit(1 if errors else 0)
