# ctest: name=docs_pages timeout=60 labels=style
"""The pages in docs/: lines and pages of a length that is read, contents that have every page, drawings that their
scripts make, exit codes and messages that programs have, and files that developers are sent to."""

import importlib.util
import pathlib
import re
import sys

from source_tree import SOURCE

DOCS = SOURCE / "docs"
COLUMNS, LINES = 120, 120  # two screens of 60
NO_SCRIPT = {"svg", "nodes", "page_table"}  # what the scripts share
OTHERS = {"There are not enough slots available in the system"}  # Open MPI's


def too_long(name, text):
    """A row of a table is one line, however long; what a program made is as long as it is, and nobody reads a
    toctree."""
    text = re.sub(r"<!-- table: .*?<!-- end -->|^```\{toctree\}.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS and not line.startswith("|"):
            yield f"{name}:{number}: {len(line)} columns, {COLUMNS} are the most"
    if len(text.splitlines()) > LINES:
        yield f"{name}: {len(text.splitlines())} lines, {LINES} are the most: make two pages of it"


def drawings():
    """Each figure that is not what its script draws, and each drawing without a script."""
    sys.path.insert(0, str(DOCS / "figures"))
    scripts = {path.stem: path for path in (DOCS / "figures").glob("*.py") if path.stem not in NO_SCRIPT}
    for stem, script in sorted(scripts.items()):
        spec = importlib.util.spec_from_file_location(stem, script)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        drawn = script.with_suffix(".svg")
        if not drawn.exists() or drawn.read_text() != module.draw().text():
            yield f"docs/figures/{stem}.svg: not what its script draws: run python3 docs/figures/{stem}.py"
        if not any(f"figures/{stem}.svg" in page.read_text() for page in DOCS.rglob("*.md")):
            yield f"docs/figures/{stem}.svg: no page shows it"
    for path in (DOCS / "figures").glob("*.svg"):
        if path.stem not in scripts:
            yield f"docs/figures/{path.name}: no script draws it"


def unlisted(contents):
    """Pages that the contents of docs/index.md do not link to: who reads on a forge sees no sidebar."""
    for page in sorted(DOCS.rglob("*.md")):
        name = page.relative_to(DOCS).as_posix()
        if name != "index.md" and f"]({name})" not in contents:
            yield f"docs/{name}: docs/index.md does not link to it"


def exit_codes():
    """The page lists what lib/base/error.hpp has."""
    known = dict(re.findall(r"^  (\w+) = (\d+),", (SOURCE / "lib" / "base" / "error.hpp").read_text(), re.MULTILINE))
    listed = dict(re.findall(r"^\| +(\d+) +\| `(\w+)`", (DOCS / "reference" / "exit-codes.md").read_text(),
                             re.MULTILINE))
    expected = {number: name for name, number in known.items()}
    if listed != expected:
        yield f"docs/reference/exit-codes.md: has {listed}, the programs have {expected}"


def messages():
    """Messages on pages of errors, with `...` for names and numbers, that are not in the sources of the programs or of
    the Python package."""
    sources = "\n".join(path.read_text() for top in ("lib", "apps") for path in sorted((SOURCE / top).rglob("*.cpp")))
    literals = re.sub(r'"\s*"', "", sources)
    literals = re.sub(r"\{[\w:.]*\}", "...", literals)
    package = "\n".join(path.read_text() for path in sorted((SOURCE / "python" / "zeropp").rglob("*.py")))
    literals += re.sub(r"\{[^{}]*\}", "...", re.sub(r'(?<!\\)"\s*f?"', "", package))
    for name, least in (("troubleshooting.md", 10), ("howto/pytorch-limits.md", 4)):
        page = (DOCS / name).read_text()
        shown = [text for text in re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
                 if text.strip() not in OTHERS]
        for message in shown:
            for part in message.replace("\n", " ").strip().split("..."):
                if part.strip() and part.strip() not in literals:
                    yield f"docs/{name}: no program says '{part.strip()}'"
        if len(shown) < least:
            yield f"docs/{name}: shows hardly a message"


def walks(name, page):
    """The rows of a walk through the source are numbered, and each names what its file, or the header or source beside
    it, has."""
    rows = re.findall(r"^\| (\d+) \[[^\]]+\]\(\.\./\.\./([^)]+)\) \| ([^|]+)\|", page, re.MULTILINE)
    for expected, (number, file, names) in enumerate(rows, 1):
        sources = [path for path in (SOURCE / file).parent.glob(pathlib.Path(file).stem + ".*pp")]
        text = "\n".join(path.read_text() for path in sources)
        if int(number) != expected:
            yield f"{name}: row {expected} has the number {number}"
        if not (SOURCE / file).exists():
            yield f"{name}: row {number} names {file}, which is not there"
        for word in re.findall(r"`(?:\w+::)*(\w+)(?:\(\))?`", names):
            if not re.search(rf"\b{word}\b", text):
                yield f"{name}: row {number} looks for {word} in {file}, which has none"


PLACEHOLDER = re.compile(r"(?<![A-Za-z])[A-Z]{3,}(?![A-Za-z])|[*{]")  # NAME, STEM, ROOM


def paths(name, page):
    """The files and folders that a page names from the root of the tree are there."""
    tops = {path.name for path in SOURCE.iterdir() if path.is_dir() and not path.name.startswith(("build", "out", "."))}
    for word in re.findall(r"`([\w./-]+/[\w./-]*)`", page):
        path = re.sub("^zpp_validate/", "validation/zpp_validate/", word)
        known = path.split("/")[0] not in tops or PLACEHOLDER.search(path) or (SOURCE / path).exists()
        if not known and not list((SOURCE / path).parent.glob(f"{(SOURCE / path).name}.*")):  # a header and its source
            yield f"{name}: {word} is not there"


PLANTED = "`lib/gone.hpp` `zpp_validate/gone.py` `lib/model/NAME.hpp` `lib/base` `build/bin/gone`"
assert len(list(paths("planted", PLANTED))) == 2
assert len(list(walks("planted", "| 2 [a](../../lib/base/gone.hpp) | `Gone::gone()` |\n"))) == 3
assert len(list(unlisted(""))) > 20
assert len(list(too_long("planted", "x" * 121 + "\n| " + "x" * 200 + "\n" + "\n" * 130))) == 2
errors = [error for page in sorted(DOCS.rglob("*.md")) for error in too_long(page.relative_to(SOURCE).as_posix(),
                                                                             page.read_text())]
errors += [*unlisted((DOCS / "index.md").read_text()), *drawings(), *exit_codes(), *messages()]
for page in (SOURCE / "CONTRIBUTING.md", *sorted((DOCS / "developers").glob("*.md"))):
    errors += paths(page.relative_to(SOURCE).as_posix(), page.read_text())
for walk in ("codec", "step"):
    page = (DOCS / "developers" / f"{walk}.md").read_text()
    errors += walks(f"docs/developers/{walk}.md", page)
    assert re.search(r"^\| 10 \[", page, re.MULTILINE), f"docs/developers/{walk}.md: the walk is not there"
print("\n".join(errors))
sys.exit(1 if errors else 0)
