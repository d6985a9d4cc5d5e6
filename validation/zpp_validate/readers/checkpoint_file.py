"""Content of a checkpoint folder step-...: arrays put together from the ranks' files, and the slices in which they lie
there.

Digests are not checked: the command zpp-validate checkpoint does that.
"""

import json
import re

import numpy as np

from zpp_validate.problem import Unfit, part


class Checkpoint:
    """Raises OSError, ValueError or KeyError where the folder holds something else."""

    def __init__(self, folder):
        self.folder = folder
        self.slices = {}
        with part("manifest.json"):
            manifest = json.loads((folder / "manifest.json").read_text())
            self.step = manifest["step"]
            for each in manifest["slices"]:
                self.slices.setdefault(each["array"], []).append(each)

    def array(self, name, dtype):
        """All values of an array, in `dtype`."""
        slices = self.slices.get(name)
        if not slices:
            raise Unfit(f"{self.folder} has no array {name}")
        values = np.empty(slices[0]["total"], dtype)
        for each in slices:
            if each["element_bytes"] != values.itemsize:
                raise Unfit(f"{self.folder}: {name} has elements of {each['element_bytes']} bytes")
            with open(self.folder / f"rank-{each['rank']:05}.bin", "rb") as file:
                file.seek(each["position"])
                part = np.frombuffer(file.read(values.itemsize * each["count"]), dtype)
            values[each["offset"]:each["offset"] + each["count"]] = part
        return values

    def extents(self, name):
        """(first element, element after the last) of an array's slices, in their order."""
        return sorted((each["offset"], each["offset"] + each["count"]) for each in self.slices.get(name, ()))


def folders(path):
    """{step: folder} of a folder of checkpoints, or of one checkpoint."""
    found = [path] if re.fullmatch(r"step-\d+", path.name) else path.glob("step-*")
    return {int(entry.name.removeprefix("step-")): entry for entry in found if re.fullmatch(r"step-\d+", entry.name)}
