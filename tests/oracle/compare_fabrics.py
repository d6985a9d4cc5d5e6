# ctest: name=compare_fabrics timeout=120 labels=oracle
"""zpp-validate compare on two surveys of zpp_fabric that are made here: it names the links and the classes that became
slower, is silent where nothing changed, and refuses with a remedy what cannot be compared."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import synthetic_fabric

SOURCE = Path(os.environ["ZEROPP_SOURCE"])


class Fabrics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def written(self, name, document):
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def compare(self, after, *words, code, before=None):
        """(output, the rows of --json that are slower)."""
        a, b = self.written("a.json", before or synthetic_fabric.make(1)), self.written("b.json", after)
        out = self.folder / "compared.json"
        out.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, SOURCE / "validation" / "zpp-validate", "compare", a, b,
                               "--json", out, *words],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done)
        self.assertNotIn("Traceback", done.stderr)
        rows = json.loads(out.read_text())["rows"] if out.exists() else []
        return done, {row["row"]: row for row in rows if row["verdict"] == "slower"}

    def test_nothing_changed(self):
        for seed in range(2, 22):
            _, slower = self.compare(synthetic_fabric.make(seed), code=0)
            self.assertEqual(slower, {})

    def test_one_link_in_one_direction(self):
        done, slower = self.compare(synthetic_fabric.make(2, lambda a, b: 1.5 if (a, b) == (1, 6) else 1.0), code=1)
        self.assertEqual(list(slower), ["inter-node transfer"])
        self.assertEqual(len(slower["inter-node transfer"]["notes"]), 1)
        self.assertIn("slower: inter-node 1 -> 6: transfer was", done.stdout)
        self.assertIn("1 of 32 links are slower", done.stderr)

    def test_the_cable_between_two_nodes(self):
        done, slower = self.compare(synthetic_fabric.make(2, lambda a, b: 1.4 if a // 4 != b // 4 else 1.0), code=1)
        self.assertEqual(list(slower), ["inter-node transfer"])
        self.assertAlmostEqual(slower["inter-node transfer"]["ratio"], 1.4, delta=0.02)
        self.assertIn("inter-node transfer: the class is slower, 1.4", done.stderr)

    def test_a_threshold_of_the_user(self):
        planted = synthetic_fabric.make(2, lambda a, b: 1.15 if (a, b) == (0, 1) else 1.0)
        self.assertEqual(self.compare(planted, code=0)[1], {})
        self.assertEqual(list(self.compare(planted, "--threshold", "0.1", code=1)[1]), ["intra-node transfer"])

    def test_a_link_that_was_not_measured(self):
        after = synthetic_fabric.make(2)
        after["bandwidth"][2][3] = None
        done, _ = self.compare(after, code=1)
        self.assertIn("missing in B: intra-node 2 -> 3 transfer", done.stderr)
        self.compare(after, "--partial", code=0)

    def test_what_cannot_be_compared(self):
        after = synthetic_fabric.make(2)
        done, _ = self.compare(after | {"message_bytes": 4096}, code=2)
        self.assertIn("--fabric-bytes 1048576", done.stderr)
        after["provenance"]["ranks"]["gpu"][0] = "another GPU"
        done, _ = self.compare(after, code=2)
        self.assertIn("--across-machines", done.stderr)
        self.compare(after, "--across-machines", code=0)
        done, _ = self.compare({"schema": "zeropp-fabric"}, code=2)
        self.assertIn("is no whole survey of zpp_fabric: it has no provenance: measure again", done.stderr)
        done, _ = self.compare(synthetic_fabric.make(2) | {"threshold": -1}, code=2)
        self.assertIn("its threshold is -1", done.stderr)
        done, _ = self.compare({"schema": "zeropp-sweep"}, code=2)
        self.assertIn("name two of the same kind", done.stderr)


if __name__ == "__main__":
    unittest.main()
