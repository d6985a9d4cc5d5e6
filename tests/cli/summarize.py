# ctest: name=summarize timeout=120 labels=cli processors=2
"""zpp-validate summarize reads the trace of every program that there is, and says of each what it must; what is wrong
with names, units or completeness is INVALID, and the others are still looked at."""

import pathlib
import shutil

import h5py

import synthetic_converge
import validate
import zpp
from zpp_validate.checkers import check_trace
from zpp_validate.readers import measurement, trace_format

SWEEP = ["-b", "1K", "-e", "4K", "-f", "4", "-N", "3", "-n", "1", "--backend", "host", "--codec", "none,int8:256"]

PLANNED = ["--nodes", "2", "--num-layers", "2", "--hidden-size", "64", "--seq-length", "32", "--bf16",
           "--all-gather-algorithm", "two-level"]
CLUSTER = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"

FABRIC = ["--backend", "host", "--fabric-seconds", "5", "--fabric-threshold", "100"]  # calm on a busy machine


class Summarize(zpp.TestCase):
    def launch(self, ranks, program, *words):
        out = self.folder / words[-1]
        self.check_ok(zpp.launch([(ranks, [str(zpp.BIN / program), *words[:-1], "--output", out,
                                           "--json", f"{out}.json"])]).end())
        (trace,) = out.glob("*.h5")
        return trace

    def look(self, *words, code=0):
        done = validate.run("summarize", *words)
        self.assertEqual(done.returncode, code, done)
        return done.stdout.strip("\n").split("\n\n")

    def test_every_program(self):
        self.check_ok(self.train(4, *zpp.ALL_FEATURES, "--eval-interval", "2", out=self.folder / "train"))
        (self.folder / "converge").mkdir()
        traces = {
            "train": (self.folder / "train" / "train.h5", ["3 steps, 0 skipped", "sent between nodes: ",
                                                           "held-out after step 3", "counted: ",
                                                           "secondary_gathers "]),
            "sweep": (self.launch(2, "zpp_sweep", *SWEEP, "sweep"), ["all_gather: ", "0 wrong values"]),
            "fabric": (self.launch(2, "zpp_fabric", *FABRIC, "fabric"), ["intra-node latency: median", "0 faults"]),
            "kernels": (self.launch(1, "zpp_kernels", "--filter", "^copy", "--values", "100000",
                                    "--max-seconds", "0.01", "--cache", "4M", "kernels"),
                        ["ceilings: memcpy "]),
            "converge": (synthetic_converge.write(self.folder / "converge" / "converge.h5", *synthetic_converge.make()),
                         ["text: 4 settings, 24 runs, 6 seeds", "1 of 1 contracts hold", "counted as predicted"])}
        plans = {"plan": ["2 nodes x 8 ranks", "messages", "memory of a rank: "],
                 "plan search": ["possible", "that no other beats"],
                 "plan time": ["step on ", "bound by "], "plan breakeven": ["qwZ pays ", "all pays "],
                 "plan compare": ["all: ", "times fewer bytes out of a node"]}
        for name, parts in plans.items():
            words = [*PLANNED, *(["--cluster", CLUSTER] if name in ("plan time", "plan breakeven") else [])]
            command = ["zpp_plan", *name.split()[1:], *words]
            traces[name] = (self.launch(1, *command, name.replace(" ", "-")), parts)
        self.assertEqual(set(traces), set(trace_format.COLUMNS_OF))
        self.assertEqual(set(traces), set(check_trace.CHECKERS))
        found = self.look(*(path for path, _ in traces.values()), "--plot", self.folder / "pictures")
        self.assertEqual(len(found), len(traces))
        for text, (app, (path, parts)) in zip(found, traces.items()):
            with self.subTest(app):
                self.assertTrue(text.startswith(f"{path}\nzpp_{app} ") and text.endswith("\nVALID"), text)
                for part in parts:
                    self.assertIn(part, text)
        pictures = {path.name for path in (self.folder / "pictures").iterdir()}
        self.assertEqual(pictures, {f"{path.parent.name}-{path.stem}{suffix}" for path, _ in traces.values()
                                    for suffix in (".png", ".svg")})
        for name in ("sweep", "kernels"):
            self.check_times(traces[name][0], self.folder / f"{name}.json")
        self.check_spoiled(traces["train"][0], traces["sweep"][0])

    def check_times(self, trace, json_file):
        """What `compare` reads of a trace is what it reads of the JSON."""
        ours, theirs = (measurement.read_file(path, 1) for path in (trace, json_file))
        self.assertEqual(list(ours.rows), list(theirs.rows))
        for key, row in ours.rows.items():
            other = theirs.rows[key]
            self.assertEqual((len(row.samples), row.wire_bytes), (len(other.samples), other.wire_bytes), key)
            for a, b in zip(row.samples, other.samples):
                self.assertAlmostEqual(a / b, 1, places=6, msg=str(key))

    def check_spoiled(self, train, sweep):
        """The files of this test, changed: the first two are INVALID, and the third is looked at."""
        copies = [pathlib.Path(shutil.copyfile(train, self.folder / f"{name}.h5")) for name in ("unit", "column")]
        with h5py.File(copies[0], "r+") as file:
            file["steps/time"].attrs["units"] = "ms"
        with h5py.File(copies[1], "r+") as file:
            del file["steps/bytes_predicted_inter_node"]
        empty = self.folder / "empty.h5"
        empty.touch()
        unit, column, none, good = self.look(*copies, empty, sweep, code=1)
        self.assertIn("INVALID: /steps/time is in 'ms', should be in 's'", unit)
        self.assertIn("INVALID: no column /steps/bytes_predicted_inter_node", column)
        self.assertIn("INVALID: cannot be read", none)
        self.assertTrue(good.endswith("\nVALID"), good)

    def test_two_of_one_name(self):
        traces = [self.folder / name / "x" / "train.h5" for name in ("a", "b")]
        for path in traces:
            path.parent.mkdir(parents=True)
            path.touch()
        done = validate.run("summarize", *traces, "--plot", self.folder / "pictures")
        self.assertEqual(done.returncode, zpp.USAGE, done)
        self.assertIn("two TRACEs have the same folder and name", done.stderr)


if __name__ == "__main__":
    zpp.main()
