# ctest: name=results_tables timeout=300 processors=2 labels=cli,nightly
"""Every table in results/ is what its command makes of the raw data beside it: a line `TABLE: COMMAND` of zpp-validate
in a tables.txt, where the tables of equal names are joined. Tables that no command can make again are in KEPT, with the
reason. Step times in pages are those of the tables. Every question has a page, the pages' links lead somewhere, and
names say what is there, not when."""

import csv
import pathlib
import re
import subprocess
import tempfile
import unittest
import unittest.mock

import h5py
import validate
import zpp

from zpp_validate.convergence import converge_table, judged

RESULTS = zpp.SOURCE / "results"
TRACKED = subprocess.run(["git", "-c", f"safe.directory={zpp.SOURCE}", "ls-files", "-z"], cwd=RESULTS, check=True,
                         capture_output=True, text=True)
FILES = [pathlib.Path(name) for name in sorted(TRACKED.stdout.split("\0")) if name and (RESULTS / name).is_file()]
KEPT = {
    "planner/table.md": "the test planner compares it",
    "host-2core/demo/table.md": "of a run of minutes on one machine; the test demo_committed compares what does not "
    "depend on times",
    "host-2core/collectives/crossings.md": "of a sweep whose samples are not kept",
    "host-2core/guide-claims/table.md": "of a study whose traces are not kept",
    "host-2core/offload-to-files/table.md": "of a study whose traces are not kept",
    "host-2core/zero-limits/table.md": "of a study whose traces are not kept",
    "4x-NVIDIA-H200/text-differences/pytorch-27m/table.md": "of traces in an archive",
    "4x-NVIDIA-H200/text-differences/pytorch-124m/table.md": "of traces in an archive",
    "4x-NVIDIA-H200/kernels-of-a-step/1.64b-node-none.md": "of recorded kernels, which are not kept",
    "4x-NVIDIA-H200/kernels-of-a-step/1.64b-emulated-4x4-all.md": "of recorded kernels, which are not kept",
    "4x-NVIDIA-H200/kernels-of-a-step/18.7b-node-none.md": "of recorded kernels, which are not kept",
    "4x-NVIDIA-H200/kernels-of-a-step/18.7b-node-qwz-qgz.md": "of recorded kernels, which are not kept",
}
# Judged matrices, whose traces are not kept: their tables are compared with the judged rows.
JUDGED = ["host-2core/convergence/adaptive", "host-2core/convergence/order", "host-2core/convergence/reduced",
          "8x-NVIDIA-H200/codec-ladder",
          "1x-NVIDIA-H100/text-differences", "1x-NVIDIA-H200/text-moments/judged",
          *(f"4x-NVIDIA-H200/weight-differences/{name}" for name in ("all", "core")),
          *(f"4x-NVIDIA-H200/text-differences/{name}" for name in ("all", "core", "gpt2-124m"))]
INTO_FOLDERS = ("plot", "network-table", "break-even")  # their --output is a folder
NOT_A_NAME = re.compile(r"\d{8}T\d{6}Z|(?<![0-9a-z])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}(?![0-9a-z])")
RUN_COLUMNS = r"FSDP2|hybrid|vendor's|ZeRO-3|its own rings|qwZ|hpZ|qgZ|both|all$"
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")


def files(pattern):
    """Those that are kept, of a name."""
    return [RESULTS / path for path in FILES if path.match(pattern)]


def listed():
    """(folder, table, words of a command), in order."""
    for file in files("tables.txt"):
        for line in file.read_text().splitlines():
            table, command = line.split(": ", 1)
            yield file.parent, table, command.split()


@unittest.mock.patch("matplotlib.figure.Figure.savefig")
def made(job, _):
    """The text of the table that a command makes, or what it said. Pictures, which take most of the time, are not
    drawn."""
    folder, _, words = job
    with tempfile.TemporaryDirectory() as place:
        output = pathlib.Path(place) / "made"
        program = ["--program", zpp.BIN / "zpp_plan"] if words[0] == "break-even" else []
        done = validate.run(*words, *program, "--output", output, cwd=folder)
        if words[0] in INTO_FOLDERS:
            (output,) = output.glob("*.md") if output.is_dir() else (output,)
        return output.read_text() if output.is_file() else f"{words}: exit code {done.returncode}: {done.stderr}"


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


class Tables(unittest.TestCase):
    def test_tables_are_those_of_their_raw_data(self):
        jobs = list(listed())
        texts = {}
        for (folder, table, _), text in zip(jobs, map(made, jobs)):
            texts[folder / table] = texts.get(folder / table, "") + text
        self.assertGreater(len(texts), 40)
        for path, text in texts.items():
            with self.subTest(path.relative_to(RESULTS)):
                self.assertEqual(path.read_text(), text, "make it again: tables.txt has the command")

    def test_every_table_is_listed_or_has_a_reason(self):
        tables = {path.relative_to(RESULTS).as_posix() for path in files("*.md") if path.name != "README.md"}
        judged = {f"{folder}/{name}.md" for folder in JUDGED for name in ("table", "chapter")}
        known = {(folder / table).relative_to(RESULTS).as_posix() for folder, table, _ in listed()}
        self.assertEqual(tables, known | judged | set(KEPT))
        self.assertEqual(known & (judged | set(KEPT)), set())

    def test_judged_tables_have_the_judged_rows(self):
        for folder in JUDGED:
            rows = [cells(line) for line in (RESULTS / folder / "table.md").read_text().splitlines()
                    if line.startswith("|")]
            with h5py.File(RESULTS / folder / "judged.h5") as file:
                columns = {name: column[:] for name, column in file["judged"].items()}
                claims = {name: column[:] for name, column in file["ladder"].items()}
            self.assertGreaterEqual(len(columns["setting"]), 2)
            for index, setting in enumerate(columns["setting"]):
                value = {name: column[index] for name, column in columns.items()}
                with self.subTest(folder=folder, setting=setting, level=value["level"]):
                    expected = [setting.decode(), f"{value['bits']:.2f}", f"{value['loss']:.4f}",
                                converge_table.number(value["difference"]),
                                converge_table.interval_text((value["low"], value["high"])),
                                converge_table.p_text(value["p_differs"]),
                                converge_table.p_text(value["p_equivalent"]), judged.shown(value["verdict"].decode())]
                    self.assertIn(expected, [[row[place] for place in (0, 1, 2, 5, 6, 7, 8, 11)] for row in rows
                                             if len(row) == 12])
            for index, claim in enumerate(claims["claim"]):
                with self.subTest(folder=folder, claim=claim):
                    expected = [claim.decode(), converge_table.number(claims["difference"][index]),
                                converge_table.interval_text((claims["low"][index], claims["high"][index])),
                                converge_table.p_text(claims["p"][index]), claims["verdict"][index].decode()]
                    self.assertIn(expected, rows)

    def test_step_times_of_pages_are_those_of_their_tables(self):
        """In pages of training: a number below the name of a run is the median of a step in a table there, as it is
        rounded."""
        compared = 0
        for page in [*files("beside-fsdp2/README.md"), *files("emulated-nodes/README.md")]:
            medians = [float(line.split("|")[2].replace(",", "")) for table in page.parent.rglob("table.md")
                       for line in table.read_text().splitlines()
                       if re.match(r"\| \S+ +\| +[\d,.]+ \|", line)]
            for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
                head, _, *rows = map(cells, table.splitlines())
                for row in rows if "ZeRO-3" in head else []:
                    for name, cell in zip(head, row):
                        for number in re.findall(r"\d+(?:\.\d+)?",
                                                 re.sub(r"\(.*?\)", "", cell)) if re.match(RUN_COLUMNS, name) else []:
                            compared += 1
                            with self.subTest(page=page.relative_to(RESULTS), column=name, number=number):
                                self.assertIn(number,
                                              [f"{median:.{len(number.partition('.')[2])}f}" for median in medians])
        self.assertGreater(compared, 80)

    def test_every_run_that_is_listed_is_there(self):
        """With the JSON that it wrote, or the log of what it said in its place."""
        for file in files("runs.tsv"):
            for row in csv.DictReader(file.read_text().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
                beside = file.parent / "runs" / row["stem"]
                with self.subTest(beside.relative_to(RESULTS)):
                    self.assertTrue(any(beside.with_name(beside.name + ending).exists()
                                        for ending in (".json", ".log")))


class Pages(unittest.TestCase):
    def test_every_question_has_a_page_that_the_index_names(self):
        index = (RESULTS / "README.md").read_text()
        questions = {"/".join(path.parts[:2]) for path in FILES if len(path.parts) > 2}
        self.assertGreater(len(questions), 30)
        for question in sorted(questions | {"planner"}):
            with self.subTest(question):
                self.assertIn(f"({question}/README.md)", index)
                lines = [line for line in (RESULTS / question / "README.md").read_text().splitlines() if line]
                self.assertTrue(lines[0].startswith("# ") and lines[0].endswith("?"), lines[0])
                self.assertRegex(lines[1], r"^(`|[A-Z0-9])", "the answer comes first")

    def test_links_lead_somewhere(self):
        for page in files("*.md"):
            for target in LINK.findall(page.read_text()):
                with self.subTest(page=page.relative_to(RESULTS), target=target):
                    self.assertTrue((page.parent / target).exists())

    def test_pages_are_120_columns_wide(self):
        for page in files("README.md"):
            for number, line in enumerate(page.read_text().splitlines(), 1):
                with self.subTest(page=page.relative_to(RESULTS), line=number):
                    self.assertTrue(len(line) <= 120 or line.startswith("|") or " " not in line.strip())

    def test_names_say_what_not_when(self):
        self.assertTrue(NOT_A_NAME.search("sweep-f5de46e") and NOT_A_NAME.search("20261121T212042Z.md")
                        and not NOT_A_NAME.search("decoded"))
        for path in FILES:
            with self.subTest(path):
                self.assertIsNone(NOT_A_NAME.search(str(path)))


if __name__ == "__main__":
    zpp.main()
