# ctest: name=expected_bandwidth timeout=60 labels=oracle
"""zpp-validate expected: the expected time of a row is the closed form written here by hand, for links inside nodes,
between nodes and of the vendor's ring; rows below the latency knee are not judged; a slow row is named; the measured
sweep of two H200 reaches what its cluster file expects, and half as fast it does not."""

import json
import os
import pathlib
import tempfile
import unittest

import validate

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
OKAY, BELOW, USAGE = 0, 1, 2
# Two nodes of two ranks: 100 GB/s inside nodes, two links of 10 GB/s between them, slower for small messages.
CLUSTER = {"node_links": {"latency_us": 10.0, "gb_per_s": 100.0},
           "rails": {"links_per_node": 2, "ring_gb_per_s": 15.0,
                     "lanes": [{"lanes": 1, "latency_us": 20.0, "gb_per_s": 10.0,
                                "sizes": [{"mib": 4.0, "gb_per_s": 5.0}, {"mib": 64.0, "gb_per_s": 9.0}]},
                               {"lanes": 4, "latency_us": 40.0, "gb_per_s": 8.0}]}}
MIB = 2**20


def row(algorithm, intra, inter, time, **changed):
    """A row of zpp_sweep; bytes are sums over ranks, `time` in us."""
    measured = {"time": time, "bus_bw": 3.0, "wire_bytes_intra": intra, "wire_bytes_inter": inter}
    return {"collective": "all_gather", "codec": "none", "algorithm": algorithm, "group": "world", "transport": "nccl",
            "size": intra + inter, "type": "float", "redop": "none", "root": -1, "out_of_place": measured} | changed


class Expected(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def written(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def judged(self, rows, *words, code=OKAY, lanes=1, cluster=CLUSTER, **changed):
        """(result, cells of each row)"""
        sweep = {"schema": "zeropp-sweep", "provenance": {"world_size": 4, "node_count": 2},
                 "config": {"rail_lanes": lanes}, "results": rows} | changed
        done = validate.run("expected", self.written("sweep.json", sweep), "--cluster",
                            self.written("cluster.json", cluster), *words)
        self.assertEqual(done.returncode, code, done)
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if "| " in line]
        return done, lines[2:]

    def test_expected_times(self):
        inside, across = 400 * MIB, 512 * MIB
        cases = [
            (row("direct", inside, 0, 1.0), 1, 10 + inside / 4 / 100e3),
            # 128 MiB from each rank: beyond the largest size of the row of one lane.
            (row("two-level", 0, across, 1.0), 1, 20 + across / 2 / (2 * 10e3)),
            (row("two-level", inside, across, 1.0), 1, 20 + across / 2 / (2 * 10e3)),
            (row("two-level", 100 * across, across, 1.0), 1, 20 + 100 * across / 4 / 100e3),
            (row("native", inside, across, 1.0), 1, 20 + across / 2 / 15e3),
            (row("two-level", 0, across, 1.0), 4, 40 + across / 2 / (2 * 8e3)),
            # 16 MiB from each rank: half way between 4 and 64 in logarithms.
            (row("two-level", 0, 64 * MIB, 1.0), 1, 20 + 32 * MIB / (2 * 7e3)),
            (row("two-level", 0, 12 * MIB, 1.0), 1, 20 + 6 * MIB / (2 * 5e3)),
        ]
        for measured, lanes, expected in cases:
            with self.subTest(measured=measured, lanes=lanes):
                measured["out_of_place"]["time"] = 1.25 * expected
                _, [cells] = self.judged([measured], lanes=lanes)
                self.assertEqual(cells[2:], ["3.00", "3.75", "0.80", "ok"])

    def test_rows_below_the_knee_are_not_judged(self):
        knee = 4 * 10 * 100_000  # bytes whose transfers take the latency of 10 us
        rows = [row("direct", knee - 4, 0, 1e6), row("direct", knee, 0, 1e6)]
        done, cells = self.judged(rows, code=BELOW)
        self.assertEqual([row[-1] for row in cells], ["latency", "below"])
        self.assertIn("2 rows: 0 at 0.5 of the expected bandwidth or more, 1 below, 1 below the latency knee",
                      done.stdout)
        self.assertIn("below 0.5 of what the links allow: all_gather none direct world nccl", done.stderr)
        done, _ = self.judged(rows[:1], code=USAGE)
        self.assertIn("has no row to judge, without a codec and above the latency knee of", done.stderr)

    def test_least(self):
        measured = row("direct", 400 * MIB, 0, (10 + 100 * MIB / 100e3) / 0.6)
        self.judged([measured])
        self.judged([measured], "--least", "0.59")
        self.judged([measured], "--least", "0.61", code=BELOW)

    def test_rows_that_are_left_out(self):
        good = row("direct", 400 * MIB, 0, 1100.0)
        others = [row("direct", 400 * MIB, 0, 1e9, codec="int8:256"), row("direct", 400 * MIB, 0, 1e9, group="node"),
                  row("direct", 400 * MIB, 0, 1e9, collective="broadcast"), row("direct", 0, 0, 1e9)]
        _, cells = self.judged([good, *others])
        self.assertEqual(len(cells), 1)

    def test_refusals(self):
        good = [row("direct", 400 * MIB, 0, 1100.0)]
        done, _ = self.judged(good, code=USAGE, cluster={"rails": CLUSTER["rails"]})
        self.assertIn("cluster.json is no cluster file: it has no node_links", done.stderr)
        done, _ = self.judged(good, code=USAGE, schema="nccl-tests")
        self.assertIn("sweep.json is no sweep with counted bytes", done.stderr)

    def test_two_h200(self):
        path = SOURCE / "results" / "2x-NVIDIA-H200" / "collectives" / "one-chunk.json"
        cluster = SOURCE / "inputs" / "clusters" / "h200-4x-node.json"
        done = validate.run("expected", path, "--cluster", cluster)
        self.assertEqual(done.returncode, OKAY, done)
        self.assertRegex(done.stdout, r"\d+ rows: [1-9]\d+ at 0.5 of the expected bandwidth or more, 0 below, [1-9]")
        slower = json.loads(path.read_text())
        for result in slower["results"]:
            result["out_of_place"]["time"] *= 2.5
        done = validate.run("expected", self.written("slower.json", slower), "--cluster", cluster)
        self.assertEqual(done.returncode, BELOW, done)
        self.assertNotIn("in-place", done.stderr.replace("out-of-place", ""))


if __name__ == "__main__":
    unittest.main()
