# ctest: name=compare_fabrics timeout=300 labels=oracle,nightly
"""zpp-validate compare on two surveys of zpp_fabric that are made here: it names the links and the classes that became
slower, is silent where nothing changed, and refuses with a remedy what cannot be compared."""

import json
import math
import tempfile
import unittest
from pathlib import Path

import synthetic_fabric
import validate


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
        done = validate.run("compare", a, b, "--json", out, *words)
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
        self.assertIn("slower: inter-node node0:1 -> node1:2: transfer was", done.stdout)
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

    def test_a_threshold_that_nothing_exceeds(self):
        """The threshold of a survey of a busy machine is useless in a comparison: a link may be twice as slow.
        --threshold sets another."""
        twice = synthetic_fabric.make(2, lambda a, b: 2.2 if (a, b) == (0, 1) else 1.0)
        for before, after in ((100, 0.25), (0.25, 100), (1, 1), (29, 29), (math.inf, 0.25)):
            sides = twice | {"threshold": after}, synthetic_fabric.make(1) | {"threshold": before}
            done, slower = self.compare(sides[0], code=2, before=sides[1])
            self.assertEqual(slower, {})
            self.assertIn(f"was judged with the threshold {max(before, after):g}, ", done.stderr)
            self.assertIn(": give --threshold SHARE, as 0.5 for half as long again", done.stderr)
            _, slower = self.compare(sides[0], "--threshold", "0.5", code=1, before=sides[1])
            self.assertEqual(list(slower), ["intra-node transfer"])
        self.compare(twice | {"threshold": 0.9}, code=1)

    def test_a_class_whose_links_differ(self):
        """The median is far beyond the threshold, and no link is beyond what they differ by: the row says both."""
        factors = iter([2.0, 4.0, 6.0, 9.0, 14.0, 20.0, 30.0, 50.0] * 4)
        after = synthetic_fabric.make(2, lambda a, b: next(factors) if a // 4 == b // 4 and a != b else 1.0)
        done, slower = self.compare(after, code=1)
        self.assertEqual(list(slower), ["intra-node transfer"])
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
        *_, ratio, limit, verdict = next(row for row in rows if row[:2] == ["intra-node", "transfer"])
        self.assertEqual(verdict, "slower: the class")
        ratio = float(ratio)
        self.assertLess(2 * ratio, float(limit))
        self.assertIn("threshold 25.0%; slower links: 0, slower classes: 1\n", done.stdout)
        self.assertIn(f"intra-node transfer: the class is slower, {ratio:.2f} times", done.stderr)

    def test_a_link_that_was_not_measured(self):
        after = synthetic_fabric.make(2)
        after["bandwidth"][2][3] = None
        done, _ = self.compare(after, code=1)
        self.assertIn("missing in B: intra-node node0:2 -> node0:3 transfer", done.stderr)
        self.compare(after, "--partial", code=0)
        done, _ = self.compare(synthetic_fabric.make(3), code=2, before=after)
        self.assertIn("a.json is no baseline: 1 pairs of ranks were not measured: measure again with a longer "
                      "--fabric-seconds, or give --partial", done.stderr)
        self.compare(synthetic_fabric.make(3), "--partial", code=0, before=after)

    def test_hosts_in_another_order(self):
        """The batch system gave the hosts in another order: rank 1 of A is rank 5 of B, and the link is the same."""
        before = synthetic_fabric.make(1, lambda a, b: 3.0 if (a, b) == (1, 6) else 1.0)
        after = synthetic_fabric.make(2, lambda a, b: 3.0 if (a, b) == (5, 2) else 1.0, ("node1", "node0"))
        self.assertEqual(self.compare(after, code=0, before=before)[1], {})
        after = synthetic_fabric.make(2, lambda a, b: 9.0 if (a, b) == (5, 2) else 1.0, ("node1", "node0"))
        done, _ = self.compare(after, code=1, before=before)
        self.assertIn("slower: inter-node node0:1 -> node1:2: transfer was", done.stdout)
        self.assertIn("slower links: 1,", done.stdout)

    def test_a_host_on_one_side(self):
        """Links inside the common host are compared; rails are not, for their ranks are on other hosts."""
        after = synthetic_fabric.make(2, lambda a, b: 1.5 if (a, b) in ((4, 6), (0, 4)) else 1.0, ("node2", "node0"))
        done, slower = self.compare(after, code=1)
        self.assertIn("only in A: host node1\nonly in B: host node2\nrails are not compared", done.stdout)
        self.assertEqual(list(slower), ["intra-node transfer"])
        self.assertIn("slower: intra-node node0:0 -> node0:2: transfer was", done.stdout)
        self.assertIn("slower links: 1,", done.stdout)
        self.assertIn("missing in B: host node1: run it again, or give --partial", done.stderr)
        report = json.loads((self.folder / "compared.json").read_text())
        self.assertEqual((report["only_a"], report["only_b"]), (["host node1"], ["host node2"]))
        self.assertEqual({row["row"].split()[0] for row in report["rows"]}, {"self", "intra-node"})
        same = synthetic_fabric.make(2, hosts=("node2", "node0"))
        self.compare(same, code=1)
        self.compare(same, "--partial", code=0)

    def test_other_hosts(self):
        after = synthetic_fabric.make(2, lambda a, b: 1.5 if (a, b) == (0, 4) else 1.0, ("node8", "node9"))
        done, _ = self.compare(after, code=2)
        self.assertIn("are of other hosts, node0; node1 / node8; node9: measure those of A again, or give "
                      "--across-machines to compare rank by rank\n", done.stderr)
        done, _ = self.compare(after, "--across-machines", code=1)
        self.assertIn("slower: inter-node rank 0 -> rank 4: transfer was", done.stdout)

    def test_what_cannot_be_compared(self):
        after = synthetic_fabric.make(2)
        done, _ = self.compare(after | {"pairs": "all_reduce"}, code=2)
        self.assertIn("measure again with --fabric-pairs exchange", done.stderr)
        done, _ = self.compare(after | {"message_bytes": 4096}, code=2)
        self.assertIn("--fabric-bytes 1048576", done.stderr)
        after["provenance"]["ranks"]["gpu"][0] = "another GPU"
        done, _ = self.compare(after, code=2)
        self.assertIn("node0 has GPU / GPU; another GPU: measure again there, or give --across-machines", done.stderr)
        self.compare(after, "--across-machines", code=0)
        fewer = synthetic_fabric.make(2, hosts=("node0", "node0"))
        done, _ = self.compare(fewer, code=2)
        self.assertIn("are of other ranks or nodes, 4 / 8 ranks on node0: measure again with those of A", done.stderr)
        done, _ = self.compare({"schema": "zeropp-fabric"}, code=2)
        self.assertIn("is no whole survey of zpp_fabric: it has no provenance: measure again", done.stderr)
        done, _ = self.compare(synthetic_fabric.make(2) | {"threshold": -1}, code=2)
        self.assertIn("its threshold is -1", done.stderr)
        done, _ = self.compare({"schema": "zeropp-sweep"}, code=2)
        self.assertIn("name two of the same kind", done.stderr)


if __name__ == "__main__":
    unittest.main()
