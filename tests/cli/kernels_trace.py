# ctest: name=kernels_trace labels=cli timeout=120
"""zpp-validate check on a trace of zpp_kernels: VALID as it is, and INVALID with the reason for each number in it that
is changed."""

import os
import pathlib
import shutil

import h5py

import zpp
from zpp_validate.checkers import check_trace

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
PROGRAM = str(zpp.BIN / "zpp_kernels")


class Trace(zpp.TestCase):
    def setUp(self):
        super().setUp()
        command = [PROGRAM, "--backend", "host", "--values", "10000", "--shape", "1x8x32x2", "--vocab", "33",
                   "--samples", "5", "--cache", "4M",
                   "--dtype", "fp32,bf16", "--images", "3", "--output", self.out]
        self.check_ok(zpp.Process(command, cwd=self.folder).end())

    def judged(self, change):
        path = self.folder / "changed.h5"
        shutil.copy(self.out / "kernels.h5", path)
        with h5py.File(path, "r+") as file:
            change(file)
        return check_trace.judge(path)

    def refused(self, reason, change):
        self.assertRegex("\n".join(self.judged(change)), reason)

    def test_right_and_wrong(self):
        self.assertEqual(self.judged(lambda file: None), [])
        _, groups = zpp.read_trace(self.out / "kernels.h5")
        kernels = groups["results"]["kernel"]

        def put(group, column, row, value):
            def change(file):
                file[group][column][row] = value
            return change

        def scale(column, row, factor):
            def change(file):
                file["results"][column][row] *= factor
            return change

        for row, kernel in enumerate(kernels):
            # A trace has neither the tokens of an embedding nor the padding of a row of cross-entropy.
            factor = 0.01 if kernel.startswith(("embedding", "cross")) else 1.01
            for column in ("read", "written"):
                if groups["results"][column][row] == 0 or (kernel, column) == ("embedding_backward", "read"):
                    continue
                with self.subTest(kernel=kernel, column=column):
                    self.refused(rf"{kernel}/.*moves", scale(column, row, factor))
        for column in ("time", "time_low", "time_high", "p95", "cv", "of_limit", "of_copy"):
            with self.subTest(column=column):
                self.refused(rf"{kernels[3]}/.*{column}", scale(column, 3, 1.001))
        self.refused("time", put("samples", "time", slice(5, 10), 1.0))
        self.refused("no sane samples", put("samples", "time", 0, -1.0))
        self.refused("a sample of row 999", put("samples", "result", 0, 999))
        self.refused("limit", put("results", "limit", 0, b"write"))
        self.refused("no closed form", put("results", "kernel", 0, b"xopy"))
        self.refused("ceiling copy", put("ceilings", "rate", groups["ceilings"]["name"].index("copy"), 0.0))
        self.refused("no ceiling read", put("ceilings", "name", groups["ceilings"]["name"].index("read"), b"rea"))
        self.refused("the run itself says INVALID", lambda file: file.attrs.__setitem__("verdict", "INVALID: x"))
        self.refused("config_hash", lambda file: file.attrs.__setitem__("config_hash", "0" * 64))
        self.refused("no group /samples", lambda file: file.__delitem__("samples"))
        self.refused("no column /results/sets", lambda file: file["results"].__delitem__("sets"))
        self.refused("no attribute seed", lambda file: file.attrs.__delitem__("seed"))


zpp.main()
