# ctest: name=tests_found timeout=300 labels=unit
"""Every GoogleTest test is run exactly once: the links test_NAME to a program share out its tests, none without any,
and CTest has an entry for each link. A link that the program does not know is refused."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

folder = Path(os.environ["ZEROPP_TEST_BIN"])
NO_GPU = 77


def listed(program):
    """The names of a program's tests, or None where it needs a GPU that is not there."""
    done = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=False)
    if done.returncode == NO_GPU:
        return None
    assert done.returncode == 0, f"{program}: exit code {done.returncode}: {done.stdout}{done.stderr}"
    names, suite = [], ""
    for line in done.stdout.splitlines():
        word = line.split("#")[0].rstrip()
        if word.startswith("  "):
            names.append(suite + word.strip())
        elif word.endswith("."):
            suite = word
    return names


build = folder.parent.parent
listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True, text=True)
entries = json.loads(listing.stdout)["tests"]
called = {word for entry in entries for word in entry.get("command", [])}
links = sorted({Path(word) for word in called if Path(word).parent == folder and Path(word).is_symlink()})
assert links, "CTest calls no link of a test program"
programs = {}
for link in links:
    programs.setdefault(link.resolve(), []).append(link)

failed = False
for program, of_program in programs.items():
    whole = listed(program)
    if whole is None:
        continue
    shared_out = Counter()
    for link in of_program:
        own = listed(link)
        if not own:
            print(f"{link.name}: no test")
            failed = True
        shared_out.update(own)
    for name in sorted(set(whole) | set(shared_out)):
        if shared_out[name] != 1:
            print(f"{program.name}: {name} is run by {shared_out[name]} entries")
            failed = True
    print(f"{program.name}: {len(of_program)} files, {len(whole)} tests")

with tempfile.TemporaryDirectory() as other:
    unknown = Path(other) / "test_unknown"
    unknown.symlink_to(next(iter(programs)))
    done = subprocess.run([unknown], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no file of this program" in done.stderr, done
    done = subprocess.run([links[0], "--gtest_filter=No.Such"], capture_output=True, text=True, check=False)
    assert done.returncode in (1, NO_GPU), "a run of no test passes"
sys.exit(failed)
