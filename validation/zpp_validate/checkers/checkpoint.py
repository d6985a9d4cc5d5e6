"""Checks checkpoints of zpp_train: the manifest's digest, the digest of every chunk, that slices cover every array
once, and the digests of model.safetensors and config.json, where the checkpoint has them.

usage: zpp-validate checkpoint FOLDER [--newest]

FOLDER is what --save names. Prints a line a checkpoint, newest first: its step, VALID or INVALID: reason. With --newest
only that one. Exit codes: 0 all VALID, 1 one is not, 2 usage, or no checkpoint.
"""

import hashlib
import json
import re

from zpp_validate import command_line
from zpp_validate.problem import MALFORMED, Problem, part, reason_of, require

CHUNK = 16 << 20  # bytes that a digest of a rank's array covers
WEIGHT_PIECE = 1 << 20  # bytes that a digest of an exported tensor covers


def read_manifest(path):
    with part(path.name):
        document = json.loads(path.read_text())
        digest = document.pop("sha256", None)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    require(hashlib.sha256(text.encode()).hexdigest() == digest, "the manifest's digest is not that of its text")
    require((document["schema"], document["schema_version"]) == ("zeropp-checkpoint", "1.0"), "another schema")
    return document


def check_cover(slices):
    """Checks that the slices of one array follow each other from its begin to its end."""
    end = 0
    for each in sorted(slices, key=lambda s: (s["offset"], s["count"])):
        require((each["total"], each["element_bytes"]) == (slices[0]["total"], slices[0]["element_bytes"]),
                f"{each['array']}: two arrays")
        require(each["offset"] == end, f"{each['array']}: element {end} is missing or there twice")
        end += each["count"]
    require(end == slices[0]["total"], f"{slices[0]['array']}: element {end} is missing")


def check_bytes(folder, each):
    size = each["count"] * each["element_bytes"]
    require(len(each["sha256"]) == -(-size // CHUNK), f"{each['array']}: not a digest for each chunk")
    with open(folder / f"rank-{each['rank']:05}.bin", "rb") as file:
        file.seek(each["position"])
        for index, digest in enumerate(each["sha256"]):
            chunk = file.read(min(CHUNK, size - index * CHUNK))
            require(hashlib.sha256(chunk).hexdigest() == digest,
                    f"{file.name}: bytes of {each['array']} are not those that were written")


def check_file(folder, each):
    """A file for other programs. Its digest is of its first bytes: of a safetensors file the header, which has digests
    of the tensors, and of others all."""
    name, is_changed = each["name"], f"{each['name']} is not as it was written"
    with open(folder / name, "rb") as file:
        begin = file.read(each["bytes"])
        require(hashlib.sha256(begin).hexdigest() == each["sha256"], is_changed)
        if name.endswith(".safetensors"):
            header = json.loads(begin[8:])
            digests = header.pop("__metadata__")
            for tensor, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
                first, last = entry["data_offsets"]
                found = "".join(hashlib.sha256(file.read(min(WEIGHT_PIECE, last - at))).hexdigest()
                                for at in range(first, max(last, first + 1), WEIGHT_PIECE))
                require(found == digests[f"sha256 of {tensor}"],
                        f"{name}: values of {tensor} are not those that were written")
        require(not file.read(1), is_changed)


def check(folder):
    """Raises OSError or MALFORMED."""
    manifest = read_manifest(folder / "manifest.json")
    require(int(folder.name.removeprefix("step-")) == manifest["step"], "the folder is named after another step")
    arrays = {}
    for each in manifest["slices"]:
        require(each["rank"] < manifest["world_size"], f"{each['array']}: of rank {each['rank']}")
        arrays.setdefault(each["array"], []).append(each)
    require(arrays, "there is no array")
    for slices in arrays.values():
        check_cover(slices)
    for each in manifest["slices"]:
        check_bytes(folder, each)
    for each in manifest.get("files", ()):  # earlier versions kept none
        check_file(folder, each)


def main(words):
    parser = command_line.parser("checkpoint", __doc__)
    parser.add_argument("folder", type=command_line.InputFolder)
    parser.add_argument("--newest", action="store_true")
    arguments = parser.parse_args(words)
    found = [entry for entry in arguments.folder.glob("step-*") if re.fullmatch(r"step-\d+", entry.name)]
    found.sort(key=lambda entry: int(entry.name.removeprefix("step-")), reverse=True)
    if not found:
        raise Problem(f"{arguments.folder} holds no checkpoint: name the folder that --save named")
    verdicts = []
    for folder in found[:1] if arguments.newest else found:
        try:
            check(folder)
            verdicts.append("VALID")
        except (OSError, *MALFORMED) as error:
            verdicts.append(f"INVALID: {reason_of(error)}")
        print(f"{folder.name}  {verdicts[-1]}")
    return 0 if all(verdict == "VALID" for verdict in verdicts) else 1
