# ctest: name=shellcheck timeout=60 labels=style
"""Every shell script passes shellcheck: whatever begins with a shell's #! line, as all of jobscripts/ does that is no
Python and no page."""

import os
import shutil
import subprocess
import sys

from source_tree import SOURCE

if shutil.which("shellcheck") is None:
    print("skipped: shellcheck is not installed")
    sys.exit(77)
root = SOURCE
listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root, check=True,
                        capture_output=True, text=True)
scripts = []
for file in listed.stdout.split("\0"):
    path = os.path.join(root, file)
    if os.path.isfile(path):
        with open(path, "rb") as stream:
            first = stream.readline()
        if first.startswith(b"#!") and (b"bash" in first or first.rstrip().endswith(b"/sh")):
            scripts.append(file)
unchecked = [file for file in listed.stdout.split("\0") if file.startswith("jobscripts/") and file not in scripts
             and not file.endswith((".py", ".md", ".yaml", ".txt", ".def"))]
assert not unchecked, f"begin these with #!/usr/bin/env bash: {unchecked}"
assert {"demo", "check", ".ci/run", "jobscripts/local/train_shapes.sh", "jobscripts/local/measured.sh",
        "jobscripts/local/sweep.sh", "jobscripts/local/convergence.sh", "jobscripts/local/shapes.sh",
        "jobscripts/submit", "jobscripts/train.sbatch", "jobscripts/systems/generic.sh", "jobscripts/reframe/run.sh",
        "tests/setup/container.sh"} <= set(scripts), scripts
sys.exit(subprocess.run(["shellcheck", *scripts], cwd=root, check=False).returncode)
