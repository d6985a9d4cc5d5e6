# ctest: name=sweep_nccl_flags labels=cli timeout=300 processors=2
"""Flags of nccl-tests: docs/operators/sweep.md has a row for each, and what it says is taken or refused is."""

import re

import zpp

PAGE = zpp.SOURCE / "docs" / "operators" / "sweep.md"
# Facts of nccl-tests 2.19.6 (src/common.cu): the long options, and the letter of each.
THEIRS = dict(nthreads="t", ngpus="g", minbytes="b", maxbytes="e", stepbytes="i", stepfactor="f", iters="n",
              agg_iters="m", warmup_iters="w", run_cycles="N", parallel_init="p", check="c", op="o", datatype="d",
              root="r", blocking="z", stream_null="y", timeout="T", cudagraph="G", report_cputime="C",
              report_timestamps="S", output_file="J", average="a", local_register="R", cta_policy="x",
              device_implementation="D", device_cta_count="V", memory="M", unalign="u", per_iter_timing="I",
              per_iter_skip="K")
ROW = re.compile(r"^\| `(-\w)`, `(--\w+)` \| (.*?) \| (.*?) ?\| (.+) \|$", re.MULTILINE)


def values(cell):
    return re.findall(r"`([^`]+)`", cell)


class Flags(zpp.TestCase):
    def sweep(self, *words):
        given = {"-b": "8", "-e": "1M", "-n": "1", "-w": "0", **dict(zip(words[::2], words[1::2]))}
        command = [zpp.BIN / "zpp_sweep", "--collective", "all_reduce", "--algorithm", "native", "--backend", "host",
                   "--output", self.out, *(word for pair in given.items() for word in pair)]
        return zpp.run(2, command, cwd=self.folder)

    def taken(self, *words):
        result = self.sweep(*words)
        self.assertEqual(result.code, zpp.OK, result)
        return result

    def test_every_flag_has_a_row_that_is_true(self):
        rows = {name: (letter, taken, refused) for letter, name, taken, refused, _ in ROW.findall(PAGE.read_text())}
        self.assertEqual({name[2:]: row[0][1:] for name, row in rows.items()}, THEIRS)
        for name, (letter, _, refused) in rows.items():
            for value in values(refused):
                with self.subTest(flag=letter, value=value):
                    result = self.sweep(letter, value)
                    self.check_fails(result, zpp.USAGE, name, program="zpp_sweep")
                    self.assertNotIn("unknown flag", result.stderr)
        for letter, taken, _ in rows.values():
            for value in values(taken):
                with self.subTest(flag=letter, value=value):
                    self.taken(letter, value)
        for name, (_, taken, _) in rows.items():
            if name not in ("--minbytes", "--maxbytes", "--iters", "--warmup_iters"):  # which each call has
                with self.subTest(flag=name):
                    self.taken(name, values(taken)[0])

    def test_warnings(self):
        for words, warning in ((["-M", "1"], "--memory (-M) 1: the memory that NCCL takes"),
                               (["-S", "1"], "--report_timestamps (-S) 1: rows have no timestamps")):
            self.assertIn(warning, self.taken(*words).stderr)


if __name__ == "__main__":
    zpp.main()
