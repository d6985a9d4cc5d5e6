# ctest: name=step_picture timeout=60 labels=cli
"""The picture of a step in docs/developers shows the schedule that the engine executes; another schedule gives another
picture."""

import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

FOLDER = pathlib.Path(os.environ["ZEROPP_SOURCE"]) / "docs" / "developers"
TOOL = pathlib.Path(os.environ["ZEROPP_TEST_BIN"]) / "step_schedule"


def drawn(schedule):
    return subprocess.run([sys.executable, str(FOLDER / "step_picture.py")], input=schedule, check=True,
                          capture_output=True,
                          text=True).stdout


schedule = subprocess.run([str(TOOL)], check=True, capture_output=True, text=True).stdout
picture = drawn(schedule)
xml.etree.ElementTree.fromstring(picture)
assert picture == (FOLDER
                   / "step.svg").read_text(), "draw docs/developers/step.svg again: docs/developers/step.md says how"

plan = json.loads(schedule)
kinds = {op["kind"] for op in plan["gradients"]}
assert {"gather", "gather_secondary", "keep_secondary", "forward", "backward", "reduce"} <= kinds, kinds
assert {op["stream"] for op in plan["update"]} == {"update"}
plan["gradients"].pop()
assert drawn(json.dumps(plan)) != picture
