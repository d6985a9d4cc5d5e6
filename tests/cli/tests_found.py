# ctest: name=tests_found timeout=300 labels=unit
"""Every GoogleTest test is run where its file's header line asks for it, by one entry of CTest each: links test_NAME to
a program share out its tests, none without any, and an entry runs the tests of the files that it lists. A name that
the program does not know is refused."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

SOURCE = Path(os.environ["ZEROPP_SOURCE"])
FOLDER = Path(os.environ["ZEROPP_TEST_BIN"])
BUILD = FOLDER.parent.parent
CUDA = "ZEROPP_ENABLE_CUDA:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()
NO_GPU = 77


@functools.cache
def listed(program, files=None):
    """The names of a program's tests, or of the tests of `files`; None if the program needs a GPU that is absent."""
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


def asked(name, np="", cuda="", **_):
    """(name, device, ranks) of each place where a file's header asks to run: tests/CMakeLists.txt."""
    counts = sorted(map(int, np.split(","))) if np else []
    places = [(name, "host", ranks) for ranks in counts] or [(name, "", 0)]
    on_gpus = [ranks for ranks in (1, 2, 4) if counts and counts[0] <= ranks <= counts[-1]]
    if "nccl" in cuda:
        places += [(name, "cuda-nccl", ranks) for ranks in on_gpus]
    if "mpi" in cuda:
        places.append((name, "cuda-mpi", on_gpus[-1]))
    return places if CUDA else places[:max(1, len(counts))]


wanted = Counter()
for kind in ("unit", "mpi", "gpu") if CUDA else ("unit", "mpi"):
    for file in (SOURCE / "tests" / kind).glob("*.cpp"):
        wanted.update(asked(**dict(word.split("=") for line in file.read_text().splitlines()[:2]
                                   if line.startswith("// ctest:") for word in line.split()[2:])))

found, entries = Counter(), {}
listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, check=True, capture_output=True, text=True)
for entry in json.loads(listing.stdout)["tests"]:
    properties = {each["name"]: each["value"] for each in entry.get("properties", [])}
    environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
    files = environment.get("ZEROPP_TEST_FILES")
    if files:
        place = environment.get("ZEROPP_TEST_DEVICE", ""), int(environment.get("ZEROPP_TEST_RANKS", 0))
        found.update((name, *place) for name in files.split(","))
        entries[entry["name"]] = Path(entry["command"][-1]), files
assert found == wanted, f"run, but not asked for: {found - wanted}; asked for, but not run: {wanted - found}"

failed = False
shared_out = {}
for name in sorted({name for name, *_ in wanted}):
    link = FOLDER / f"test_{name}"
    own = listed(link)
    if own is not None:
        failed |= not own
        print(f"{link.name}: {len(own)} tests")
        shared_out.setdefault(link.resolve(), Counter()).update(own)
for program, tests in shared_out.items():
    for name in sorted(set(listed(program)) | set(tests)):
        if tests[name] != 1:
            print(f"{program.name}: {name} is run by {tests[name]} files")
            failed = True
for name, (program, files) in entries.items():
    if listed(program) is not None:
        expected = [test for file in files.split(",") for test in listed(FOLDER / f"test_{file}")]
        assert sorted(expected) == sorted(listed(program, files)) != [], f"{name} does not run the tests of {files}"

program = next(iter(shared_out))
with tempfile.TemporaryDirectory() as other:
    unknown = Path(other) / "test_unknown"
    unknown.symlink_to(program)
    done = subprocess.run([unknown], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no file of this program" in done.stderr, done
done = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=False,
                      env=os.environ | {"ZEROPP_TEST_FILES": "unknown"})
assert done.returncode == 1 and "test_unknown" in done.stderr, done
done = subprocess.run([program, "--gtest_filter=No.Such"], capture_output=True, text=True, check=False)
assert done.returncode == 1, "a run of no test passes"
sys.exit(failed)
