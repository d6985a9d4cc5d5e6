"""Runs `zpp_plan time` and reads what it says; used by planner.py, which judges it. Shares no code with the planner."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile

from zpp_validate.problem import MALFORMED, Problem

AT_A_TIME = 2 * (os.cpu_count() or 1)


def run(program, cluster, folder, flags):
    """The group `time` of the JSON of `program time`; `folder`: for what it writes. Raises Problem, with the code and
    the last line of a program that fails."""
    file = folder / "said.json"
    words = [program, "time", "--cluster", cluster, "--output", folder, "--json", file, *flags]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        said = (done.stderr.splitlines() or ["it says nothing"])[-1].rpartition(": error: ")[2]
        raise Problem(f"{program} time ended with {done.returncode}: {said}", max(done.returncode, 1))
    try:
        return json.loads(file.read_text())["time"]
    except (OSError, *MALFORMED):
        raise Problem(f"{program} time wrote no JSON: name a zpp_plan with --program") from None


class Planner:
    """`program`: zpp_plan. `clusters`: the folder of cluster files."""

    def __init__(self, program, clusters):
        self.program, self.clusters = pathlib.Path(program), pathlib.Path(clusters)

    def time(self, cluster, flags=(), config=None, changes=None):
        """The group `time` of one job. `cluster`: a file's stem; `changes`: {"gpu.step_share": 0.9} put into it."""
        with tempfile.TemporaryDirectory(prefix="planner-") as name:
            folder = pathlib.Path(name)
            file = self.clusters / f"{cluster}.json"
            if changes:
                file = folder / "cluster.json"
                file.write_text(json.dumps(changed(self.description(cluster), changes)))
            if config is not None:
                (folder / "config.json").write_text(config)
                flags = [*flags, "--config", folder / "config.json"]
            return run(self.program, file, folder, flags)

    def times(self, jobs):
        """time(**job) of each, in order."""
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            return list(pool.map(lambda job: self.time(**job), jobs))

    def description(self, cluster):
        return json.loads((self.clusters / f"{cluster}.json").read_text())


def changed(description, changes):
    """`description` with other values at paths such as rails.lanes.0.gb_per_s; of products and attention: of every
    row."""
    made = json.loads(json.dumps(description))
    for path, value in changes.items():
        keys, at = path.split("."), [made]
        for key in keys[:-1]:
            at = [row for one in at
                  for row in (one if key == "*" else [one[int(key)] if isinstance(one, list) else one[key]])]
        for one in at:
            one[keys[-1]] = value
    return made


def value_at(description, path):
    for key in path.split("."):
        description = description[0 if key == "*" else int(key) if isinstance(description, list) else key]
    return description
