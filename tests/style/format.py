# ctest: name=clang_format timeout=120 labels=style
"""Every tracked C++ and CUDA file is as clang-format leaves it."""

import os
import shutil
import subprocess
import sys

from source_tree import SOURCE

if shutil.which("clang-format") is None:
    print("skipped: clang-format is not installed")
    sys.exit(77)
root = SOURCE
patterns = ["*.hpp", "*.cpp", "*.cu", "*.cuh"]
listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z", *patterns], cwd=root, check=True,
                        capture_output=True, text=True)
files = [file for file in listed.stdout.split("\0") if file and os.path.exists(os.path.join(root, file))]
assert files, "no C++ file is tracked: is this a git checkout?"
sys.exit(subprocess.run(["clang-format", "--dry-run", "-Werror", *files], cwd=root, check=False).returncode)
