# ctest: name=sweep_table timeout=60 labels=oracle
"""zpp-validate sweep-table on sweeps made here: medians of the samples, the fastest uncompressed row as the baseline,
peers in columns of their own that are no baseline, and refusals."""

import json
import tempfile
import unittest
from pathlib import Path

import synthetic_sweep
import validate

MEBIBYTE = 1 << 20


def of_samples(samples, **names):
    """A sweep of one row a codec: {codec: samples}."""
    document = synthetic_sweep.sweep(sizes=(MEBIBYTE,), codecs=tuple(samples))
    document["results"] = [row for row in document["results"] if row["algorithm"] == "flat"]
    for row in document["results"]:
        times = samples[row["codec"]]
        mean = sum(times) / len(times)
        row["out_of_place"] |= {"samples": times, "time": mean, "bus_bw": 1000 / mean}
    return document | names


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def table(self, *documents, words=(), code=0):
        paths = []
        for index, document in enumerate(documents):
            paths.append(self.folder / f"{index}.json")
            paths[-1].write_text(json.dumps(document))
        done = validate.run("sweep-table", *paths, *words)
        self.assertEqual(done.returncode, code, done)
        return done

    def cells(self, text):
        """{column: cell} of the one row."""
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
                 if line.startswith("|")]
        self.assertEqual(len(lines), 3)
        return dict(zip(lines[0], lines[2]))

    def test_cells(self):
        ours = of_samples({"none": [100.0, 110.0, 180.0], "int8:256": [54.0, 55.0, 56.0]})
        torch = of_samples({"none": [50.0, 50.0, 50.0]}, peer="PyTorch")
        torch["results"][0]["algorithm"] = "native"
        done = self.table(torch, ours, words=["--output", str(self.folder / "table.md")])
        self.assertEqual((self.folder / "table.md").read_text(), done.stdout)
        self.assertIn("## all_gather world bfloat16, 8 ranks on 1 node, out-of-place\n", done.stdout)
        # The bandwidth is that of the median; PyTorch's row, though the fastest, is no baseline of ours.
        self.assertEqual(self.cells(done.stdout), {"size": "1 MiB", "none flat nccl": "110 (9.09)",
                                                   "int8:256 flat nccl": "55 (18.18, 2.00x)",
                                                   "PyTorch none native nccl": "50 (20.00)"})

    def test_depths_are_columns(self):
        plain = of_samples({"none": [100.0], "int8:256": [60.0]})
        deep = of_samples({"none": [90.0], "int8:256": [45.0]})
        deep["config"] = {**deep.get("config", {}), "pipeline_depth": 4}
        cells = self.cells(self.table(plain, deep).stdout)
        self.assertEqual(list(cells), ["size", "none flat nccl", "int8:256 flat nccl", "none flat nccl depth 4",
                                       "int8:256 flat nccl depth 4"])
        self.assertIn("2.00x", cells["int8:256 flat nccl depth 4"])  # beside the fastest of all uncompressed ones

    def test_invalid_is_named(self):
        done = self.table(of_samples({"none": [1.0]}, verdict="INVALID: 3 measurements"), code=1)
        self.assertIn("0.json: INVALID: 3 measurements\n", done.stdout)

    def test_refusals(self):
        plain = of_samples({"none": [1.0, 2.0]})
        emulated = plain | {"provenance": {"emulated": 1}}
        for documents, text in (([plain, plain], "two files have the row all_gather none flat world nccl 1 MiB"),
                                ([plain, emulated], "8 ranks on 1 node / 8 ranks on 1 node, emulated"),
                                ([{"schema": "zeropp-trace"}], "is no sweep: it has no results"),
                                ([plain | {"results": []}], "no time")):
            done = self.table(*documents, code=2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
