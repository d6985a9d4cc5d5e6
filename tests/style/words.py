# ctest: name=words timeout=30 labels=style
"""No tracked text file but raw output has a note of unfinished work, a path of one machine, a tab or trailing blanks."""

import os
import re
import subprocess
import sys

UNFINISHED = "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"])
RULES = {
    "unfinished work": re.compile(rf"\b({UNFINISHED})\b"),
    "a path of one machine": re.compile(r"(?<![\w.}])/(work|home|root|tmp)/\w"),
    "a tab": re.compile(r"\t"),
    "a blank at the end": re.compile(r" +$"),
}
EXEMPT = {"LICENSE"}
RAW_OUTPUT = re.compile(r"results/.*\.(txt|tsv|log|json)")  # kept as it was printed

root = os.environ["ZEROPP_SOURCE"]
listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root, check=True,
                        capture_output=True, text=True)


def violations(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        for rule, pattern in RULES.items():
            if pattern.search(line):
                yield f"{name}:{number}: {rule}: {line.strip()[:90]}"


planted = f"// {UNFINISHED[:4]}: later\nx\ny = 1;  \nopen('/ho" + "me/me/file')\nout/tmp/x\n"
assert [line.split(":")[1] for line in violations("planted", planted)] == ["1", "3", "4"]

errors = []
for file in listed.stdout.split("\0"):
    path = os.path.join(root, file)
    if not os.path.isfile(path) or file in EXEMPT or RAW_OUTPUT.fullmatch(file):
        continue
    with open(path, "rb") as stream:
        content = stream.read()
    if b"\0" not in content:
        errors.extend(violations(file, content.decode(errors="replace")))  # inputs of fuzzers are no text
print("\n".join(errors))
sys.exit(1 if errors else 0)
