# ctest: name=style_by_hand timeout=60 labels=style
"""The scripts of this folder run by hand, from anywhere, without what CTest sets: they read the tree that they lie in.
One that reads a build folder says what to set."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
BARE = {name: value for name, value in os.environ.items()
        if not name.startswith("ZEROPP_") and name not in ("PYTHONPATH", "PYTHONSAFEPATH")}


def by_hand(script, **more):
    with tempfile.TemporaryDirectory() as elsewhere:
        return subprocess.run([sys.executable, FOLDER / script], cwd=elsewhere, capture_output=True, text=True,
                              check=False, env=BARE | more)


done = by_hand("codec_text.py")
assert (done.returncode, done.stdout + done.stderr) == (0, ""), done
done = by_hand("contracts.py")
assert done.returncode == 1 and re.fullmatch(r"contracts\.py reads a build folder: set ZEROPP_BIN to its bin, as in "
                                             r"ZEROPP_BIN=\S+\n", done.stderr), done
with tempfile.TemporaryDirectory() as other:  # the tree that is named comes first
    done = by_hand("codec_text.py", ZEROPP_SOURCE=other)
    assert done.returncode == 1 and "finds too little" in done.stderr, done
alone = sorted(script.name for script in FOLDER.glob("*.py") if re.search(r'environ.*"ZEROPP_', script.read_text())
               and script.name != Path(__file__).name)
for name in alone:
    print(f"tests/style/{name}: take the tree and the programs from tests/style/source_tree")
sys.exit(1 if alone else 0)
