#!/usr/bin/env python3
"""Writes the tables of the pages that programs and results give, between their two comments.

usage: docs/tables/update.py [--check] [BIN]
  BIN      folder of the programs [build/bin]
  --check  write nothing; name the tables that are not current, exit code 1
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import demo
import measured
import registry
import traffic

DOCS = HERE.parent
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
MADE = {**demo.TABLES, **measured.TABLES, **registry.TABLES, **traffic.TABLES}
MARKER = re.compile(r"^<!-- table: [a-z][\w-]* -->$", re.MULTILINE)
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)


class Programs:
    """Answers of the programs of a build, each question asked once."""

    def __init__(self, folder, root=DOCS.parent):
        self.folder, self.root, self.known = pathlib.Path(folder).resolve(), root, {}

    def asked(self, program, *words):
        command = [str(self.folder / program), *map(str, words)]
        key = tuple(command)
        if key not in self.known:
            with tempfile.TemporaryDirectory() as place:
                answer = pathlib.Path(place) / "answer.json"
                subprocess.run([*command, "--json", str(answer)], check=True, capture_output=True, cwd=place)
                self.known[key] = json.loads(answer.read_text())
        return self.known[key]

    def info(self):
        return self.asked("zpp_info")

    def plan(self, *words):
        return self.asked("zpp_plan", *words)


def renewed(text, programs):
    return PLACE.sub(lambda place: place[1] + MADE[place[2]](programs) + place[4], text)


def tables_of(text):
    return [place[2] for place in PLACE.finditer(text)]


def main(words):
    if {"-h", "--help"} & set(words):
        print(__doc__.strip())
        return 0
    check = "--check" in words
    programs = Programs(next((word for word in words if word != "--check"), "build/bin"))
    old = []
    for page in PAGES:
        text = page.read_text()
        if len(tables_of(text)) != len(MARKER.findall(text)):
            sys.exit(f"update.py: error: {page.relative_to(DOCS.parent)}: a comment 'table: NAME' is not followed by an empty line, "
                     "something, an empty line and a comment 'end': write them so")
        new = renewed(text, programs)
        if new != text:
            old.append(page)
            if not check:
                page.write_text(new)
    for page in old:
        print(f"{page.relative_to(DOCS.parent)}: {'a table is not current' if check else 'written'}")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
