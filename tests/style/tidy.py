# ctest: name=clang_tidy timeout=1800 labels=style,tidy processors=4
"""clang-tidy with .clang-tidy over kernels, lib, apps and python; CUDA C++ (.cu), whose language is nvcc's, is left
out. A source that several targets compile is read once, with the flags of the first. Files that stand in for parts that
a build lacks (*_absent.cpp) are read in every build, with the flags of the library. The user's cache folder remembers
sources that passed, for all copies of the tree. Such a source is checked again only after a change of the file, a
header of the project that it includes, its flags, the rules or the tool. Without `./check --all` only files that the
last commit, this branch or this folder changed are read, and files that include such a header.

The libraries' headers take most of the time, so sources of the same flags are joined and read as one: several times as
fast as one by one. Sources that the build joins too are known to share their names. Sources that the complaints about a
joined text name, even if only because two sources use one name, are read apart from the others, until single files
show what is wrong."""

import bisect
import hashlib
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_tree import SOURCE, programs

JOINED = 16  # sources that the build does not join; more would share more, and collide more often
JOINED_SOURCE = re.compile(r'^#include "(.*)"', re.MULTILINE)  # of CMake's unity sources
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

root = SOURCE
TOOL = root / ".deps" / "clang_tidy" / "clang_tidy" / "data" / "bin" / "clang-tidy"  # in the version of the set-up
if not TOOL.exists():
    print("skipped: no clang-tidy (cmake/setup.sh check fetches it)")
    sys.exit(77)
build = programs().parent
passed = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zeropp" / "tidy"
passed.mkdir(parents=True, exist_ok=True)
texts = build / "tidy"  # of joined sources
texts.mkdir(exist_ok=True)
generated = build / "generated"
version = subprocess.run([TOOL, "--version"], capture_output=True, check=True).stdout


def apart(commands):
    """The commands with one for each source that a unity build joins, "joined" in the file of that name."""
    for command in commands:
        file = command["file"]
        if "/Unity/unity_" in file:
            for source in JOINED_SOURCE.findall(Path(file).read_text()):
                yield {**command, "file": source, "command": command["command"].replace(file, source), "joined": file}
        else:
            yield {**command, "joined": ""}


def stand_ins(commands):
    """Commands for the sources that take the place of what this build has."""
    compiled = {command["file"] for command in commands}
    library = next(command for command in commands if Path(command["file"]).is_relative_to(root / "lib" / "base"))
    for source in map(str, sorted(root.glob("lib/**/*_absent.cpp")) + sorted(root.glob("kernels/**/*_absent.cpp"))):
        if source not in compiled:
            yield {**library, "file": source, "command": library["command"].replace(library["file"], source)}


def with_headers(source):
    """The source and all own headers that it includes, directly or not."""
    seen, open_ends = set(), [source]
    while open_ends:
        file = open_ends.pop()
        if file not in seen and file.is_file():
            seen.add(file)
            for header in INCLUDE.findall(file.read_text()):
                open_ends += [root / header, generated / header]
    return sorted(seen)


def key(command):
    words = command["command"].replace(str(build), "BUILD").replace(str(root), "SOURCE")
    digest = hashlib.sha256(version + words.encode())
    for file in [root / ".clang-tidy", *with_headers(Path(command["file"]))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def changed_files():
    """Files that are not as they were where this branch left main, or before the last commit; None without Git."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.split("\n")[:-1] if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main")
    if head is None or not base or base == head:
        base = git("rev-parse", "HEAD~1")
    if base is None:
        return None
    names = git("diff", "--name-only", base[0]) + git("ls-files", "--others", "--exclude-standard")
    return {root / name for name in names}


def flags(command):
    """The compiler's flags without its own name, input and output, without parameters of GCC, and without fmt's bodies:
    they throw for formats that the compiler has ruled out."""
    words = shlex.split(command["command"])[1:]
    output = words.index("-o")
    assert words[output + 2:] == ["-c", command["file"]], words
    return *(word for word in words[:output] if not word.startswith("--param=")), "-UFMT_HEADER_ONLY"


def tidy(file, words):
    return subprocess.run([TOOL, "-quiet", f"--config-file={root / '.clang-tidy'}", file, "--", *words],
                          capture_output=True, text=True, check=False, cwd=root)


def complaints_of_joined(commands):
    """None if the joined sources have no complaint; else the `commands` that errors and warnings, not notes, name."""
    joined = texts / f"joined-{key(commands[0])}.cpp"
    sources = [Path(command["file"]).read_text() for command in commands]
    joined.write_text("\n".join(sources))
    result = tidy(joined, flags(commands[0]))
    joined.unlink()
    if result.returncode == 0:
        return None
    ends = list(itertools.accumulate(text.count("\n") + 1 for text in sources))
    lines = re.findall(rf"^{re.escape(str(joined))}:(\d+):\d+: (?:error|warning):", result.stdout, re.MULTILINE)
    return [commands[place] for place in sorted({bisect.bisect_left(ends, int(line)) for line in lines})]


def check(commands):
    """The complaints about each of `commands`, whose flags are the same, where there are any."""
    if len(commands) == 1:
        result = tidy(commands[0]["file"], flags(commands[0]))
        if result.returncode != 0:
            return [result.stdout or result.stderr]
    else:
        named = complaints_of_joined(commands)
        if named is not None:
            apart = named if 0 < len(named) < len(commands) else commands[len(commands) // 2:]
            return check([command for command in commands if command not in apart]) + check(apart)
    for command in commands:
        (passed / key(command)).touch()
    return []


own = [root / "kernels", root / "lib", root / "apps", root / "python", generated]
first = {}
for command in apart(json.loads((build / "compile_commands.json").read_text())):
    if any(folder in Path(command["file"]).parents for folder in own) and not command["file"].endswith(".cu"):
        first.setdefault(command["file"], command)
commands = list(first.values())
assert commands, "no file of kernels, lib or apps is compiled"
commands += stand_ins(commands)
changed = None if os.environ.get("CHECK_ALL") else changed_files()
if changed is not None and root / ".clang-tidy" not in changed:
    commands = [command for command in commands if not changed.isdisjoint(with_headers(Path(command["file"])))]
pending = {}
for command in commands:
    if not (passed / key(command)).exists():
        pending.setdefault((flags(command), command["joined"]), []).append(command)
# Neighbours include the same libraries.
groups = [alike[start:start + JOINED] for alike in pending.values() for start in range(0, len(alike), JOINED)]
failed = 0
with ThreadPoolExecutor(max_workers=2) as pool:
    for complaints in pool.map(check, groups):
        failed += len(complaints)
        for complaint in complaints:
            print(complaint, flush=True)
print(f"{len(commands)} files, {failed} with complaints")
sys.exit(1 if failed else 0)
