# ctest: name=python_traces timeout=240 labels=cli,nightly processors=2
"""zeropp.read() gives what a trace holds, column by column, with units, of every program that leaves one; and refuses
what is no trace."""

import json
import os
import pathlib
import sys
import unittest.mock

import other_python

other_python.with_modules("pandas", "h5py")

import h5py
import numpy
import planned
import zpp

build = pathlib.Path(os.environ["ZEROPP_BIN"]).parent
if not (build / "python" / "zeropp").is_dir():
    print("skipped: this build has no Python package")
    sys.exit(zpp.SKIPPED)
sys.path.insert(0, str(build / "python"))
import zeropp

JOB = ["--num-layers", "3", "--hidden-size", "64", "--seq-length", "32", "--vocab-size", "300", "--bf16",
       "--nodes", "2",
       "--ranks-per-node", "2"]
CLUSTER = ["--cluster", zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"]
STUDY = {
    "base": {"train_batch_size": 4, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 3},
             "zeropp": {"backend": "host", "node_size": 1, "train_steps": 4, "evaluation_interval": 2,
                        "evaluation_batches": 1,
                        "model": {"name": "gpt", "num_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
                                  "seq_length": 8}}},
    "seeds": [1, 2],
    "settings": [{"name": "zero3", "level": "markov"},
                 {"name": "feedback", "level": "markov", "baseline": "zero3", "gradient_codecs": ["int4:128"],
                  "config": {"zeropp": {"measure_quantization_error": 2,
                                        "error_feedback": {"hops": "both", "beta": 0.5}}}}]}


class Traces(zpp.TestCase):
    def check(self, name):
        """The trace of the program that just ran: every column of the file is a column of a frame, with the same values
        and units."""
        path = self.out / name
        trace, columns = zeropp.read(path), []
        with h5py.File(path) as file:
            self.assertEqual(trace.attributes["verdict"], "VALID")
            self.assertEqual(trace.attributes["config_hash"], file.attrs["config_hash"].decode())
            for group, frame in trace.items():
                self.assertEqual(frame.attrs["units"].keys(), set(frame))
                for column in frame:
                    dataset = file[group][column]
                    if dataset.dtype.kind == "S":
                        self.assertEqual(frame[column].tolist(), dataset.asstr()[:].tolist(), f"{group}/{column}")
                    else:
                        self.assertEqual(frame[column].dtype, dataset.dtype, f"{group}/{column}")
                        numpy.testing.assert_array_equal(frame[column].to_numpy(), dataset[:], f"{group}/{column}")
                    self.assertEqual(frame.attrs["units"][column], dataset.attrs["units"].decode())
                    columns.append(f"{group}/{column}")
            kept = []
            file.visititems(lambda name, item: kept.append(name) if isinstance(item, h5py.Dataset) else None)
        self.assertEqual(sorted(columns), sorted(kept))
        self.assertIn(f"({len(frame)})", repr(trace))
        return trace

    def program(self, ranks, name, *words):
        self.check_ok(zpp.run(ranks, [zpp.BIN / name, *words, "--output", self.out], cwd=self.folder))

    def test_run(self):
        self.check_ok(self.train(2, "--node-size", "1"))
        trace = self.check("train.h5")
        self.assertEqual(len(trace["steps"]), 3)
        self.assertEqual(trace["steps"].attrs["units"]["time"], "s")
        self.assertIn("steps (3)", repr(trace))

    def test_run_with_everything(self):
        self.check_ok(self.train(4, *zpp.ALL_FEATURES, "--eval-interval", 2, "--measure-quantization-error", 1,
                                 "--error-feedback", "both"))
        self.check("train.h5")

    def test_sweep(self):
        self.program(2, "zpp_sweep", "--node-size", 1, "-b", "4K", "-e", "16K", "-f", 4, "-n", 5, "-N", 5)
        self.check("sweep.h5")

    def test_fabric(self):
        self.program(2, "zpp_fabric", "--fabric-bytes", "64K", "--fabric-threshold", 1000)
        self.check("fabric.h5")

    def test_kernels(self):
        self.check_ok(zpp.Process([zpp.BIN / "zpp_kernels", "--backend", "host", "--values", "10000",
                                   "--shape", "1x8x32x2", "--vocab", "33",
                                   "--samples", "5", "--cache", "4M", "--output", self.out], cwd=self.folder).end())
        self.check("kernels.h5")

    def test_convergence(self):
        (self.folder / "study.json").write_text(json.dumps(STUDY))
        self.program(2, "zpp_converge", "--config", self.folder / "study.json")
        self.check("converge.h5")

    def test_plans(self):
        for words in ([*JOB, "--zero-quantized-weights"], ["search", *JOB, *CLUSTER], ["time", *JOB, *CLUSTER],
                      ["breakeven", *JOB, *CLUSTER],
                      ["compare", *JOB]):
            with self.subTest(words[0]):
                self.check_ok(zpp.Process([planned.PLAN, *words, "--output", self.out]).end())
                self.check("plan.h5")

    def test_what_is_no_trace(self):
        other = self.folder / "other.h5"
        h5py.File(other, "w").close()
        with self.assertRaises(OSError) as refused:
            zeropp.read(other)
        self.assertIn("no trace", str(refused.exception))

    def test_what_cannot_be_read_is_named(self):
        text = self.folder / "text.h5"
        text.write_text("no HDF5")
        cut = self.folder / "cut.h5"
        with h5py.File(cut, "w") as file:
            file["values"] = numpy.zeros(1000)
        cut.write_bytes(cut.read_bytes()[:-1000])
        for path, kind in ((text, OSError), (cut, OSError), (self.folder / "none.h5", FileNotFoundError),
                           (self.folder, IsADirectoryError)):
            with self.subTest(path.name), self.assertRaises(kind) as refused:
                zeropp.read(path)
            self.assertIn(str(path), str(refused.exception))
            self.assertNotIn("\n", str(refused.exception))

    def test_missing_modules(self):
        for name in ("pandas", "h5py"):
            with self.subTest(name), unittest.mock.patch.dict(sys.modules,
                                                              {name: None}), self.assertRaises(
                                                                  ModuleNotFoundError) as raised:
                zeropp.read("train.h5")
            self.assertEqual(str(raised.exception), f"zeropp.read() needs {name}: pip install {name}")


zpp.main()
