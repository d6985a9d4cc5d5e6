# ctest: name=docs_site timeout=120 labels=style,nightly
"""The site in docs/ builds without a warning: no link that leads nowhere, no page outside of the tables of contents."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

from source_tree import SOURCE

NEEDED = {"sphinx": "python3-sphinx", "myst_parser": "python3-myst-parser", "furo": "furo"}


def complaints(pages, place):
    """Sphinx's messages about the pages; none if all is well."""
    done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-n", "-E", "-W", "--keep-going", "-b", "html",
                           "-d", place / "trees",
                           pages, place / "html"], capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if line.strip()] or ["" for _ in range(done.returncode)]


def prove_itself(place):
    """Each planted defect is found."""
    pages = place / "docs"
    pages.mkdir()
    shutil.copy(SOURCE / "docs" / "conf.py", pages)
    shutil.copy(SOURCE / "CMakeLists.txt", place)
    (pages / "index.md").write_text("# Top\n\n[a](gone.md)\n[b](page.md#gone)\n[c](../gone.txt)\n"
                                    "[d](../outside.md#lost)\n[e](../outside.md#there)\n\n![f](gone.svg)\n\n"
                                    "```{toctree}\npage\n```\n")
    (pages / "page.md").write_text("# Page\n\n[back](index.md#top)\n")
    (place / "outside.md").write_text("# There\n")
    (pages / "orphan.md").write_text("# Orphan\n")
    said = "\n".join(complaints(pages, place / "planted"))
    for words in ("gone.md", "page.md#gone", "gone.txt", "outside.md#lost", "gone.svg", "orphan.md"):
        assert words in said, f"{words} is not found: {said}"
    for words in ("index.md#top", "outside.md#there"):
        assert words not in said, said


absent = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
if absent:
    print(f"skipped: {' '.join(absent)} is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    prove_itself(pathlib.Path(folder))
    found = complaints(SOURCE / "docs", pathlib.Path(folder) / "site")
print("\n".join(found))
sys.exit(1 if found else 0)
