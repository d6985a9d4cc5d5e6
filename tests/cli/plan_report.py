# ctest: name=plan_report timeout=240 labels=cli processors=2
"""zpp_plan report on traces of every program: a section each with its tables, all VALID; and what it says where Python,
its modules or the traces are missing."""

import sys

import html_case
import synthetic_converge
import zpp
from zpp_validate.readers import trace_format
from zpp_validate.reports import html_tables

PATIENCE = 150  # seconds, of a busy machine
PLAN = zpp.BIN / "zpp_plan"
# By program: ranks, words, and tables that the page has to have.
RUNS = {
    "sweep": (2, ["zpp_sweep", "-b", "1K", "-e", "4K", "-f", "4", "-N", "3", "-n", "1", "--backend", "host",
                  "--codec", "none,int8:256"],
              ["Collectives by size"]),
    "fabric": (2, ["zpp_fabric", "--backend", "host", "--fabric-seconds", "5", "--fabric-threshold", "100"],
               ["Typical links", "Placement"]),
    "kernels": (1, ["zpp_kernels", "--filter", "^copy", "--values", "100000", "--max-seconds", "0.01", "--cache", "4M"],
                ["Ceilings", "Kernels"]),
}
PLANNED = ["--nodes", "2", "--num-layers", "2", "--hidden-size", "64", "--seq-length", "32", "--bf16",
           "--all-gather-algorithm", "two-level"]
CLUSTER = ["--cluster", zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"]
RUNS |= {
    "plan": (1, ["zpp_plan", *PLANNED], ["Planned traffic, over all ranks", "Planned collectives of a step",
                                         "Planned memory of a rank"]),
    "plan search": (1, ["zpp_plan", "search", *PLANNED], ["Searches", "Configurations that no other beats"]),
    "plan time": (1, ["zpp_plan", "time", *PLANNED, *CLUSTER], ["Planned time of a step"]),
    "plan compare": (1, ["zpp_plan", "compare", *PLANNED], ["What each part saves", "A step in DeepSpeed"]),
    "plan breakeven": (1, ["zpp_plan", "breakeven", *PLANNED, *CLUSTER], ["Where each part pays"]),
}
MADE = {"train": ["Bytes sent, over all ranks and steps", "Collectives", "Memory of rank 0", "Quantization errors",
                  "Held-out loss", "Time of the host"],
        "converge": ["Settings, means over seeds", "Contracts", "Quadratic"]}


class PlanReport(zpp.TestCase):
    def report(self, *words, code=zpp.OK, **options):
        done = zpp.Process([PLAN, "report", *words], **options).end(PATIENCE)
        self.assertEqual(done.code, code, done)
        return done

    def test_every_program(self):
        self.check_ok(self.train(4, *zpp.ALL_FEATURES, "--eval-interval", "2", "--measure-quantization-error", "1",
                                 out=self.folder / "train"))
        (self.folder / "converge").mkdir()
        traces = [self.folder / "train" / "train.h5", synthetic_converge.write(self.folder / "converge" / "converge.h5",
                                                                               *synthetic_converge.make())]
        for name, (ranks, words, _) in RUNS.items():
            out = self.folder / name.replace(" ", "")
            self.check_ok(zpp.launch([(ranks, [str(zpp.BIN / words[0]), *words[1:], "--output", out])]).end())
            traces += out.glob("*.h5")
        self.assertEqual({*RUNS, *MADE}, set(trace_format.COLUMNS_OF))
        self.assertEqual(set(html_tables.TABLES), set(trace_format.COLUMNS_OF))
        done = self.report(*traces, "--output", self.out)
        self.assertEqual((done.stdout, done.stderr), (f"{self.out / 'report.html'}: 10 traces, all VALID\n", ""), done)
        page = html_case.Page((self.out / "report.html").read_text(encoding="utf-8"))
        page.check_images()
        self.assertFalse(any("mathdefault" in image for image in page.images))  # ticks whose mathematics stayed text
        for tables in (*(tables for _, _, tables in RUNS.values()), *MADE.values()):
            for table in tables:
                self.assertGreater(len(page.tables.get(table, ())), 1, table)

    def test_refusals(self):
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
