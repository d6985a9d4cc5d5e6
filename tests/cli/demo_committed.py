# ctest: name=demo_committed timeout=240 processors=2 labels=nightly
"""The table of the demo in results/host-2core/demo: a short run of each configuration that ./demo trains has the
algorithms, bytes and ratios of its row."""

import re
import shlex

import zpp

# Columns that neither the number of steps nor the text changes.
COMPARED = ("configuration", "weights", "gradients", "bytes/step", "predicted", "vs flat", "vs two-level")


def rows(table):
    """Per row of a Markdown table, its cells by column."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
             if line.startswith("|")]
    return [dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]]


class Demo(zpp.TestCase):
    def trainings(self):
        """Name and flags of each run of the script."""
        script = (zpp.SOURCE / "demo").read_text().replace("\\\n", " ")
        return [line.split(maxsplit=2)[1:] for line in re.findall(r'^  "\$1" \w+ .*$', script, re.MULTILINE)]

    def test_a_short_demo_has_the_committed_bytes(self):
        text = self.folder / "text.txt"
        text.write_bytes(bytes(range(256)) * 1000)  # one token for each byte, as in any text
        traces = []
        for name, flags in self.trainings():
            output = self.folder / name
            self.check_ok(zpp.launch([(4, [zpp.TRAIN, "--config", zpp.SOURCE / "inputs" / "demo.json",
                                           "--data-source", "text",
                                     "--data-path", text, "--train-iters", "3", "--eval-interval", "3",
                                     "--eval-iters", "1", "--output", output, *shlex.split(flags)])]).end())
            traces.append(output / "train.h5")
        self.assertEqual(len(traces), 5)
        done = zpp.Process([*zpp.VALIDATE, "report", "--output", self.folder, *traces]).end()
        self.assertEqual(done.code, 0, done)
        ours, committed = (rows(path.read_text()) for path in
                           (self.folder / "table.md", zpp.SOURCE / "results" / "host-2core" / "demo" / "table.md"))
        self.assertEqual(list(ours[0]), list(committed[0])[:len(ours[0])],
                         "run ./demo and commit its table.md and demo.png")
        self.assertEqual(list(committed[0])[len(ours[0]):], ["ms at 1 Gb/s", "speed-up"],
                         "run ./demo as root, with iproute2")
        self.assertEqual([{name: row[name] for name in COMPARED} for row in committed],
                         [{name: row[name] for name in COMPARED} for row in ours])
        self.assertEqual(committed[0]["vs flat"], "1.00x")  # the baseline is a run too


if __name__ == "__main__":
    zpp.main()
