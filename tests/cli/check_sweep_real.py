# ctest: name=check_sweep_real timeout=300 labels=cli,nightly processors=4
"""zpp-validate check judges real traces of zpp_sweep: VALID as they are, and INVALID with the reason after each change
that makes one number wrong, alone or together with others that would hide it."""

import hashlib
import json
import math
import os
import pathlib
import shutil

import h5py
import numpy as np

import zpp
from zpp_validate.checkers import check_trace

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
PROGRAM = str(zpp.BIN / "zpp_sweep")
WORDS = ["-b", "1K", "-e", "4K", "-f", "4", "-n", "2", "-w", "1", "-N", "8", "-a", "1", "--node-size", "2",
         "--backend", "host",
         "--collective", "all_gather,reduce_scatter,broadcast", "--codec", "none,int8:256", "-d", "bfloat16"]


class CheckSweep(zpp.TestCase):
    def sweep(self, ranks, *words):
        done = zpp.run(ranks, [PROGRAM, *words, "--output", self.out], cwd=self.folder)
        self.check_ok(done)
        return self.out / "sweep.h5"

    def test_real_sweeps_are_valid(self):
        for ranks, words in ((4, WORDS), (3, ["-b", "0", "-e", "8K", "-i", "3K", "--max-seconds", "0.002",
                                              "--codec", "none,int4:64",
                                              "-d", "all", "-r", "all", "-m", "2", "-c", "0", "--backend", "host"]),
                             (4, ["-b", "1K", "-e", "8K", "-f", "8", "--group", "all", "--algorithm", "all",
                                  "--check-maxbytes", "1K",
                                  "--codec", "none,bf16", "--node-size", "2", "-N", "1", "-a", "2",
                                  "--backend", "host"]),
                             (1, ["-b", "1K", "-e", "1K", "-n", "1", "--backend", "host"])):
            with self.subTest(ranks=ranks, words=words):
                self.assertEqual(zpp.check_trace(self.sweep(ranks, *words)).stdout, "VALID\n")

    def test_every_wrong_number_is_found(self):
        whole = self.sweep(4, *WORDS)
        changed = self.folder / "changed.h5"

        def times(factor):
            """All that follows from the time of result 4, but its samples, is as if it had been faster."""
            def edit(file):
                results = file["results"]
                for name in ("time", "p50", "p50_low", "p50_high", "p95"):
                    results[name][4] *= factor
                for name in ("alg_bw", "bus_bw", "wire_bus_bw", "ratio"):
                    results[name][4] /= factor
            return edit

        def scaled(group, column, index, factor):
            def edit(file):
                file[group][column][index] = file[group][column][index] * factor
            return edit

        def to(group, column, index, value):
            def edit(file):
                file[group][column][index] = value
            return edit

        def attribute(name, value):
            return lambda file: file.attrs.__setitem__(name, value)

        def configured(name, value):
            def edit(file):
                config = json.loads(file.attrs["config_json"])
                text = json.dumps({**config, name: value})
                file.attrs["config_json"] = np.bytes_(text)
                file.attrs["config_hash"] = np.bytes_(hashlib.sha256(text.encode()).hexdigest())
            return edit

        cases = [(times(0.5), "p50 is"), (scaled("samples", "time", 100, 2), "is"),
                 (to("samples", "time", 7, 0), "took 0.0 s"), (to("samples", "time", 7, math.nan), "took nan s"),
                 (to("samples", "rank", 1, 0), "is there twice"),
                 (to("samples", "result", 0, 10**6), "is of no result"),
                 (scaled("results", "wire_bytes_inter", 6, 2), "wire_bytes_inter is"),
                 (scaled("results", "wire_bytes_intra", 5, 2), "wire_bytes_intra is"),
                 (to("results", "wire_bytes_intra", 0, 1), "wire_bytes_intra is 1"),
                 (to("results", "wrong", 3, 1), "wrong is 1"), (to("results", "checked", 3, 0), "checked is 0"),
                 (to("results", "max_error", 4, 1.5), "max_error is 1.5"),
                 (to("results", "max_error", 0, 0.5), "max_error is 0.5"),
                 (to("results", "slope", 2, math.nan), "slope is nan"),
                 (to("results", "modelled", 0, 0), "modelled is 0"),
                 (to("results", "size", 0, 2048), "size is 2048"), (to("results", "redop", 0, b"sum"), "redop is sum"),
                 (to("results", "collective", 0, b"scatter"), "no such collective"),
                 (to("results", "root", 0, b"1"), "or root"),
                 (to("results", "codec", 4, b"int8:64"), "is"),
                 (to("results", "algorithm", 4, b"other"), "no closed form"),
                 (to("results", "iterations", 0, 3), "3 iterations"),
                 (to("results", "verdict", 1, b"INVALID"), "verdict is INVAL"),
                 (attribute("complete", np.uint64(0)), "not complete"),
                 (attribute("world_size", np.uint64(5)), "world_size"),
                 (attribute("verdict", np.bytes_("INVALID: why")), "the run itself says INVALID: why"),
                 (attribute("interrupted", np.bytes_("SIGTERM")), "interrupted by SIGTERM"),
                 (attribute("config_hash", np.bytes_("0")), "config_hash"),
                 (attribute("seed", np.uint64(7)), "seed differs"),
                 (configured("maximum_bytes", 16384), "the sizes are not those asked for"),
                 (configured("collective", "all"), "all_reduce, all_to_all is not both"),
                 (configured("run_cycles", 9), "8 cycles, 9 were asked for"), (configured("average", 0), "time is"),
                 (configured("link_peak", 1e-9), "faster than the link"),
                 (configured("check_maximum_bytes", 1024), "checked is 1"),
                 (configured("node_size", 4), "declared nodes"),
                 (lambda file: file.__delitem__("samples"), "no group /samples"),
                 (lambda file: file["results"].__delitem__("cv"), "no column /results/cv")]
        for name in ("time", "alg_bw", "bus_bw", "wire_bus_bw", "ratio", "p50", "p50_low", "p50_high", "p95", "cv"):
            cases.append((scaled("results", name, 4, 1.001), f"{name} is "))
        for number, (edit, reason) in enumerate(cases):
            with self.subTest(number=number, reason=reason):
                shutil.copy(whole, changed)
                with h5py.File(changed, "r+") as file:
                    edit(file)
                judged = check_trace.judge(changed)
                self.assertTrue(any(reason in line for line in judged), judged)

    def test_interrupted_sweep_is_invalid(self):
        """Its rows are right, but not all are there."""
        whole = self.sweep(2, "-b", "1K", "-e", "4K", "-f", "4", "-n", "1", "--collective", "all_gather",
                           "--backend", "host")
        with h5py.File(whole, "r+") as file:
            file.attrs["interrupted"] = np.bytes_("SIGUSR1")
            file.attrs["verdict"] = np.bytes_("INVALID: interrupted by SIGUSR1 after 4 rows")
        # Its digest is of the file as it was written.
        self.assertEqual([line for line in check_trace.judge(whole) if "damaged" not in line],
                         ["the run itself says INVALID: interrupted by SIGUSR1 after 4 rows", "interrupted by SIGUSR1"])


if __name__ == "__main__":
    zpp.main()
