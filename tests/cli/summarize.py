# ctest: name=summarize timeout=300 labels=cli processors=2
"""zpp-validate summarize and zpp_plan report read the trace of every program that there is, and say of each what they
must; what is wrong with names, units or completeness is INVALID, and the others are still looked at."""

import pathlib
import shutil
import sys

import h5py

import html_case
import synthetic_converge
import validate
import zpp
from zpp_validate.checkers import check_trace
from zpp_validate.readers import measurement, trace_format
from zpp_validate.reports import html_tables

PATIENCE = 150  # seconds, of a busy machine
SWEEP = ["-b", "1K", "-e", "4K", "-f", "4", "-N", "3", "-n", "1", "--backend", "host", "--codec", "none,int8:256"]
FABRIC = ["--backend", "host", "--fabric-seconds", "5", "--fabric-threshold", "1000"]  # calm on a busy machine
KERNELS = ["--filter", "^copy", "--values", "100000", "--max-seconds", "0.01", "--cache", "4M"]
PLANNED = ["--nodes", "2", "--num-layers", "2", "--hidden-size", "64", "--seq-length", "32", "--bf16",
           "--all-gather-algorithm", "two-level"]
CLUSTER = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"
# By program: what `summarize` has to say, and tables that the page has to have.
SAID = {
    "train": (["3 steps, 0 skipped", "sent between nodes: ", "held-out after step 3", "counted: ",
               "secondary_gathers "],
              ["Where a step goes", "Bytes sent, over all ranks and steps", "Collectives", "Memory of rank 0",
               "Operations a token", "Quantization errors", "Held-out loss", "Time of the host"]),
    "sweep": (["all_gather: ", "0 wrong values"], ["Collectives by size"]),
    "fabric": (["intra-node latency: median", "0 faults"], ["Typical links", "Placement"]),
    "kernels": (["ceilings: memcpy "], ["Ceilings", "Kernels"]),
    "converge": (["text: 4 settings, 24 runs, 6 seeds", "1 of 1 contracts hold", "counted as predicted"],
                 ["Settings, means over seeds", "Contracts", "Quadratic"]),
    "plan": (["2 nodes x 8 ranks", "messages", "memory of a rank: "],
             ["Planned traffic, over all ranks", "Planned collectives of a step", "Planned memory of a rank"]),
    "plan search": (["possible", "that no other beats"], ["Searches", "Configurations that no other beats"]),
    "plan time": (["step on ", "bound by "], ["Planned time of a step"]),
    "plan breakeven": (["qwZ pays ", "all pays "], ["Where each part pays"]),
    "plan compare": (["all: ", "times fewer bytes out of a node"], ["What each part saves", "A step in DeepSpeed"]),
}


class Summarize(zpp.TestCase):
    def launch(self, ranks, program, *words):
        out = self.folder / words[-1]
        self.check_ok(zpp.run(ranks, [zpp.BIN / program, *words[:-1], "--output", out, "--json", f"{out}.json"]))
        (trace,) = out.glob("*.h5")
        return trace

    def look(self, *words, code=0):
        done = validate.run("summarize", *words)
        self.assertEqual(done.returncode, code, done)
        return done.stdout.strip("\n").split("\n\n")

    def report(self, *words, code=zpp.OK, **options):
        done = zpp.Process([zpp.BIN / "zpp_plan", "report", *words], **options).end(PATIENCE)
        self.assertEqual(done.code, code, done)
        return done

    def test_every_program(self):
        self.check_ok(self.train(4, *zpp.ALL_FEATURES, "--eval-interval", "2", "--measure-quantization-error", "1",
                                 out=self.folder / "train"))
        (self.folder / "converge").mkdir()
        traces = {"train": self.folder / "train" / "train.h5",
                  "sweep": self.launch(2, "zpp_sweep", *SWEEP, "sweep"),
                  "fabric": self.launch(2, "zpp_fabric", *FABRIC, "fabric"),
                  "kernels": self.launch(1, "zpp_kernels", *KERNELS, "kernels"),
                  "converge": synthetic_converge.write(self.folder / "converge" / "converge.h5",
                                                       *synthetic_converge.make())}
        for name in (name for name in SAID if name.startswith("plan")):
            words = [*PLANNED, *(["--cluster", CLUSTER] if name in ("plan time", "plan breakeven") else [])]
            traces[name] = self.launch(1, "zpp_plan", *name.split()[1:], *words, name.replace(" ", "-"))
        for table in (SAID, check_trace.CHECKERS, trace_format.COLUMNS_OF, html_tables.TABLES):
            self.assertEqual(set(traces), set(table))
        found = self.look(*traces.values(), "--plot", self.folder / "pictures")
        self.assertEqual(len(found), len(traces))
        for text, (app, path) in zip(found, traces.items()):
            with self.subTest(app):
                self.assertTrue(text.startswith(f"{path}\nzpp_{app} ") and text.endswith("\nVALID"), text)
                for part in SAID[app][0]:
                    self.assertIn(part, text)
        pictures = {path.name for path in (self.folder / "pictures").iterdir()}
        self.assertEqual(pictures, {f"{path.parent.name}-{path.stem}{suffix}" for path in traces.values()
                                    for suffix in (".png", ".svg")})
        self.check_page(traces)
        for name in ("sweep", "kernels"):
            self.check_times(traces[name], self.folder / f"{name}.json")
        self.check_spoiled(traces["train"], traces["sweep"])

    def check_page(self, traces):
        """The HTML report of all traces has the tables of each."""
        done = self.report(*traces.values(), "--output", self.out)
        self.assertEqual((done.stdout, done.stderr), (f"{self.out / 'report.html'}: 10 traces, all VALID\n", ""), done)
        page = html_case.Page((self.out / "report.html").read_text(encoding="utf-8"))
        page.check_images()
        self.assertFalse(any("mathdefault" in image for image in page.images))  # ticks whose mathematics stayed text
        for app, (_, tables) in SAID.items():
            for table in tables:
                self.assertGreater(len(page.tables.get(table, ())), 1, (app, table))

    def check_times(self, trace, json_file):
        """`compare` reads the same values from a trace and from the JSON."""
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

    def test_refusals_of_the_page(self):
        bare = self.folder / "python"
        bare.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
        bare.chmod(0o755)
        for words, code, part, env in (
                (["none.h5", "--output", self.out], zpp.ENVIRONMENT, "ZEROPP_PYTHON",
                 {"ZEROPP_PYTHON": "/none/python3"}),
                (["none.h5", "--output", self.out], zpp.ENVIRONMENT,
                 "has no module jinja2: install jinja2 there (Debian: python3-jinja2), or name another Python",
                 {"ZEROPP_PYTHON": str(bare)}),
                (["--output", self.out], zpp.USAGE, "TRACE", {}), (["none.h5"], zpp.USAGE, "--output", {}),
                (["none.h5", "--output", self.out], zpp.IO, "none.h5 cannot be read: No such file", {}),
                ([self.folder, "--output", self.out], zpp.IO, "cannot be read: Is a directory", {})):
            with self.subTest(words=words, env=env):
                errors = self.report(*words, code=code, env=env).errors("zpp_plan")
                self.assertEqual(len(errors), 1)
                self.assertIn(part, errors[0])
        self.assertFalse(self.out.exists())
        (self.folder / "text.h5").write_text("no trace")
        self.assertIn("not all VALID", self.report(self.folder / "text.h5", "--output", self.out,
                                                   code=zpp.INVALID).stdout)


if __name__ == "__main__":
    zpp.main()
