# ctest: name=trace_tampering labels=cli timeout=300
"""Traces that somebody or something has changed: bits that are flipped, ends that are cut off, attributes that were
replaced. The checker finds it, or reads what was written; nothing else happens. ZEROPP_TAMPERINGS=N flips that many
bits, ZEROPP_TAMPERING_SEED=S others."""

import os
import pathlib
import random
import shutil

import h5py
import numpy as np
import validate
import zpp
from zpp_validate.checkers import check_trace

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
FLIPS = int(os.environ.get("ZEROPP_TAMPERINGS", "60"))
SEED = int(os.environ.get("ZEROPP_TAMPERING_SEED", "1"))
# Attributes of the command line and the build, which nothing else in the file repeats.
FREE = {"blas_library", "build_type", "command_line", "cuda_versions", "cxx_compiler", "git_commit", "hdf5_version",
        "kernels", "kokkos_version",
        "mpi_library", "run_id", "started_at", "version"}


def content(path):
    """All values of the file, whatever the checker reads of them."""
    found = []

    def add(name, item):
        found.append((name, sorted((key, np.asarray(value).tobytes()) for key, value in item.attrs.items()),
                      item[()].tobytes() if isinstance(item, h5py.Dataset) else b""))

    with h5py.File(path) as file:
        add("", file)
        file.visititems(add)
    return found


def another(value):
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:] if value else b"x"
    return value + 1 if value == value else 1  # NaN


class Tampering(zpp.TestCase):
    written = None  # by one run for all tests

    def setUp(self):
        super().setUp()
        self.path = self.out / "train.h5"
        if Tampering.written is None:
            self.check_ok(self.train(2, "--node-size", 1, "--zero-quantized-gradients", "--eval-interval", 3,
                                     "--eval-iters", 1))
            Tampering.written = self.path.read_bytes()
        self.out.mkdir(exist_ok=True)
        self.path.write_bytes(self.written)
        self.content = content(self.path)
        self.assertEqual(check_trace.judge(str(self.path)), [])

    def outcome(self, data):
        self.path.write_bytes(data)
        return self.outcome_of_file()

    def outcome_of_file(self):
        reasons = check_trace.judge(str(self.path))
        if reasons:
            self.assertEqual([reason for reason in reasons if "\n" in reason], [])
            return "detected"
        try:
            return "harmless" if content(self.path) == self.content else "undetected"
        except (OSError, RuntimeError) as error:
            return f"undetected: {error}"

    def test_bits_that_are_flipped_are_found_or_harmless(self):
        chosen = random.Random(SEED)
        counts = dict.fromkeys(("detected", "harmless", "undetected"), 0)
        for _ in range(FLIPS):
            data, bit = bytearray(self.written), chosen.randrange(8 * len(self.written))
            data[bit // 8] ^= 1 << bit % 8
            outcome = self.outcome(data)
            self.assertIn(outcome, counts, f"bit {bit}")
            self.assertNotEqual(outcome, "undetected", f"bit {bit}")
            counts[outcome] += 1
        print(f"{FLIPS} flips: {counts}")
        self.assertGreater(counts["detected"], 0)

    def test_blocks_of_a_disk_that_are_lost_are_found_or_harmless(self):
        """They are read as zeros, which HDF5's checksum of a column does not always see."""
        chosen = random.Random(SEED)
        for _ in range(FLIPS):
            data, block = bytearray(self.written), chosen.randrange(len(self.written) // 512)
            data[512 * block:512 * (block + 1)] = bytes(512)
            self.assertIn(self.outcome(data), ("detected", "harmless"), f"block {block}")

    def test_a_value_that_is_changed_with_its_checksum_is_found(self):
        """In every column and every attribute, also in those that nothing else in the file depends on."""
        with h5py.File(self.path) as file:
            columns = [f"{group}/{name}" for group, items in file.items() for name in items if len(items[name])]
            attributes = [(group, name) for group in ("/", "env") for name in file[group].attrs]
            attributes += [("steps/loss", "units"), ("steps/loss", "description")]
        for where in [*columns, *attributes]:
            with self.subTest(where=where):
                self.path.write_bytes(self.written)
                with h5py.File(self.path, "r+") as file:
                    if isinstance(where, tuple):
                        values = file[where[0]].attrs
                        values[where[1]] = another(values[where[1]])
                    else:
                        file[where][-1] = another(file[where][-1])
                self.assertTrue(check_trace.judge(str(self.path)))

    def test_what_is_added_taken_away_or_without_digest(self):
        changes = {"group": lambda file: file.create_group("more"),
                   "attribute": lambda file: file.attrs.update({"more": 1.0}),
                   "column": lambda file: file["env"].create_dataset("more", data=[1.0]),
                   "no attribute": lambda file: file["env"].attrs.pop(next(iter(file["env"].attrs)))}
        for name, change in changes.items():
            with self.subTest(name):
                self.path.write_bytes(self.written)
                with h5py.File(self.path, "r+") as file:
                    change(file)
                reasons = check_trace.judge(str(self.path))
                self.assertEqual(bool(reasons), name != "group", reasons)  # an empty one says nothing
        self.path.write_bytes(self.written)
        with h5py.File(self.path, "r+") as file:
            del file.attrs["sha256"]
        result = validate.run("check", self.path)
        self.assertEqual((result.returncode, result.stdout), (zpp.OK, "VALID\n"), result)
        self.assertIn("has no digest: it is of an earlier version", result.stderr)

    def test_who_compares_reads_no_changed_trace(self):
        shutil.copy(self.path, self.folder / "other.h5")
        with h5py.File(self.path, "r+") as file:
            file["steps/time"][-1] *= 0.5
        result = validate.run("compare", self.path, self.folder / "other.h5")
        self.assertEqual(result.returncode, zpp.IO, result)
        self.assertIn("its values are not those that were written", result.stderr)

    def test_a_trace_that_is_cut_or_longer_is_found_or_harmless(self):
        size = len(self.written)
        for length in (0, 1, 100, size // 3, size // 2):
            with self.subTest(length=length):
                self.assertEqual(self.outcome(self.written[:length]), "detected")
        # Room that HDF5 has left may go.
        for data in (self.written[:-1], self.written[:-1000], self.written + bytes(4096)):
            with self.subTest(length=len(data)):
                self.assertNotEqual(self.outcome(data), "undetected")

    def test_a_link_is_followed(self):
        moved = self.folder / "moved.h5"
        self.path.rename(moved)
        self.path.symlink_to(moved)
        self.assertEqual(self.outcome_of_file(), "harmless")
        moved.unlink()
        self.assertEqual(self.outcome_of_file(), "detected")

    def test_every_attribute_that_is_replaced_is_found(self):
        """With the right checksums: by what the file says elsewhere."""
        with h5py.File(self.path) as file:
            attributes = {name: (value, file.attrs.get_id(name).dtype) for name, value in file.attrs.items()}
        for name, (value, kind) in attributes.items():
            if name in FREE:
                continue
            with self.subTest(attribute=name):
                self.path.write_bytes(self.written)
                other = b"another" if kind.kind in "SO" else value + 1
                with h5py.File(self.path, "r+") as file:
                    file.attrs[name] = other
                self.assertEqual(self.outcome_of_file(), "detected")


if __name__ == "__main__":
    zpp.main()
