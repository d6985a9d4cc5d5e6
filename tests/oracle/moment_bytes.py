# ctest: name=contract1_moment_bytes_numpy timeout=120
"""Weights and moments of the host's optimizers after many steps, kept in fp32, bf16 and 8 bits, equal those of the
independent implementation, bit for bit."""

import os
import subprocess

import numpy as np
import zpp

from zpp_validate.oracles import moments

DUMP = os.path.join(os.environ["ZEROPP_TEST_BIN"], "moments_dump")


def gradients_of(steps, n, seed):
    """Sizes over many decades, with exact zeros; some blocks are zero in all steps."""
    random = np.random.default_rng(seed)
    made = random.standard_normal((steps, n)) * 10.0 ** random.uniform(-9, 3, n)
    made[random.random((steps, n)) < 0.1] = 0
    made[:, 64:128] = 0
    return made.astype(np.float32)


def dumped(optimizer, kind, gradients, number, key):
    words = [DUMP, optimizer, kind, gradients.shape[1], len(gradients), number, key]
    data = subprocess.run(list(map(str, words)), input=gradients.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(data, np.uint8)


def same(got, wanted):
    """Whether bits are the same; the bits of NaN may differ, because they depend on the machine."""
    if wanted.dtype == np.float32:
        return np.array_equal(np.where(np.isnan(got), 0, got.view(np.uint32)),
                              np.where(np.isnan(wanted), 0, wanted.view(np.uint32)))
    return np.array_equal(got, wanted)


class MomentBytes(zpp.TestCase):
    def check(self, optimizer, kind, gradients, number=0, key=5):
        data = dumped(optimizer, kind, gradients, number, key)
        weight, kept = moments.train(optimizer, kind, gradients, number, key)
        arrays = [weight]
        for each in kept:
            arrays += [each.values, each.scales]
        self.assertEqual(len(data), sum(array.nbytes for array in arrays))
        for index, wanted in enumerate(arrays):
            got, data = data[: wanted.nbytes].view(wanted.dtype), data[wanted.nbytes :]
            self.assertTrue(same(got, wanted), f"{optimizer}, {kind}: array {index} of {gradients.shape} differs")

    def test_every_optimizer_and_kind(self):
        for optimizer in moments.SIGNED:
            for kind in ("fp32", "bf16", "int8"):
                for n in (1, 63, 64, 65, 1000):
                    self.check(optimizer, kind, gradients_of(8, n, n))

    def test_draws_count_on_the_number_and_the_key(self):
        gradients = gradients_of(3, 200, 1)
        for number, key in ((1, 5), (2, 5), (7, 2**64 - 10), (2**40 + 3, 2**40)):
            self.check("AdamW", "bf16", gradients, number, key)
        self.assertFalse(np.array_equal(dumped("AdamW", "bf16", gradients, 0, 5),
                                        dumped("AdamW", "bf16", gradients, 0, 6)))

    def test_what_is_not_finite(self):
        for optimizer in moments.SIGNED:
            for kind in ("bf16", "int8"):
                gradients = gradients_of(2, 300, 2)
                gradients[:, [3, 150, 290]] = np.inf, np.nan, np.float32(3.4e38)
                self.check(optimizer, kind, gradients)

    def test_small_and_subnormal(self):
        for kind in ("bf16", "int8"):
            for scale in (1e-30, 1e-38, 1e-42):
                self.check("SGD", kind, (gradients_of(3, 200, 3).astype(np.float64) * scale).astype(np.float32))


if __name__ == "__main__":
    zpp.main()
