# ctest: name=html_report timeout=240 labels=oracle,nightly
"""zpp-validate html on traces made here: the page is well-formed, needs nothing else, takes no text for markup, and has
the traces' numbers and verdicts."""

import json
import pathlib
import statistics
import tempfile
import unittest

import html_case
import synthetic_trace
import validate
from zpp_validate.readers.trace_file import Trace


def call(*words):
    """(exit code, what it printed, also as errors)."""
    done = validate.run("html", *words)
    return done.returncode, done.stdout + done.stderr


class HtmlReport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.valid, cls.invalid = html_case.planted(cls.folder)
        (cls.folder / "none.h5").write_text("no trace")
        cls.code, cls.printed = call(*cls.valid, cls.invalid, cls.folder / "none.h5", "--output", cls.folder / "all",
                                     "--title", html_case.SCRIPT)
        cls.source = (cls.folder / "all" / "report.html").read_text(encoding="utf-8")
        cls.page = html_case.Page(cls.source)

    def test_verdicts(self):
        self.assertEqual(self.code, 1, self.printed)
        verdicts = [row[1] for row in self.page.tables[""][1:]]
        self.assertEqual(verdicts, ["VALID"] * 3 + ["INVALID"] * 2)
        self.assertIn("5 traces, 2 INVALID", self.page.text)
        for reason in (f"{html_case.SCRIPT} none world: did not run with this configuration", "cannot be read"):
            self.assertTrue(reason in self.page.text, reason)

    def test_planted_markup_is_text(self):
        for text in (html_case.SCRIPT, html_case.BREAKOUT, "a<b>&\"'$x/train"):
            self.assertTrue(text in self.page.text, text)
        self.page.check_images()
        self.assertEqual(len(self.page.images), 5)  # of each trace that can be read, and of both runs together
        for forbidden in ("<script", "http:", "https:", "@import", "url("):
            self.assertFalse(forbidden in self.source.lower(), forbidden)

    def test_reader_finds_what_it_must(self):
        for bad in ("<p><b>x</p>", "<p>", "<script>x</script>", "<a href='http://x'>x</a>", "<p onclick='x'>x</p>",
                    "<a href='#x'>x</a>",
                    "<img src='x.png'>", "<p id='a'>x</p><p id='a'>x</p>", "<!-- x -->"):
            with self.subTest(bad), self.assertRaises(AssertionError):
                html_case.Page(bad)

    def test_what_no_reader_sees_is_replaced(self):
        code, _ = call(self.valid[0], "--output", self.folder / "bare", "--title", "<&>\"'\x01\u202eend")
        self.assertEqual(code, 0)
        source = (self.folder / "bare" / "report.html").read_text(encoding="utf-8")
        self.assertIn("<h1>&lt;&amp;&gt;&#34;&#39;\ufffd\ufffdend</h1>", source)

    def test_numbers(self):
        code, _ = call(self.valid[1], "--output", self.folder / "one")
        self.assertEqual(code, 0)
        tables = html_case.Page((self.folder / "one" / "report.html").read_text(encoding="utf-8")).tables
        trace = Trace(self.valid[1])
        number = lambda text: int(text.replace("\u2009", ""))
        for row, link in zip(tables["Bytes sent, over all ranks and steps"][1:], ("intra", "inter"), strict=True):
            self.assertEqual((number(row[1]), row[3]), (sum(trace.columns["steps"][f"bytes_{link}_node"]), "equal"))
        rows = trace.rows("collectives")
        self.assertEqual([(row[4], number(row[8]), number(row[9])) for row in tables["Collectives"][1:]],
                         [(row["codec"], row["wire_bytes_intra"], row["wire_bytes_inter"]) for row in rows])
        for shown, row in zip(tables["Collectives"][1:], rows):
            sent = row["wire_bytes_intra"] + row["wire_bytes_inter"]
            rates = [amount / trace.attributes["world_size"] / row["seconds"] / 1e9
                     for amount in (row["logical_bytes"], sent)]
            self.assertEqual([float(cell) for cell in shown[-2:]], [float(f"{rate:.5g}") for rate in rates])
        memory = {row[0]: number(row[2]) for row in tables["Memory of rank 0"][1:]}
        self.assertEqual(memory, {row["name"]: row["bytes_actual"] for row in trace.rows("memory")})
        times = [row["time"] for row in trace.rows("steps") if not row["skipped"]]
        self.assertIn(["time, s", *(f"{of(times):.5g}" for of in (statistics.median, min, max))],
                      tables["Where a step goes"])
        self.assertEqual(tables["Held-out loss"][0], ["step", "loss, nats per token", "bits per byte",
                                                      "batches, micro-batches"])
        self.assertIn("Quantization errors", tables)
        provenance = dict(tables["Provenance"][1:])
        self.assertEqual(provenance["configuration hash"], trace.attributes["config_hash"])
        self.assertEqual(provenance["command line"], trace.attributes["command_line"])

    def test_loss_of_ids(self):
        """Which are no bytes."""
        attributes, groups = synthetic_trace.make({})
        groups["evaluations"]["bits_per_byte"] = [float("nan") for _ in groups["evaluations"]["loss"]]
        synthetic_trace.configure(attributes, json.loads(attributes["config_json"].replace('"text"', '"megatron"')))
        synthetic_trace.write(self.folder / "ids.h5", attributes, groups)
        self.assertEqual(call(self.folder / "ids.h5", "--output", self.folder / "ids")[0], 0)
        rows = html_case.Page((self.folder / "ids" / "report.html").read_text(encoding="utf-8")).tables["Held-out loss"]
        self.assertEqual([row[1:3] for row in rows[1:]], [["1", "-"]] * len(groups["evaluations"]["loss"]))

    def test_differences_of_configuration(self):
        rows = {row[0]: row[1:] for row in self.page.tables["zpp_train"][1:]}
        self.assertEqual(rows["zero_optimization.zero_quantized_weights"], ["false", "true", "false"])
        self.assertEqual(rows["zeropp.note"][1], f"a<b>&\"'$x {html_case.SCRIPT}")
        self.assertNotIn("optimizer.type", rows)

    def test_same_traces_same_page(self):
        self.assertEqual(call(*self.valid, self.invalid, self.folder / "none.h5", "--output", self.folder / "again",
                              "--title", html_case.SCRIPT)[0], 1)
        self.assertEqual((self.folder / "again" / "report.html").read_text(encoding="utf-8"), self.source)

    def test_refusals(self):
        self.assertEqual(call("--output", self.folder)[0], 2)
        code, printed = call(self.valid[0], "--output", self.valid[0] / "x")
        self.assertEqual((code, len(printed.splitlines())), (5, 1), printed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
