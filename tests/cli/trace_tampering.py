# ctest: name=trace_tampering labels=cli timeout=120
"""Traces that somebody or something has changed: bits that are flipped, ends that are cut off, attributes that were
replaced. The checker finds it, or reads what was written; nothing else happens. ZEROPP_TAMPERINGS=N flips that many
bits, ZEROPP_TAMPERING_SEED=S others."""

import os
import pathlib
import random

import h5py
import zpp
from zpp_validate.checkers import check_trace
from zpp_validate.readers import trace_file

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
FLIPS = int(os.environ.get("ZEROPP_TAMPERINGS", "60"))
SEED = int(os.environ.get("ZEROPP_TAMPERING_SEED", "1"))
# What the run was called with and made of, which nothing else in the file says again.
FREE = {"blas_library", "build_type", "command_line", "cuda_versions", "cxx_compiler", "git_commit", "hdf5_version",
        "kernels", "kokkos_version",
        "mpi_library", "run_id", "started_at", "version"}


def content(path):
    """All that the checker reads; NaN is like NaN."""
    return repr(sorted(vars(trace_file.Trace(str(path))).items()))


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
        return "harmless" if content(self.path) == self.content else "undetected"

    def test_bits_that_are_flipped_are_found_or_harmless(self):
        chosen = random.Random(SEED)
        counts = dict.fromkeys(("detected", "harmless", "undetected"), 0)
        for _ in range(FLIPS):
            data, bit = bytearray(self.written), chosen.randrange(8 * len(self.written))
            data[bit // 8] ^= 1 << bit % 8
            outcome = self.outcome(data)
            counts[outcome] += 1
            self.assertNotEqual(outcome, "undetected", f"bit {bit}")
        print(f"{FLIPS} flips: {counts}")
        self.assertGreater(counts["detected"], 0)

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
