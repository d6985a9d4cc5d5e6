# ctest: name=plan_plot timeout=240 labels=cli,nightly
"""zpp-validate plan-plot on files of zpp_plan estimate and time: it draws the numbers of the files, with a line for
each configuration; every picture is there, and other files are refused."""

import json
import pathlib

import validate
import zpp
from zpp_validate.plots import plan_plot

SHAPE = ["--model", "gpt", "--num-layers", "4", "--hidden-size", "256", "--num-attention-heads", "4",
         "--seq-length", "128", "--bf16"]
ZEROPP = ["--zero-quantized-weights", "--zero-quantized-gradients", "--zero-hpz-partition-size", "8"]
CLUSTER = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"


class PlanPlot(zpp.TestCase):
    def plan(self, name, command, *words):
        path = self.folder / f"{name}.json"
        self.check_ok(zpp.Process([zpp.BIN / "zpp_plan", command, *SHAPE, *words, "--json", path,
                                   "--output", self.folder / "plan"]).end())
        return path

    def call(self, *words):
        done = validate.run("plan-plot", *words)
        return done.returncode, done.stdout + done.stderr

    def test_estimates_and_a_timeline(self):
        files = [self.plan(f"{name}3-{nodes}", "estimate", "--nodes", nodes, *flags)
                 for name, flags in (("zero", []), ("zeropp", ZEROPP)) for nodes in (2, 16)]
        files.append(self.plan("step", "time", "--nodes", 4, *ZEROPP, "--cluster", CLUSTER))
        code, printed = self.call(*files, "--output", self.out)
        self.assertEqual((code, printed.split()),
                         (0, [str(self.out / f"{name}.png") for name in ("memory", "scaling", "step-timeline")]))
        for name in printed.split():
            self.assertEqual(pathlib.Path(name).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            self.assertIn("<svg", pathlib.Path(name).with_suffix(".svg").read_text())

        plans = {path.stem: json.loads(path.read_text()) for path in files}
        step = plans.pop("step")
        lines = plan_plot.lines_of(plans)
        self.assertEqual(list(lines), ["zero3", "zeropp3"])
        for name, points in lines.items():
            for (nodes, sent), wanted in zip(points, (2, 16), strict=True):
                collectives = plans[f"{name}-{nodes}"]["collectives"]
                self.assertEqual((nodes, sent * nodes), (wanted, sum(collectives["wire_bytes_inter"])))
        for plan in plans.values():
            self.assertEqual(sum(size for _, size in plan_plot.memory_of(plan)), plan["job"]["memory_bytes"])
        lanes = plan_plot.lanes_of(step)
        self.assertEqual(sum(map(len, lanes.values())), len(step["timeline"]["end"]))
        end = max(begin + length for rows in lanes.values() for _, begin, length in rows)
        self.assertAlmostEqual(end, step["time"]["step_seconds"])

    def test_refusals(self):
        other = self.write_json("other.json", {"app": "train"})
        time = self.write_json("time.json", {"app": "plan", "timeline": dict.fromkeys(
            ("stream", "operation", "begin", "end"), []), "time": {"cluster": "c"}})
        for words, code, part in (([other], 2, 'no JSON of zpp_plan estimate or time: its app is "train": '),
                                  ([time], 2, "it has no step_seconds: name what --json wrote"),
                                  ([self.folder / "none.json"], 5, "none.json"),
                                  ([self.plan("a", "estimate"), "--output", other / "x"], 5, "other.json")):
            with self.subTest(part):
                found, printed = self.call(*words, *([] if "--output" in words else ["--output", self.out]))
                self.assertEqual((found, len(printed.splitlines())), (code, 1), printed)
                self.assertIn(part, printed)


if __name__ == "__main__":
    zpp.main()
