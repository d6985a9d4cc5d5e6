# ctest: name=python_traces timeout=120 labels=cli
"""zeropp.read() gives what a trace holds, column by column, with units: of a run, of a sweep; and refuses what is no trace."""

import importlib.util
import os
import pathlib
import sys

import h5py

import zpp

if importlib.util.find_spec("pandas") is None:
    print(f"skipped: {sys.executable} has no module pandas")
    sys.exit(zpp.SKIPPED)
build = pathlib.Path(os.environ["ZEROPP_BIN"]).parent
if not (build / "python" / "zeropp").is_dir():
    print("skipped: this build has no Python package")
    sys.exit(zpp.SKIPPED)
sys.path.insert(0, str(build / "python"))
import zeropp


class Traces(zpp.TestCase):
    def check(self, path):
        trace, columns = zeropp.read(path), 0
        with h5py.File(path) as file:
            self.assertEqual(trace.attributes["verdict"], "VALID")
            self.assertEqual(trace.attributes["config_hash"], file.attrs["config_hash"].decode())
            for name, frame in trace.items():
                for column in frame:
                    dataset = file[name][column]
                    expected = dataset.asstr()[:] if dataset.dtype.kind == "S" else dataset[:]
                    self.assertEqual([repr(each) for each in frame[column]], [repr(each) for each in expected], f"{name}/{column}")
                    self.assertEqual(frame.attrs["units"][column], dataset.attrs["units"].decode())
                    columns += 1
        return trace, columns

    def test_runs(self):
        self.check_ok(self.train(2, "--node-size", "1"))
        trace, columns = self.check(self.folder / "out" / "train.h5")
        self.assertGreater(columns, 60)
        self.assertEqual(len(trace["steps"]), 3)
        self.assertEqual(trace["steps"].attrs["units"]["time"], "s")
        self.assertIn("steps (3)", repr(trace))

    def test_what_is_no_trace(self):
        other = self.folder / "other.h5"
        h5py.File(other, "w").close()
        with self.assertRaises(OSError) as refused:
            zeropp.read(other)
        self.assertIn("no trace", str(refused.exception))


zpp.main()
