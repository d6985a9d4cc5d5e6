# ctest: name=pyflakes timeout=60 labels=style
"""pyflakes finds nothing in any tracked Python file: no undefined name, no import or variable that nobody uses. Files
of the validation and of the tests are as wide as C++ files, which clang-format keeps, and no wider. Names that
they import from the validation exist there, also where the import stands in a function."""

import ast
import os
import re
import subprocess
import sys

from source_tree import SOURCE

# These two get their names from Spack and Ramble, all at once, as is the custom there.
STAR_IMPORTS = re.compile(r"(jobscripts/spack/.*/package\.py|jobscripts/ramble/.*/application\.py):.*"
                          r"(unable to detect undefined names|may be undefined, or defined from star imports)")
COLUMNS = 120


def too_wide(file, text):
    return [f"{file}:{number}: {len(line)} columns, {COLUMNS} are allowed"
            for number, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS]


def missing_imports(file, text):
    """Names imported from modules of the validation that the modules do not have."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("zpp_validate"):
            continue
        place = SOURCE / "validation" / node.module.replace(".", "/")
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        names = {name for path in place.glob("*") for name in (path.stem, path.name)}
        for statement in ast.walk(ast.parse(source.read_text(encoding="utf-8"))) if source.exists() else ():
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                names.add(statement.name)
            elif isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store):
                names.add(statement.id)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                names |= {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
        found += [f"{file}:{node.lineno}: {node.module} has no {alias.name}" for alias in node.names
                  if alias.name not in names]
    return found


def complaints(*words, text=None):
    done = subprocess.run([sys.executable, "-m", "pyflakes", *words], capture_output=True, text=True,
                          check=False, input=text,
                          cwd=SOURCE)
    return [line for line in (done.stdout + done.stderr).splitlines() if not STAR_IMPORTS.match(line)]


if subprocess.run([sys.executable, "-c", "import pyflakes"], capture_output=True, check=False).returncode != 0:
    print("skipped: pyflakes3 is not installed")
    sys.exit(77)
root = SOURCE
assert len(complaints(text="import os\nprint(nobody)\n")) == 2
listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z", "*.py"], cwd=root, check=True,
                        capture_output=True, text=True)
files = ["validation/zpp-validate",
         *(file for file in listed.stdout.split("\0") if file and os.path.exists(os.path.join(root, file)))]
assert {"jobscripts/reframe/zeropp_checks.py", "validation/zpp_validate/cli.py",
        "tests/support/zpp.py"} <= set(files), files
found = complaints(*files)
assert too_wide("long.py", f"short\n{'x' * (COLUMNS + 1)}\n") == ["long.py:2: 121 columns, 120 are allowed"]
assert missing_imports("old.py", "def main():\n    from zpp_validate.peers import gpt, launch\n") == [
    "old.py:2: zpp_validate.peers has no gpt"]
for file in files:
    text = (SOURCE / file).read_text(encoding="utf-8")
    found += missing_imports(file, text)
    if file.startswith(("validation/", "tests/")):
        found += too_wide(file, text)
print("\n".join(found))
sys.exit(1 if found else 0)
