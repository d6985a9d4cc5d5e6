# ctest: name=tests_found timeout=300 labels=unit
"""Every GoogleTest test is run exactly once: the links test_NAME to a program share out its tests, none without any,
and CTest has an entry for each link. A link that the program does not know is refused. On GPUs, each file that asks for
them is in exactly one entry of each transport and number of ranks that it asks for, and an entry of several files runs
the tests of these."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

folder = Path(os.environ["ZEROPP_TEST_BIN"])
NO_GPU = 77


@functools.cache
def listed(program, files=None):
    """The names of a program's tests, or of those of `files`; None where it needs a GPU that is not there."""
    environment = os.environ if files is None else os.environ | {"ZEROPP_TEST_FILES": files}
    done = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=False, env=environment)
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


def asked_for_gpus():
    """NAME.cuda-TRANSPORT.npN of what the header lines of tests/mpi ask for, but over MPI at most 4 ranks."""
    asked = []
    for file in (Path(os.environ["ZEROPP_SOURCE"]) / "tests" / "mpi").glob("*.cpp"):
        header = dict(word.split("=") for line in file.read_text().splitlines()[:2] if line.startswith("// ctest:")
                      for word in line.split()[2:])
        asked += [f"{header['name']}.cuda-{transport}.np{ranks}"
                  for transport in header.get("cuda", "").split(",") if transport for ranks in header["np"].split(",")
                  if transport == "nccl" or int(ranks) <= 4]
    return asked


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

on_gpus, joined = [], {}
for entry in entries:
    properties = {each["name"]: each["value"] for each in entry.get("properties", [])}
    environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
    if "gpu" not in properties.get("LABELS", []) or "ZEROPP_TEST_RANKS" not in environment:
        continue
    program = Path(entry["command"][-1])
    files = environment.get("ZEROPP_TEST_FILES")
    on_gpus += [f"{name}.{environment['ZEROPP_TEST_DEVICE']}.np{environment['ZEROPP_TEST_RANKS']}"
                for name in (files.split(",") if files else [program.name.removeprefix("test_")])]
    if files:
        joined[program, files] = entry["name"]
if "ZEROPP_ENABLE_CUDA:BOOL=ON" in (build / "CMakeCache.txt").read_text():
    assert Counter(on_gpus) == Counter(asked_for_gpus()), Counter(on_gpus) ^ Counter(asked_for_gpus())
for (program, files), name in joined.items():
    expected = [test for file in files.split(",") for test in listed(folder / f"test_{file}")]
    assert sorted(expected) == sorted(listed(program, files)) != [], f"{name} does not run the tests of {files}"
if joined:
    program, files = next(iter(joined))
    done = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=False,
                          env=os.environ | {"ZEROPP_TEST_FILES": files + ",unknown"})
    assert done.returncode == 1 and "test_unknown" in done.stderr, done
print(f"{len(on_gpus)} files, ranks and transports on GPUs, {len(joined)} entries of several files")

with tempfile.TemporaryDirectory() as other:
    unknown = Path(other) / "test_unknown"
    unknown.symlink_to(next(iter(programs)))
    done = subprocess.run([unknown], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no file of this program" in done.stderr, done
    done = subprocess.run([links[0], "--gtest_filter=No.Such"], capture_output=True, text=True, check=False)
    assert done.returncode in (1, NO_GPU), "a run of no test passes"
sys.exit(failed)
