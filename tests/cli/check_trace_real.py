# ctest: name=check_trace_real labels=cli timeout=150 processors=4
"""zpp-validate check on traces of real runs: VALID as they are, INVALID after any tampering."""

import os
import random
import shutil

import h5py

import validate
import zpp

EVALUATIONS = ["--eval-interval", "2", "--eval-iters", "3"]
RUNS = {
    "all features, evaluations, tied head": (4, [*zpp.ALL_FEATURES, *EVALUATIONS]),
    "all features, two micro-steps, small buckets":
        (4, [*zpp.ALL_FEATURES, "--gradient-accumulation-steps", "2", "--reduce-bucket-size", "8192", "--bf16"]),
    "error feedback":
        (4, [*zpp.ALL_FEATURES, "--error-feedback", "both", "--error-feedback-beta", "0.5",
             "--reduce-bucket-size", "8192"]),
    "error feedback in int8, one hop, bf16":
        (2, [*zpp.ALL_FEATURES[2:], "--reduce-scatter-algorithm", "1-hop", "--error-feedback", "both",
             "--error-feedback-dtype", "int8", "--bf16"]),
    "measured errors": (4, [*zpp.ALL_FEATURES, "--measure-quantization-error", "2"]),
    "measured errors at stage 1": (2, ["--zero-stage", "1", "--zero-quantized-weights", "--weight-codec", "int4:64",
                                       "--measure-quantization-error", "1"]),
    "measured errors at stage 0": (2, ["--zero-stage", "0", "--measure-quantization-error", "1", "--bf16"]),
    "fp16 with all features": (4, [*zpp.ALL_FEATURES, "--fp16", "--loss-scale", "256"]),
    "fp16 that searches for its scale":
        (2, ["--fp16", "--initial-scale-power", "20", "--hysteresis", "1", "--loss-scale-window", "2",
             "--train-iters", "12"]),
    "hpZ, evaluations, untied head":
        (4, ["--node-size", "2", "--zero-hpz-partition-size", "2", "--no-tied-head", *EVALUATIONS]),
    "hpZ over both nodes": (4, ["--node-size", "2", "--zero-hpz-partition-size", "4", *EVALUATIONS]),
    "ZeRO-3": (4, ["--node-size", "2", *EVALUATIONS]),
    "stage 2": (2, ["--zero-stage", "2", "--gradient-accumulation-steps", "2", *EVALUATIONS]),
    "stage 1": (2, ["--zero-stage", "1", "--bf16"]),
    "stage 0": (2, ["--zero-stage", "0", "--node-size", "1"]),
    "a Llama that recomputes":
        (4, [*zpp.ALL_FEATURES, "--model", "llama", "--num-key-value-heads", "1", "--recompute-activations"]),
    "a Qwen2 with wide heads":
        (2, ["--model", "llama", "--add-qkv-bias", "--head-dim", "24", "--ffn-hidden-size", "80", "--no-tied-head"]),
    "a GPT with grouped heads":
        (2, ["--num-key-value-heads", "1", "--head-dim", "24", "--ffn-hidden-size", "80", "--recompute-activations"]),
    "one rank": (1, EVALUATIONS),
    "nodes of one rank": (2, [*zpp.ALL_FEATURES[2:], "--node-size", "1"]),
    "the vendor's collectives": (2, ["--all-gather-algorithm", "native", "--reduce-scatter-algorithm", "native"]),
    "images by the vendor's all-gather":
        (4, ["--node-size", "2", "--zero-quantized-weights", "--all-gather-algorithm", "native-images",
             "--pipeline-depth", "3",
             "--zero-hpz-partition-size", "2", *EVALUATIONS]),
}


# The changed entry, its new value, and what the reason names. Entries are root attributes by name, attributes of a
# group as "group@name", columns as "group/name[row]" and "group/name" (all rows), or "group" cut to so many rows.
CHANGES = [
    ("collectives/calls[0]", 1, "calls is 1"),
    ("collectives/logical_bytes[0]", 0, "logical_bytes is 0"),
    ("collectives/seconds[0]", -1.0, "seconds"),
    ("collectives/codec[0]", "none", "did not run"),
    ("collectives/algorithm[0]", "flat", "did not run"),
    ("collectives/codec[5]", "int4:128", "did not run"),
    ("collectives", 5, "is missing"),
    ("steps/loss[1]", -5.0, "loss < 0"),
    ("steps/learning_rate[1]", 9.0, "learning_rate"),
    ("steps/loss_scale[1]", 2.0, "loss_scale is 2.0, not 1.0"),
    ("steps/skipped[2]", 1, "the last step was skipped"),
    ("steps/skipped", 1, "all steps were skipped"),
    ("evaluations/bits_per_byte[1]", 0.1, "bits_per_byte"),
    ("evaluations/loss[1]", float("nan"), "evaluation after step 2: loss"),
    ("evaluations/step[1]", 1, "/evaluations/step"),
    ("evaluations", 2, "/evaluations/step"),
    ("data@unigram_entropy_bits", -1.0, "unigram_entropy_bits"),
    ("data@source_entropy_bits", -1.0, "source_entropy_bits"),
    ("counters/value", 0, "secondary_gathers"),
    ("counters", 0, "secondary_gathers"),
    ("timers", 7, "/timers"),
    ("timers/seconds[3]", -1.0, "timer"),
    ("memory/bytes_actual[0]", 1, "/memory: master takes 1 "),
    ("memory", 1, "/memory"),
    ("parameters_hash", "x", "parameters_hash"),
    ("flops_per_token", 1.0, "flops_per_token is 1"),
    ("hardware_flops_per_token", 1.0, "hardware_flops_per_token is 1"),
    ("ranks/pid", 0, "/ranks/pid"),
]


class Checker(zpp.TestCase):
    def judge(self, path):
        result = zpp.check_trace(path)
        self.assertEqual(result.stderr, "", result)
        return result

    def check_valid(self, path):
        result = self.judge(path)
        self.assertEqual((result.code, result.stdout), (zpp.OK, "VALID\n"), result)

    def check_invalid(self, path, *parts):
        result = self.judge(path)
        self.assertEqual(result.code, zpp.INVALID, result)
        for line in result.stdout.splitlines():
            self.assertTrue(line.startswith("INVALID: "), result)
        for part in parts:
            self.assertIn(part, result.stdout)

    def test_real_traces(self):
        paths = []
        for name, (ranks, words) in RUNS.items():
            with self.subTest(name):
                out = self.folder / str(len(paths))
                self.check_ok(self.train(ranks, *words, out=out))
                self.check_valid(out / "train.h5")
                paths.append(out / "train.h5")
        together = zpp.check_trace(*paths)
        self.assertEqual((together.code, together.stdout.count(": VALID\n")), (zpp.OK, len(RUNS)), together)

    def test_tampering(self):
        self.check_ok(self.train(4, *zpp.ALL_FEATURES, *EVALUATIONS))
        original = self.out / "train.h5"

        def copy():
            target = self.folder / "copy.h5"
            shutil.copyfile(original, target)
            return target

        with self.subTest("counted and predicted bytes together"):
            for kind in ("inter", "intra"):
                with h5py.File(copy(), "r+") as file:
                    for name in (f"bytes_{kind}_node", f"bytes_predicted_{kind}_node"):
                        column = file["steps"][name]
                        column[1] = column[1] - 16
                self.check_invalid(self.folder / "copy.h5", "step 1")
        with self.subTest("bytes of steps and collectives together"):
            with h5py.File(copy(), "r+") as file:
                for group, name, row in (("steps", "bytes_inter_node", 0),
                                         ("steps", "bytes_predicted_inter_node", 0),
                                         ("collectives", "wire_bytes_inter", 0)):
                    column = file[group][name]
                    column[row] = column[row] + 64
            self.check_invalid(self.folder / "copy.h5", "step 0", "/collectives")
        with self.subTest("a unit removed"):
            with h5py.File(copy(), "r+") as file:
                cut(file["units"], len(file["units/name"]) - 1)
            self.check_invalid(self.folder / "copy.h5", "/units")
        with self.subTest("a dataset truncated"):
            with h5py.File(copy(), "r+") as file:
                cut(file["steps"], 2, only="loss")
            self.check_invalid(self.folder / "copy.h5", "/steps")
        with self.subTest("all steps truncated"):
            with h5py.File(copy(), "r+") as file:
                cut(file["steps"], 2)
            self.check_invalid(self.folder / "copy.h5", "2 steps of 3")
        with self.subTest("configuration changed"):
            with h5py.File(copy(), "r+") as file:
                text = file.attrs["config_json"]
                text = text.decode() if isinstance(text, bytes) else text
                file.attrs.modify("config_json", text.replace("int4:128", "int8:128"))
            self.check_invalid(self.folder / "copy.h5")
        with self.subTest("a dataset deleted"):
            with h5py.File(copy(), "r+") as file:
                del file["steps/bytes_predicted_inter_node"]
            self.check_invalid(self.folder / "copy.h5", "bytes_predicted_inter_node")
        with self.subTest("the file truncated"):
            os.truncate(copy(), original.stat().st_size * 2 // 3)
            self.check_invalid(self.folder / "copy.h5")
        with self.subTest("no file"):
            missing = validate.run("check", original, self.folder / "nowhere.h5")
            self.assertEqual((missing.returncode, missing.stdout), (zpp.IO, ""), missing)
            self.assertRegex(missing.stderr, r"^zpp-validate check: error: .*/nowhere.h5 cannot be read: .*\n$")
        self.check_valid(original)

    def test_one_thing_changed(self):
        """Numbers beside the bytes of steps: every other number that follows from another entry."""
        self.check_ok(self.train(4, *zpp.ALL_FEATURES, *EVALUATIONS))
        copies = []
        for index, (where, value, _) in enumerate(CHANGES):
            copies.append(self.folder / f"{index}.h5")
            shutil.copyfile(self.out / "train.h5", copies[-1])
            with h5py.File(copies[-1], "r+") as file:
                change(file, where, value)
        result = self.judge_all(self.out / "train.h5", *copies)
        self.assertIn(f"{self.out / 'train.h5'}: VALID\n", result.stdout)
        for path, (where, value, part) in zip(copies, CHANGES):
            with self.subTest(where, value=value):
                lines = [line for line in result.stdout.splitlines() if line.startswith(f"{path}: ")]
                self.assertTrue(lines and all(": INVALID: " in line for line in lines), lines)
                self.assertIn(part, "\n".join(lines))

    def judge_all(self, *paths):
        result = zpp.check_trace(*paths)
        self.assertEqual((result.code, result.stderr), (zpp.INVALID, ""), result)
        return result

    def test_a_byte_flipped(self):
        """In the data of any column: its checksum tells."""
        self.check_ok(self.train(2, *EVALUATIONS))
        original = (self.out / "train.h5").read_bytes()
        with h5py.File(self.out / "train.h5", "r") as file:
            places = [(column.name, *chunk_of(column)) for group in file.values() for column in group.values()
                      if column.size]
        self.assertGreater(len(places), 40)
        random.seed(7)
        target = self.folder / "copy.h5"
        for name, begin, size in random.sample(places, 12):
            with self.subTest(name):
                changed = bytearray(original)
                changed[begin + random.randrange(size)] ^= 1 << random.randrange(8)
                target.write_bytes(changed)
                self.check_invalid(target)


def change(file, where, value):
    """Puts `value` where an entry of CHANGES says."""
    group, _, attribute = where.partition("@")
    name, _, row = where.rstrip("]").partition("[")
    if attribute:
        file[group].attrs[attribute] = value
    elif "/" in where:
        column = file[name]
        column[int(row) if row else slice(None)] = value
    elif where in file:
        cut(file[where], value)
    else:
        file.attrs.modify(where, value)


def cut(group, length, only=None):
    """Makes the columns of a group shorter; their attributes stay."""
    for name in [only] if only else list(group):
        values, attributes = group[name][:length], dict(group[name].attrs)
        del group[name]
        group.create_dataset(name, data=values, chunks=True, maxshape=(None,), fletcher32=True)
        group[name].attrs.update(attributes)


def chunk_of(column):
    """Place and size in the file of the column's first chunk."""
    info = column.id.get_chunk_info(0)
    return info.byte_offset, info.size


if __name__ == "__main__":
    zpp.main()
