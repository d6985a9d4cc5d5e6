# ctest: name=pyflakes timeout=60 labels=style
"""pyflakes finds nothing in any tracked Python file: no undefined name, no import or variable that nobody uses. Files
of the validation and of the tests are as wide as C++ files, which clang-format keeps, and no wider."""

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
for file in files:
    if file.startswith(("validation/", "tests/")):
        with open(os.path.join(root, file), encoding="utf-8") as source:
            found += too_wide(file, source.read())
print("\n".join(found))
sys.exit(1 if found else 0)
