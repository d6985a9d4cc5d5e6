# ctest: name=plan_calibrate timeout=120 labels=cli processors=2
"""zpp_plan calibrate takes the same rates from the trace of a measurement as from its JSON, and refuses files that are
no measurement."""

import json

import h5py

import planned
import zpp

BASE = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"
KERNELS = [zpp.BIN / "zpp_kernels", "--filter", "^(linear|attention)", "--shape", "1x32x64x2", "--vocab", "300",
           "--samples", "3", "--cache", "4M"]
# Sizes so far apart that times grow with them on a machine that does other things too.
SWEEP = [zpp.BIN / "zpp_sweep", "--collective", "all_gather", "--algorithm", "native", "--codec", "none", "-b", "8M",
         "-e", "128M", "-f", "4", "-N", "3", "-n", "1", "--backend", "host"]


class Calibrate(zpp.TestCase):
    def measure(self, ranks, words, name):
        """(trace, JSON)"""
        path = self.folder / f"{name}.json"
        self.check_ok(zpp.run(ranks, [*words, "--output", self.folder / name, "--json", path]))
        (trace,) = (self.folder / name).glob("*.h5")
        return trace, path

    def calibrated(self, *files):
        made = self.folder / "made.json"
        self.check_ok(zpp.Process([planned.PLAN, "calibrate", *files, "--cluster", BASE, "--calibrated", made]).end())
        cluster = json.loads(made.read_text())
        self.assertEqual(cluster.pop("source"), "; ".join(map(str, files)))
        return cluster

    def assert_close(self, one, other):
        self.assertEqual(type(one), type(other))
        if isinstance(one, dict):
            self.assertEqual(one.keys(), other.keys())
        if isinstance(one, (dict, list)):
            self.assertEqual(len(one), len(other))
            for key in one if isinstance(one, dict) else range(len(one)):
                self.assert_close(one[key], other[key])
        elif isinstance(one, float):
            self.assertAlmostEqual(one, other, delta=1e-9 * abs(one))
        else:
            self.assertEqual(one, other)

    def test_traces_tell_what_json_tells(self):
        kernels, sweep = self.measure(1, KERNELS, "kernels"), self.measure(2, SWEEP, "sweep")
        from_traces, from_json = self.calibrated(kernels[0], sweep[0]), self.calibrated(kernels[1], sweep[1])
        self.assert_close(from_traces, from_json)
        base = json.loads(BASE.read_text())
        for group in ("gpu", "node_links"):
            self.assertNotEqual(from_traces[group], base[group])
        self.assertEqual(from_traces["rails"], base["rails"])
        shapes = {(row["rows"], row["in"], row["out"]) for row in from_traces["gpu"]["products"]}
        self.assertLessEqual({(32, 64, 192), (32, 64, 300)}, shapes)
        # And times can be told with it.
        made = self.folder / "made.json"
        self.check_ok(zpp.Process([planned.PLAN, "time", "--cluster", made, "--nodes", "2", "--bf16",
                                   "--num-layers", "2"], cwd=self.folder).end())

    def refused(self, file, *parts, code=zpp.USAGE):
        result = zpp.Process([planned.PLAN, "calibrate", file, "--cluster", BASE,
                              "--calibrated", self.folder / "made.json"]).end()
        self.assertEqual(result.code, code, result)
        (line,) = result.errors("zpp_plan")
        for part in parts:
            self.assertIn(part, line)
        self.assertFalse((self.folder / "made.json").exists())

    def test_refusals(self):
        self.check_ok(zpp.Process([planned.PLAN, "--num-layers", "2", "--output", self.folder / "planned"]).end())
        self.refused(self.folder / "planned" / "plan.h5", "plan.h5", "zpp_kernels or zpp_sweep")
        bare = self.folder / "bare.h5"
        with h5py.File(bare, "w"):
            pass
        self.refused(bare, "no complete trace")
        whole, _ = self.measure(1, KERNELS, "kernels")
        for name, change in {"incomplete": lambda file: file.attrs.__delitem__("complete"),
                             "no rows": lambda file: file.__delitem__("results"),
                             "a column is missing": lambda file: file["results"].__delitem__("time"),
                             "a matrix": lambda file: self.replaced(file["results"], "time", [[1.0]]),
                             "lengths differ": lambda file: self.replaced(file["results"], "time", [1.0]),
                             "text instead of numbers": lambda file: self.replaced(file["results"], "time",
                                                                                   [b"x"] * len(file["results/time"])),
                             "no rank": lambda file: file.__delitem__("ranks")}.items():
            with self.subTest(name):
                broken = self.folder / "broken.h5"
                broken.write_bytes(whole.read_bytes())
                with h5py.File(broken, "r+") as file:
                    change(file)
                self.refused(broken, "broken.h5")
        cut = self.folder / "cut.h5"
        cut.write_bytes(whole.read_bytes()[:3000])
        self.refused(cut, "cut.h5", code=zpp.IO)
        self.refused(self.folder / "none.h5", "none.h5", code=zpp.IO)

    @staticmethod
    def replaced(group, name, values):
        del group[name]
        group[name] = values


if __name__ == "__main__":
    zpp.main()
