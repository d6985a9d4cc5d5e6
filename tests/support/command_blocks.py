"""Commands that a Markdown file shows, found and run as a reader would paste them."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import zpp

FENCE = re.compile(r"^```([\w{}]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_BUILD = re.compile(r"(mpirun [^/]*)?build/bin/zpp_")
# Replacements that make commands short: one step where a command trains, small messages where it measures. A busy
# machine has links that are slow for a moment.
SHORTER = [(r"(zpp_train (?!.*--(help|train-iters)).*)", r"\1 --train-iters 1 --eval-interval 1 --eval-iters 1"),
           (r"-b 1K -e 64M", "-b 1K -e 4K --max-seconds 0.01"),
           (r"--fabric-threshold 100\b", "--fabric-threshold 1000")]


def fenced(text, language=""):
    """The fenced texts of one language."""
    return [block for name, block in FENCE.findall(text) if name == language]


def lines(block):
    """Each command with the lines that belong to it and without its comment."""
    found, line = [], ""
    for part in block.replace("\\\n", " ").splitlines():
        line += " " + re.sub(r"(^|\s+)# .*", "", part)
        if line.count("'") % 2 == 0:
            found.append(line.strip())
            line = ""
    return [line for line in found if line]


def complaint(block):
    """Complaint of a shell about a block that it cannot parse."""
    return subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False).stderr


def clone(parent):
    """A folder of its own in `parent`, which looks like a clone after the build."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=parent))
    (folder / "build").symlink_to(zpp.BIN.parent)
    for name in ("inputs", "results", "validation"):
        (folder / name).symlink_to(zpp.SOURCE / name)
    return folder


def pasted(line, folder, shorter=(), timeout=120):
    """Runs the line there, made shorter by pairs of a pattern and what takes its place."""
    for pattern, replacement in (*shorter, *SHORTER):
        line = re.sub(pattern, replacement, line)
    # The reader's python3 is the one that the build has chosen, which has all modules.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return zpp.Process(["bash", "-c", line], cwd=folder,
                       env={"OMPI_MCA_rmaps_base_oversubscribe": "1", "PATH": path}).end(timeout=timeout)
