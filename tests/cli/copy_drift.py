# ctest: name=copy_drift labels=cli,nightly timeout=240 processors=4
"""Copies of the weights that differences are added to do not drift away: after each of hundreds of steps zpp_train's
checkpoints hold what the NumPy codecs make of the difference that was sent, within the bound of that one difference;
and zpp-validate copy-drift finds copies that do not."""

import json
import shutil
import struct

import zpp

FLAGS = [*zpp.ALL_FEATURES, "--weight-differences", "--deterministic", "--save-interval", "1", "--save-keep", "100000",
         "--log-interval", "1000"]
QUADRATIC = ["--model", "quadratic", "--hidden-size", "300", "--lr", "0.01"]
SCHEDULE = [{"weight_codec": "int6:64"}, {"from_step": 4, "units": ["h.1"], "weight_codec": "int4:64"}]
# Name: (steps, flags, how often whole weights go after step 1).
RUNS = {
    "quadratic": (300, [*QUADRATIC, "--bf16"], 0),
    "refresh": (40, [*QUADRATIC, "--bf16", "--weight-refresh-interval", "10", "--weight-codec", "int8:64",
                     "--weight-copy-dtype", "fp32"], 3),
    "fp32": (30, [*QUADRATIC, "--weight-difference-codec", "int2:32+wide"], 0),
    "gpt": (40, ["--bf16", "--weight-difference-codec", "int3:64+had32"], 0),
    "fp16": (20, ["--fp16", "--initial-scale-power", "16", "--weight-difference-codec", "int4:64+asym+s32",
                  "--pipeline-depth", "2"], 0),
    "schedule": (8, ["--bf16", "--codec-schedule", json.dumps(SCHEDULE), "--weight-difference-codec", "mxfp4"], 1),
    "floats": (12, ["--bf16", "--weight-difference-codec", "fp8e4m3", "--param-persistence-threshold", "5000"], 0),
    "evaluations": (12, ["--bf16", "--eval-interval", "3", "--eval-iters", "1"], 0),
    "offload": (20, ["--bf16", "--offload-optimizer", "cpu", "--offload-optimizer-ratio", "0.5",
                     "--weight-copy-dtype", "fp32"], 0),
    "stage 2": (40, ["--zero-stage", "2", "--bf16", "--weight-refresh-interval", "9", "--weight-codec", "int8:64"], 4),
    "stage 1": (20, ["--zero-stage", "1", "--fp16", "--initial-scale-power", "16", "--offload-optimizer", "cpu",
                     "--offload-optimizer-ratio", "0.5"], 0),
    "random": (20, ["--bf16", "--weight-difference-codec", "int4:128+sr"], 0),
}


class CopyDrift(zpp.TestCase):
    def drift(self, *paths, trace):
        return zpp.Process([*zpp.VALIDATE, "copy-drift", *paths, "--trace", trace / "train.h5"]).end()

    def run_of(self, name):
        """(folder of checkpoints, output)"""
        steps, words, _ = RUNS[name]
        hpz = FLAGS.index("--zero-hpz-partition-size")
        flags = FLAGS[:hpz] + FLAGS[hpz + 2:] if "--zero-stage" in words else FLAGS
        kept, out = self.folder / f"kept {name}", self.folder / f"out {name}"
        self.check_ok(self.train(4, *flags, "--train-iters", steps, *words, "--save", kept, out=out))
        return kept, out

    def test_every_step_leaves_no_more_than_its_own(self):
        for name, (steps, _, refreshes) in RUNS.items():
            with self.subTest(name):
                kept, out = self.run_of(name)
                result = self.drift(kept, trace=out)
                self.assertEqual(result.code, zpp.OK, result)
                self.assertIn(f"VALID: {steps - 1} steps", result.stdout)
                self.assertEqual("  nothing  " in result.stdout, "--fp16" in RUNS[name][1], result)
                whole = [line.split("  ") for line in result.stdout.splitlines() if "whole weights" in line]
                self.assertEqual(len(whole), refreshes, result)
                # The bound is no empty one: some weight comes near it.
                shares = [float(line.split("%")[0].split()[-1]) for line in result.stdout.splitlines() if "%" in line]
                self.assertGreater(max(shares), 40, result)

    def change(self, kept, step, array, offset, change):
        """Element `offset` of an array, as an integer, becomes change(element)."""
        folder = kept / f"step-{step:09}"
        manifest = json.loads((folder / "manifest.json").read_text())
        each = next(each for each in manifest["slices"] if each["array"] == array
                    and each["offset"] <= offset < each["offset"] + each["count"])
        form = {2: "<H", 4: "<I", 8: "<Q"}[each["element_bytes"]]
        with open(folder / f"rank-{each['rank']:05}.bin", "r+b") as file:
            place = each["position"] + (offset - each["offset"]) * each["element_bytes"]
            file.seek(place)
            value = struct.unpack(form, file.read(each["element_bytes"]))[0]
            file.seek(place)
            file.write(struct.pack(form, change(value)))

    def test_tampering_is_found(self):
        kept, out = self.run_of("fp16")
        wide, other = "further from the weights", "other bits than the codec's"
        flipped = self.folder / "changed"
        for what, step, array, change, parts in (
                ("a weight of the copy in its last bit", 12, "h.0/copy/fp16", lambda value: value ^ 1, {other}),
                ("its sign", 12, "h.1/copy/fp16", lambda value: value ^ 0x8000, {wide, other}),
                ("not a number", 20, "h.0/copy/fp16", lambda value: 0x7E00, {wide, other}),
                ("a master weight", 19, "h.0/master", lambda value: value ^ 0x800000, {other})):
            with self.subTest(what):
                shutil.rmtree(flipped, ignore_errors=True)
                shutil.copytree(kept, flipped)
                self.change(flipped, step, array, 70, change)
                result = self.drift(flipped, trace=out)
                self.assertEqual(result.code, 1, result)
                found = {part for part in (wide, other) if part in result.stdout}
                self.assertGreaterEqual(found, parts, result)
                self.assertNotIn("\nVALID", result.stdout)
        with self.subTest("a copy that stood still"):
            shutil.rmtree(flipped)
            shutil.copytree(kept, flipped)
            for rank in range(4):
                self.keep_copies(flipped, 9, 10, rank)
            result = self.drift(flipped, trace=out)
            self.assertEqual(result.code, 1, result)
            self.assertIn(f"first step 10, are {wide}", result.stdout)

    def keep_copies(self, kept, earlier, later, rank):
        """The later checkpoint gets the copies of the earlier one: both files are laid out alike."""
        slices = json.loads((kept / f"step-{later:09}" / "manifest.json").read_text())["slices"]
        paths = [kept / f"step-{step:09}" / f"rank-{rank:05}.bin" for step in (earlier, later)]
        before, after = (bytearray(path.read_bytes()) for path in paths)
        for each in slices:
            if each["rank"] == rank and "/copy/" in each["array"]:
                where = slice(each["position"], each["position"] + each["count"] * each["element_bytes"])
                after[where] = before[where]
        paths[1].write_bytes(after)

    def test_parts_of_a_run_with_codecs_of_their_own(self):
        """Each step is judged by the trace that has it; where none has it, by the first one, with a warning."""
        kept, first, second = (self.folder / name for name in ("kept", "first", "second"))
        flags = [*FLAGS, "--bf16", "--save", kept]
        self.check_ok(self.train(4, *flags, "--train-iters", 6, out=first))
        other = ["--weight-difference-codec", "int8:64", "--offload-optimizer", "cpu"]
        self.check_ok(self.train(4, *flags, "--train-iters", 12, "--load", kept, *other, out=second))
        whole = self.drift(kept, "--trace", first / "train.h5", trace=second)
        self.assertEqual(whole.code, zpp.OK, whole)
        self.assertIn("VALID: 11 steps", whole.stdout)
        self.assertNotIn("warning", whole.stderr)
        part = self.drift(kept, trace=first)
        self.assertEqual(part.code, 1, part)
        self.assertIn("warning: 6 steps, the first one 7, are in no trace, and judged by the codecs of ", part.stderr)
        self.assertIn("first step 7, have other bits", part.stdout)

    def test_what_cannot_be_judged(self):
        plain, kept = self.folder / "plain", self.folder / "kept"
        self.check_ok(self.train(4, "--save", kept, out=plain))
        self.refused(self.drift(kept, trace=plain), "without weight differences")
        kept, out = self.folder / "last", self.out
        self.check_ok(self.train(4, *FLAGS[:-6], "--save", kept))
        self.refused(self.drift(kept, trace=out), "no two checkpoints follow each other")
        self.refused(self.drift(kept, trace=self.folder), "cannot be read", zpp.IO)
        kept, out = self.folder / "persisting", self.folder / "persists"
        self.check_ok(self.train(4, *FLAGS, "--param-persistence-threshold", 10**8, "--save", kept, out=out))
        self.refused(self.drift(kept, trace=out), "the checkpoints hold no copies")

    def refused(self, result, part, code=zpp.USAGE):
        self.assertEqual(result.code, code, result)
        (line,) = result.errors("zpp-validate copy-drift")
        self.assertIn(part, line)


if __name__ == "__main__":
    zpp.main()
