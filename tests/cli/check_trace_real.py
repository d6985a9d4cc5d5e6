# ctest: name=check_trace_real labels=cli timeout=150 processors=4
"""validation/check_trace.py on traces of real runs: VALID as they are, INVALID after any tampering."""

import os
import pathlib
import random
import shutil
import sys

import h5py

sys.path.insert(0, str(pathlib.Path(os.environ["ZEROPP_SOURCE"]) / "tests" / "support"))
import zpp

EVALUATIONS = ["--eval-interval", "2", "--eval-iters", "3"]
RUNS = {
    "all features, evaluations, tied head": (4, [*zpp.ALL_FEATURES, *EVALUATIONS]),
    "all features, two micro-steps, small buckets":
        (4, [*zpp.ALL_FEATURES, "--gradient-accumulation-steps", "2", "--reduce-bucket-size", "8192", "--bf16"]),
    "hpZ, evaluations, untied head":
        (4, ["--node-size", "2", "--zero-hpz-partition-size", "2", "--no-tied-head", *EVALUATIONS]),
    "hpZ over both nodes": (4, ["--node-size", "2", "--zero-hpz-partition-size", "4", *EVALUATIONS]),
    "ZeRO-3": (4, ["--node-size", "2", *EVALUATIONS]),
    "stage 2": (2, ["--zero-stage", "2", "--gradient-accumulation-steps", "2", *EVALUATIONS]),
    "stage 1": (2, ["--zero-stage", "1", "--bf16"]),
    "stage 0": (2, ["--zero-stage", "0", "--node-size", "1"]),
    "one rank": (1, EVALUATIONS),
    "nodes of one rank": (2, [*zpp.ALL_FEATURES[2:], "--node-size", "1"]),
    "the vendor's collectives": (2, ["--all-gather-algorithm", "native", "--reduce-scatter-algorithm", "native"]),
}


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
            self.check_invalid(self.folder / "nowhere.h5")
        self.check_valid(original)

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
