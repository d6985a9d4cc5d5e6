# ctest: name=words timeout=30 labels=style
"""No tracked text file but raw output has a note of unfinished work, a path of one machine, a tab or trailing blanks;
raw output does not tell where its run lay; and comments of C++ and CUDA name the thing that they begin with."""

import os
import re
import subprocess
import sys

import source_tree

UNFINISHED = "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"])
RULES = {
    "unfinished work": re.compile(rf"\b({UNFINISHED})\b"),
    "a path of one machine": re.compile(r"(?<![\w.}])/(work|home|root|tmp)/\w"),
    "a tab": re.compile(r"\t"),
    "a blank at the end": re.compile(r" +$"),
}
EXEMPT = {"LICENSE"}
RAW_OUTPUT = re.compile(r"results/.*\.(txt|tsv|log|json)")  # kept as it was printed, but for these
RAW_RULES = {
    "a folder of a user": re.compile(r"(?<![\w.}])/(work|home|root|users|scratch)/\w", re.IGNORECASE),
    "what a launcher sets for itself": re.compile(r"OMPI_MCA_(ess|initial_wdir|orte|plm|pmix|shmem)|/ompi\.\w"),
}
SOURCE = re.compile(r"(apps|kernels|lib|tests)/.*\.(c|cpp|cu|cuh|h|hpp|in)")
COMMENT = re.compile(r"\s*//")
UNNAMED = re.compile(r"\s*//[/!]?\s+(As|Likewise|Of|The same)\b")  # no trailing ///<, whose thing is on its line
REMEDY = "a comment that leans on its neighbours: begin with a noun or a verb that names the thing"

root = source_tree.SOURCE
listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root, check=True,
                        capture_output=True, text=True)


def violations(name, text):
    rules = RAW_RULES if RAW_OUTPUT.fullmatch(name) else RULES
    for number, line in enumerate(text.splitlines(), 1):
        for rule, pattern in rules.items():
            if pattern.search(line):
                yield f"{name}:{number}: {rule}: {line.strip()[:90]}"


def unnamed_comments(name, text):
    before = ""
    for number, line in enumerate(text.splitlines() if SOURCE.fullmatch(name) else [], 1):
        if UNNAMED.match(line) and not COMMENT.match(before):
            yield f"{name}:{number}: {REMEDY}: {line.strip()[:90]}"
        before = line


planted = f"// {UNFINISHED[:4]}: later\nx\ny = 1;  \nopen('/ho" + "me/me/file')\nout/tmp/x\n"
assert [line.split(":")[1] for line in violations("planted", planted)] == ["1", "3", "4"]
planted = 'x \n"nvme_path": "/t' + 'mp/disk"\n"OMPI_MCA_orte_launch": "1"\n"/ho' + 'me/"\n"/wor' + 'k/me/run"\n'
assert [line.split(":")[1] for line in violations("results/a.json", planted)] == ["3", "5"]
planted = "/// Of a step.\nint a;  ///< As b\n// Sum\n// Of c.\n\n  // The same\n//! Likewise\nd;\n  //! As e\n"
assert [line.split(":")[1] for line in unnamed_comments("lib/a.hpp", planted)] == ["1", "6", "9"]
assert not list(unnamed_comments("docs/a.hpp", planted)) and not list(unnamed_comments("tests/a.py", planted))

errors = []
for file in listed.stdout.split("\0"):
    path = os.path.join(root, file)
    if not os.path.isfile(path) or file in EXEMPT:
        continue
    with open(path, "rb") as stream:
        content = stream.read()
    if b"\0" not in content:
        text = content.decode(errors="replace")  # inputs of fuzzers are no text
        errors.extend(violations(file, text))
        errors.extend(unnamed_comments(file, text))
print("\n".join(errors))
sys.exit(1 if errors else 0)
