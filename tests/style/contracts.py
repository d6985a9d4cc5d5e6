# ctest: name=contracts_have_tests timeout=30 labels=style
"""Each contract of CONTRIBUTING.md has at least one test labelled with it, and no label names another."""

import json
import re
import subprocess
import sys

from source_tree import SOURCE, programs

CONTRACTS = 9  # numbered from 1
rows = re.findall(r"^\| ([0-9]+) \| .* \| (.*) \|$", (SOURCE / "CONTRIBUTING.md").read_text(), re.MULTILINE)
guarded = {int(number) for number, guard in rows if f"`contract{number}_*`" in guard}
assert guarded == set(range(1, CONTRACTS + 1)), f"contracts with tests in CONTRIBUTING.md: {sorted(guarded)}"

build = programs().parent
listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True, text=True)
labels = [label for test in json.loads(listing.stdout)["tests"] for each in test["properties"]
          if each["name"] == "LABELS" for label in each["value"]]
tested = {int(match[1]) for match in (re.fullmatch(r"contract([0-9]+)", label) for label in labels) if match}
for number in sorted(guarded - tested):
    print(f"contract {number}: no test has the label contract{number}")
for number in sorted(tested - guarded):
    print(f"contract {number}: tests have its label, but CONTRIBUTING.md does not list `contract{number}_*`")
sys.exit(guarded != tested)
