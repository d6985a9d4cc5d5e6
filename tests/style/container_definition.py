# ctest: name=container_definition timeout=30 labels=style,nightly
"""The Apptainer definition: each build argument has a default and is used, its scripts pass shellcheck as /bin/sh reads
them, and the files and presets that it names exist. tests/setup/container.sh runs them."""

import json
import re
import shutil
import subprocess
import sys

from source_tree import SOURCE as ROOT

text = (ROOT / "jobscripts" / "containers" / "zeropp.def").read_text()
header, *parts = re.split(r"^%(\w+)$", text, flags=re.MULTILINE)
sections = dict(zip(parts[::2], parts[1::2]))
assert re.search(r"^Bootstrap: docker\nFrom: \{\{ BASE \}\}$", header, re.MULTILINE), header
assert set(sections) == {"arguments", "labels", "files", "post", "environment", "runscript", "test"}, set(sections)

defaults = dict(line.strip().split("=", 1) for line in sections["arguments"].splitlines() if line.strip())
used = set(re.findall(r"\{\{ (\w+) \}\}", header + "".join(sections.values())))
assert used == set(defaults) == {"BASE", "PRESET", "ARCHITECTURES"}, (used, defaults)
presets = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
assert {defaults["PRESET"], "cuda"} <= presets, presets
assert (ROOT / "cmake" / "setup.sh").exists() and "cmake/setup.sh demo" in sections["post"]
config = re.search(r"/usr/local/share/zeropp/(inputs/\w+\.json)", sections["test"])[1]
assert (ROOT / config).exists(), config

if shutil.which("shellcheck") is None:
    print("skipped: shellcheck is not installed")
    sys.exit(77)
failed = False
for name in ("post", "environment", "runscript", "test"):
    script = re.sub(r"\{\{ (\w+) \}\}", lambda match: defaults[match[1]], sections[name])
    done = subprocess.run(["shellcheck", "--shell=sh", "-"], input=script, text=True, capture_output=True, check=False)
    failed = failed or done.returncode != 0
    print(f"%{name}\n{done.stdout}" if done.returncode else "", end="")
sys.exit(failed)
