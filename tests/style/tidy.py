# ctest: name=clang_tidy timeout=1200 labels=style,tidy processors=2
"""clang-tidy with .clang-tidy over kernels, lib and apps; CUDA C++ (.cu), whose language is nvcc's, is left out. What
passed is remembered in the build folder and checked again only when the file, an own header that it includes, or the
rules have changed."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOOL = "clang-tidy-16"  # older ones do not know std::source_location
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

if shutil.which(TOOL) is None:
    print(f"skipped: {TOOL} is not installed")
    sys.exit(77)
root = Path(os.environ["ZEROPP_SOURCE"])
build = Path(os.environ["ZEROPP_BIN"]).parent
passed = build / "tidy"
passed.mkdir(exist_ok=True)
generated = build / "generated"


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
    digest = hashlib.sha256(command["command"].encode())
    for file in [root / ".clang-tidy", *with_headers(Path(command["file"]))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def check(command):
    stamp = passed / key(command)
    if stamp.exists():
        return None
    result = subprocess.run([TOOL, "-quiet", f"-p={build}", f"--config-file={root / '.clang-tidy'}", command["file"]],
                            capture_output=True, text=True, check=False)
    if result.returncode == 0:
        stamp.touch()
        return None
    return result.stdout or result.stderr


own = [root / "kernels", root / "lib", root / "apps", generated]
commands = [command for command in json.loads((build / "compile_commands.json").read_text())
            if any(folder in Path(command["file"]).parents for folder in own) and not command["file"].endswith(".cu")]
assert commands, "no file of kernels, lib or apps is compiled"
failed = 0
with ThreadPoolExecutor(max_workers=2) as pool:
    for complaint in pool.map(check, commands):
        if complaint:
            failed += 1
            print(complaint, flush=True)
print(f"{len(commands)} files, {failed} with complaints")
sys.exit(1 if failed else 0)
