# ctest: name=results_tables timeout=300 processors=2 labels=cli,nightly
"""results/ holds a page for each question, with its raw data in one archive. The commands at the end of a page print
its tables from that archive, and numbers in the page's tables are among the printed ones. Judged matrices are judged
again from their traces. The index names every page, links lead somewhere, and the whole stays small."""

import csv
import functools
import glob
import io
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import tarfile
import unittest
import unittest.mock

import h5py
import validate
import zpp

from zpp_validate.convergence import converge_table, judged
from zpp_validate.plots import crossings, plot
from zpp_validate.readers import kept_results
from zpp_validate.stats import paired

RESULTS = zpp.SOURCE / "results"
TRACKED = subprocess.run(["git", "-c", f"safe.directory={zpp.SOURCE}", "ls-files", "-z"], cwd=RESULTS, check=True,
                         capture_output=True, text=True)
FILES = [pathlib.Path(name) for name in sorted(TRACKED.stdout.split("\0")) if name and (RESULTS / name).is_file()]
QUESTIONS = sorted({RESULTS / path.parts[0] / path.parts[1] for path in FILES if len(path.parts) > 2})
MOST_FILES, MOST_BYTES = 150, 6_000_000
BLOCK = re.compile(r"^```\nmkdir -p raw && cd raw && tar xf \.\./raw\.tar\.xz\n((?:.|\n)*?)^```$", re.MULTILINE)
LOOP = re.compile(r"for (\w+) in (.*); do (.*); done")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?(?!\w|,\d)")
RATIO = re.compile(r"\d\.\d\d")
NOT_MEASURED = ("aim", "folder", "study", "matrix", "shape", "both, worked out", "of memcpy")  # heads of columns
WARM_UPS = (3, 4, 5)  # steps that are not timed, of runs without a runs.tsv
NOT_A_NAME = re.compile(r"\d{8}T\d{6}Z|(?<![0-9a-z])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}(?![0-9a-z])")
# Folders of archives whose matrix was judged elsewhere, and whose traces are not kept.
WITHOUT_TRACES = ["host-2core/convergence/adaptive", "host-2core/convergence/order", "host-2core/convergence/reduced",
                  "8x-NVIDIA-H200/codec-ladder"]


def page(question):
    return (question / "README.md").read_text()


def has_archive(question):
    return (question / kept_results.ARCHIVE).exists()


def has_commands(question):
    return bool(BLOCK.search(page(question)))


def commands(question):
    """Words of each command at the end of a page, with loops and * expanded in the unpacked archive."""
    block = BLOCK.search(page(question))
    folder = kept_results.unpacked(question) if block else None
    found = lambda word: sorted(glob.glob(word, root_dir=folder)) if "*" in word else [word]
    for line in block[1].replace("\\\n", " ").splitlines() if block else []:
        if loop := LOOP.fullmatch(line):
            for value in (each for word in loop[2].split() for each in found(word)):
                yield [value if word == f"${loop[1]}" else word for word in shlex.split(loop[3])]
        else:
            yield [each for word in shlex.split(line) for each in found(word)]


@functools.cache
@unittest.mock.patch("matplotlib.figure.Figure.savefig")
def printed(question, _=None):
    """The output of the commands of a page, and the text in its archive. Pictures, which take most of the time, are not
    drawn."""
    texts = []
    for program, *words in commands(question):
        assert program == "zpp-validate", program
        done = validate.run(*words, cwd=kept_results.unpacked(question))
        assert done.returncode in (0, 1) and done.stdout, (question, words, done)  # 1: a run in it failed
        texts.append(done.stdout)
    if has_archive(question):
        files = sorted(kept_results.unpacked(question).rglob("*"))
        texts += [file.read_text().replace("G/s", " G/s") for file in files
                  if file.suffix == ".txt" and not file.name.startswith("session")]
        texts += [file.read_text().replace(",", " ") for file in files if file.name == "steps.tsv"]
        texts += [said_by(json.loads(file.read_text())) for file in files if file.suffix == ".json"]
    return "\n".join(texts)


def said_by(summary):
    """Text of a summary. A training run gives median milliseconds and the GiB of each part of its memory; zpp_kernels
    gives us, GB/s and shares in percent."""
    if summary.get("app") == "train":
        steps = [summary["steps"][name] for name in ("time", "time_forward", "time_backward", "time_agreement")
                 if name in summary["steps"]]
        return " ".join([*(f"{1e3 * statistics.median(times[warm_up:]):.3f}" for times in steps for warm_up in WARM_UPS
                           if len(times) > warm_up),
                         *(f"{size / 2**30:.3f}" for size in summary["memory"]["bytes_actual"])])
    rows = summary.get("rows", []) if "kernels" in summary.get("schema", "") else []
    return " ".join(f"{row['time']:.3f} {row['bandwidth']:.3f} {100 * row['of_copy']:.3f} {100 * row['of_limit']:.3f}"
                    for row in rows)


@functools.cache
def values(question):
    return [float(number.replace(",", "")) for number in NUMBER.findall(printed(question))]


@functools.cache
def speed_ups(question):
    """Over the vendor's uncompressed collective of the same call and size, of every row of every sweep."""
    found = []
    for file in kept_results.unpacked(question).rglob("*-sweep*.json"):
        for table in plot.read(file, "out-of-place")[1]:
            for size in table.sizes:
                base = table.median(crossings.Series("none", "native"), size)
                found += [base / table.median(series, size) for series in table.rows if size in table.rows[series]]
    return found


def linked_questions(question):
    targets = {(question / target).resolve().parent for target in LINK.findall(page(question))}
    return [other for other in QUESTIONS if other in targets or other == question]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def compared_numbers(text):
    """(number, whether it is a speed-up over the vendor's collective) of a page's tables: of three digits or more, none
    in brackets, none of the first column, and of ratios those alone."""
    for before, table in re.findall(r"^(.*)\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        head, _, *rows = map(cells, table.splitlines())
        speed_up = before.startswith("Times faster")
        for row in rows:
            for name, cell in list(zip(head, row))[1:]:
                if name.startswith(NOT_MEASURED):
                    continue
                cell = re.sub(r"\(.*?\)|`[^`]*`", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell))
                for number in NUMBER.findall(cell):
                    digits = len(re.sub(r"\D", "", number).lstrip("0"))
                    if speed_up and digits >= 2 or digits >= 3 and not RATIO.fullmatch(number):
                        yield number, speed_up


class Tables(unittest.TestCase):
    def test_numbers_of_pages_are_printed_from_the_raw_data(self):
        compared = 0
        for question in filter(has_archive, QUESTIONS):
            known = [value for other in linked_questions(question) for value in values(other)]
            for number, speed_up in compared_numbers(page(question)):
                compared += 1
                mantissa, _, exponent = number.replace(",", "").partition("e")
                unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
                shown = float(number.replace(",", ""))
                nearest = min(abs(value - shown) for value in (speed_ups(question) if speed_up else known))
                with self.subTest(page=question.relative_to(RESULTS), number=number):
                    self.assertLessEqual(nearest, 0.51 * unit)  # both are rounded
        self.assertGreater(compared, 400)

    def test_matrices_are_judged_as_before(self):
        """From their traces: the tables that docs/ shows, and every judged row."""
        judgements = 0
        for question in QUESTIONS:
            for _, command, *words in commands(question):
                if command != "converge":
                    continue
                folder = kept_results.unpacked(question) / words[words.index("--output") + 1]
                with tarfile.open(question / kept_results.ARCHIVE) as archive:
                    kept = {name: archive.extractfile(f"{folder.name}/{name}").read()
                            for name in ("chapter.md", "judged.h5")}
                printed(question)
                with self.subTest(question=question.relative_to(RESULTS), judged=folder.name):
                    tables = [re.findall(r"^\|.*", text, re.MULTILINE)
                              for text in (kept["chapter.md"].decode(), (folder / "chapter.md").read_text())]
                    self.assertGreater(len(tables[0]), 2)
                    self.assertEqual(*tables)
                    with h5py.File(io.BytesIO(kept["judged.h5"])) as old, h5py.File(folder / "judged.h5") as new:
                        for name in ("setting", "difference", "low", "high", "verdict"):
                            self.assertEqual(old["judged"][name][:].tolist(), new["judged"][name][:].tolist())
                judgements += 1
        self.assertGreater(judgements, 5)

    def test_judged_tables_have_the_judged_rows(self):
        for name in WITHOUT_TRACES:
            folder = kept_results.folder(RESULTS / name)
            rows = [cells(line) for line in (folder / "table.md").read_text().splitlines() if line.startswith("|")]
            with h5py.File(folder / "judged.h5") as file:
                columns = {name: column[:] for name, column in file["judged"].items()}
                claims = {name: column[:] for name, column in file["ladder"].items()}
            self.assertGreaterEqual(len(columns["setting"]), 2)
            for index, setting in enumerate(columns["setting"]):
                value = {name: column[index] for name, column in columns.items()}
                with self.subTest(folder=name, setting=setting, level=value["level"]):
                    expected = [setting.decode(), f"{value['bits']:.2f}", f"{value['loss']:.4f}",
                                converge_table.number(value["difference"]),
                                converge_table.interval_text((value["low"], value["high"])),
                                converge_table.p_text(value["p_differs"]),
                                converge_table.p_text(value["p_equivalent"]), judged.shown(value["verdict"].decode())]
                    self.assertIn(expected, [[row[place] for place in (0, 1, 2, 5, 6, 7, 8, 11)] for row in rows
                                             if len(row) == 12])
            for index, claim in enumerate(claims["claim"]):
                with self.subTest(folder=name, claim=claim):
                    expected = [claim.decode(), converge_table.number(claims["difference"][index]),
                                converge_table.interval_text((claims["low"][index], claims["high"][index])),
                                converge_table.p_text(claims["p"][index]), claims["verdict"][index].decode()]
                    self.assertIn(expected, rows)

    def test_losses_of_the_plugin_are_those_of_its_runs(self):
        question = RESULTS / "4x-NVIDIA-H200" / "fsdp2-plugin"
        losses = json.loads((kept_results.unpacked(question) / "losses.json").read_text())["losses"]
        plain = {run["seed"]: run["held_out"] for run in losses["plain FSDP2"]}
        pairs = paired.of([run["held_out"] - plain[run["seed"]] for run in losses["both"]])
        low, high = pairs.interval(0.95)
        self.assertIn(f"{pairs.mean:.4f} nats a byte, and lies between {low:+.4f} and {high:+.4f}",
                      " ".join(page(question).split()))


class Archives(unittest.TestCase):
    def test_every_run_that_is_listed_is_there(self):
        """With the JSON that it wrote, or the log of what it said in its place."""
        listed = 0
        for question in QUESTIONS:
            for file in kept_results.unpacked(question).rglob("runs.tsv") if has_archive(question) else ():
                for row in csv.DictReader(file.read_text().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
                    listed += 1
                    beside = file.parent / "runs" / row["stem"]
                    with self.subTest(question=question.relative_to(RESULTS), run=row["stem"]):
                        self.assertTrue(any(beside.with_name(beside.name + ending).exists()
                                            for ending in (".json", ".log")))
        self.assertGreater(listed, 200)

    def test_json_is_compact(self):
        for path, text in kept_results.json_files(RESULTS):
            with self.subTest(path):
                self.assertEqual(text.count(b"\n"), 1)

    def test_the_whole_is_small(self):
        self.assertLessEqual(len(FILES), MOST_FILES)
        self.assertLessEqual(sum((RESULTS / path).stat().st_size for path in FILES), MOST_BYTES)


class Pages(unittest.TestCase):
    def test_every_question_has_a_page_that_the_index_names(self):
        index = (RESULTS / "README.md").read_text()
        self.assertGreater(len(QUESTIONS), 30)
        for question in QUESTIONS:
            with self.subTest(question.relative_to(RESULTS)):
                self.assertIn(f"({question.relative_to(RESULTS)}/README.md)", index)
                lines = [line for line in page(question).splitlines() if line]
                self.assertTrue(lines[0].startswith("# ") and lines[0].endswith("?"), lines[0])
                self.assertRegex(lines[1], r"^(`|[A-Z0-9])", "the answer comes first")

    def test_links_lead_somewhere(self):
        for path in (path for path in FILES if path.suffix == ".md"):
            for target in LINK.findall((RESULTS / path).read_text()):
                with self.subTest(page=path, target=target):
                    self.assertTrue((RESULTS / path.parent / target).exists())

    def test_pages_are_120_columns_wide(self):
        for path in (path for path in FILES if path.name == "README.md"):
            for number, line in enumerate((RESULTS / path).read_text().splitlines(), 1):
                with self.subTest(page=path, line=number):
                    self.assertTrue(len(line) <= 120 or line.startswith("|") or " " not in line.strip())

    def test_names_say_what_not_when(self):
        self.assertTrue(NOT_A_NAME.search("sweep-f5de46e") and NOT_A_NAME.search("20261121T212042Z.md")
                        and not NOT_A_NAME.search("decoded"))
        for path in FILES:
            with self.subTest(path):
                self.assertIsNone(NOT_A_NAME.search(str(path)))


if __name__ == "__main__":
    zpp.main()
