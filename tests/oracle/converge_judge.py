# ctest: name=converge_judge timeout=300 labels=oracle
"""zpp-validate converge on matrices made here: it finds what was planted, says plainly what the data do not support,
and refuses, by name, what is missing, unpaired or untrue."""

import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import h5py
import numpy as np

import synthetic_converge as made
import synthetic_trace
import validate
from zpp_validate.checkers import converge_checker
from zpp_validate.convergence import judged, ladder
from zpp_validate.readers.trace_file import Trace

SOURCE = Path(os.environ["ZEROPP_SOURCE"])


def run_of(groups, name, seed):
    """The row of /runs of a setting and seed."""
    place = groups["settings"]["name"].index(name)
    return next(i for i, pair in enumerate(zip(groups["runs"]["setting"], groups["runs"]["seed"]))
                if pair == (place, seed))


def drop(groups, group, wanted):
    """Leaves the rows that `wanted(row)` says."""
    columns = groups[group]
    keep = [i for i, row in enumerate(zip(*columns.values())) if wanted(dict(zip(columns, row)))]
    groups[group] = {name: [values[i] for i in keep] for name, values in columns.items()}


def set_in(group, column, value, row=-1):
    def change(attributes, groups):
        groups[group][column][row] = value
    return change


def without_run(name, seed):
    """Removes all entries of a run; later runs move up."""
    def change(attributes, groups):
        gone = run_of(groups, name, seed)
        for group in ("steps", "evaluations", "held_out_parts", "quadratic", "quadratic_runs"):
            drop(groups, group, lambda row: row["run"] != gone)
            groups[group]["run"] = [run - (run > gone) for run in groups[group]["run"]]
        for end in ("first", "second"):
            groups["checks"][end] = [run - (run > gone) for run in groups["checks"][end]]
        for values in groups["runs"].values():
            del values[gone]
    return change


def of_run(name, seed, column, value):
    def change(attributes, groups):
        groups["runs"][column][run_of(groups, name, seed)] = value
    return change


def of_ids(attributes, groups):
    groups["settings"]["config_json"] = [text.replace('"text"', '"llmc"') for text in groups["settings"]["config_json"]]


def of_more_steps(attributes, groups):
    old, new = (f'"train_steps": {steps}' for steps in (made.STEPS, made.STEPS + 1))
    groups["settings"]["config_json"] = [text.replace(old, new) for text in groups["settings"]["config_json"]]


def of_batches(count, before=made.BATCHES):
    def change(attributes, groups):
        old, new = (f'"evaluation_batches": {json.dumps(each)}' for each in (before, count))
        groups["settings"]["config_json"] = [text.replace(old, new) for text in groups["settings"]["config_json"]]
    return change


def of_more_seeds(attributes, groups):
    matrix = json.loads(attributes["config_json"])
    synthetic_trace.configure(attributes, matrix | {"seeds": [*matrix["seeds"], 99]})


def with_last_evaluation(value):
    def change(attributes, groups):
        groups["evaluations"]["loss"][-1] = value
    return change


def without_last_step(attributes, groups):
    last = groups["steps"]["run"][-1]
    drop(groups, "steps", lambda row: (row["run"], row["step"]) != (last, made.STEPS - 1))


def diverged(name, seed):
    """A run that ends in skipped steps, after which there is no held-out loss."""
    def change(attributes, groups):
        index = run_of(groups, name, seed)
        for column, value in (("skipped", 3), ("final_train_loss", math.nan), ("final_held_out_loss", math.nan),
                              ("bits_per_byte", math.nan),
                              ("verdict", "INVALID: the last step was skipped: its gradient is not finite")):
            groups["runs"][column][index] = value
        rows = [i for i, run in enumerate(groups["steps"]["run"]) if run == index]
        for row in rows[-3:]:
            for column, value in (("skipped", 1), ("loss", math.nan), ("grad_norm", math.inf)):
                groups["steps"][column][row] = value
        drop(groups, "evaluations", lambda row: row["run"] != index or row["step"] < made.STEPS)
    return change


def broken_contract(attributes, groups):
    groups["runs"]["parameters_hash"][-1] = "0" * 64
    groups["runs"]["final_train_loss"][-1] *= 1.25
    groups["checks"]["difference"][0], groups["checks"]["passed"][0] = 0.25, 0


def hidden_contract(attributes, groups):
    broken_contract(attributes, groups)
    groups["checks"]["difference"][0], groups["checks"]["passed"][0] = 0.0, 1


# The change of a VALID matrix, and what the reason names.
SPOILED = {
    "missing run": (without_run("int4", 3), "missing runs: setting int4, seed 3"),
    "other data": (of_run("int4", 3, "data_hash", "f" * 64),
                   "setting int4 saw other data than its baseline base from seed 3"),
    "a seed twice": (of_run("int4", 3, "seed", 4), "missing runs: setting int4, seed 3"),
    "bytes": (of_run("near", 2, "bytes_inter_node", 4095),
              "setting near, seed 2: sent 4095 bytes per step between nodes, 4096"),
    "a run's verdict": (of_run("near", 2, "verdict", "INVALID: a step"),
                        "setting near, seed 2: the run says INVALID: a step"),
    "held-out loss": (of_run("near", 2, "final_held_out_loss", 2.5),
                      "setting near, seed 2: final_held_out_loss is 2.5"),
    "a part of the data": (set_in("held_out_parts", "part", 2, 1), "/held_out_parts: run 0 has part 2 where 1 comes"),
    "losses of parts": (set_in("held_out_parts", "loss", 3.0, 30), "and the mean of its parts in /held_out_parts"),
    "a part's batches": (of_batches(3), "/held_out_parts has 4 parts, and config_json and the held-out data do not "
                         "have a batch for each"),
    "batches that the data lack": (lambda attributes, groups: groups["data_text"].update({"@held_out_tokens": 32
                                                                                          * 16 * 3 + 1}),
                                   "do not have a batch for each"),
    "batches that nothing says": (of_batches(None), "do not have a batch for each"),
    "train loss": (of_run("near", 2, "final_train_loss", 2.5), "setting near, seed 2: final_train_loss is 2.5"),
    "bits a byte": (of_run("near", 2, "bits_per_byte", 2.5),
                    "setting near, seed 2: bits_per_byte is not its loss / ln 2"),
    "bits a byte of ids": (of_ids, "setting base, seed 1: bits_per_byte is a number, but the loss is not of bytes"),
    "skipped": (of_run("near", 2, "skipped", 1), "0 steps of /steps were skipped, 1 of the run"),
    "ranks": (of_run("near", 2, "world_size", 8), "ran on 8 ranks, the job has 4"),
    "other ranks": (of_run("near", 2, "world_size", 2),
                    "setting near and its baseline base ran on other ranks or nodes"),
    "a diverged baseline": (diverged("base", 2), "setting near: its baseline base diverged"),
    "an untold divergence": (set_in("steps", "loss", math.nan, 3), "the run says VALID, but its curves diverged"),
    "a step": (without_last_step, "/steps has 19 of its 20 steps"),
    "fewer steps": (of_more_steps, "setting base, seed 1: the run has 20 of its 21 steps"),
    "a seed of all": (of_more_seeds, "missing runs: setting base, seed 99"),
    "an evaluation": (with_last_evaluation(-1.0), "a held-out loss is no loss"),
    "baseline": (set_in("settings", "baseline", "nobody", 1), "setting near: its baseline nobody is not there"),
    "names": (set_in("settings", "name", "near", 2), "/settings names near twice"),
    "bits": (set_in("settings", "weight_bits", 0.0, 1), "setting near: weight_bits"),
    "level": (set_in("settings", "level", "image", 4), "level 'image' is none of"),
    "violations": (set_in("quadratic_runs", "violations", 2),
                   "setting quadratic int8, seed 1: the quadratic left its bound in 2 steps"),
    "a bound that says nothing": (set_in("quadratic_runs", "largest_ratio", 0.049), "is 0.049 of the bound"),
    "above the bound": (set_in("quadratic_runs", "largest_ratio", 1.01), "is 1.01 of the bound"),
    "a hidden violation": (set_in("quadratic", "distance", 9.0, 100), "a row of /quadratic is beyond its bound"),
    "a contract": (broken_contract, "check hpz of hpz off / hpz on: differs by 0.25, allowed is 0"),
    "a contract, hidden": (hidden_contract, "difference 0.0, but the parameters are not the same"),
    "no contract": (lambda attributes, groups: drop(groups, "checks", lambda row: False), "/checks is empty"),
    "interrupted": (lambda attributes, groups: attributes.update(interrupted="SIGUSR1"),
                    "interrupted by SIGUSR1: start the same matrix"),
    "incomplete": (lambda attributes, groups: attributes.update(complete=0), "not complete"),
}


class Judge(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def matrix(self, change=None, name="converge.h5", **options):
        attributes, groups = made.make(**options)
        if change:
            change(attributes, groups)
        return made.write(self.folder / name, attributes, groups)

    def judge(self, path, *words, code=0, columns="1000"):
        """converge.py as a command, but in this process; returns (stdout, stderr)."""
        self.output = self.folder / "judged"
        os.environ["COLUMNS"] = columns
        done = validate.run("converge", path, "--output", self.output, *words)
        self.assertEqual(done.returncode, code, done)
        return done.stdout, done.stderr

    def say(self, margin=0.02, **options):
        """(verdict by setting, verdict by claim, missing rungs) of a matrix, without files."""
        checker = converge_checker.ConvergeChecker(Trace(self.matrix(**options)))
        self.assertEqual(checker.check(), [])
        self.judged = {row.setting.name: row for row in judged.judge(checker.study, margin, 0.05)}
        claims, missing = ladder.claims_of(checker.study, margin, 0.05)
        return {name: row.verdict for name, row in self.judged.items()}, {claim.text: claim.verdict
                                                                          for claim in claims}, missing

    def rows(self):
        with h5py.File(self.output / "judged.h5") as file:
            columns = {name: [v.decode() if isinstance(v, bytes) else v for v in data[()]]
                       for name, data in file["judged"].items()}
        return {row["setting"]: row for row in (dict(zip(columns, values)) for values in zip(*columns.values()))}

    def ladder(self):
        with h5py.File(self.output / "judged.h5") as file:
            return dict(zip((v.decode() for v in file["ladder/claim"][()]),
                            (v.decode() for v in file["ladder/verdict"][()])))

    def test_planted_differences(self):
        out, _ = self.judge(self.matrix())
        self.assertTrue(out.endswith("\nVALID\n"), out)
        rows = self.rows()
        self.assertEqual({name: row["verdict"] for name, row in rows.items()},
                         {"near": "equivalent", "int4": "worse", "weights": "worse"})
        for name, effect in (("near", 0.001), ("int4", 0.05), ("weights", 0.2)):
            self.assertTrue(abs(rows[name]["difference"] - effect) < 0.01 and rows[name]["seeds"] == 6, rows[name])
        with h5py.File(self.output / "judged.h5") as file:  # this file alone suffices to judge again
            runs = list(zip(file["runs/setting"].asstr(), file["runs/seed"].asstr(), file["runs/loss"]))
        loss = {(setting, seed): value for setting, seed, value in runs}
        self.assertEqual(len(loss), 4 * 6)
        for name, row in rows.items():
            apart = [value - loss["base", seed] for (setting, seed), value in loss.items() if setting == name]
            self.assertAlmostEqual(sum(apart) / len(apart), row["difference"], places=12)
        self.assertEqual(self.ladder(), {"base <= near": "supported", "near < int4": "supported",
                                         "int4 < weights": "supported"})
        self.assertEqual({path.name for path in self.output.iterdir()},
                         {"table.md", "judged.h5", "chapter.md",
                          *(f"text-{what}.{suffix}" for what in ("curves", "ladder")
                            for suffix in ("png", "svg"))})
        self.assertRegex(out, r"A true difference of 0\.00\d\d to 0\.0\d+ nats would be shown")
        chapter = (self.output / "chapter.md").read_text()
        self.assertTrue(chapter.startswith("## Which compression is safe\n"))
        self.assertIn(f"validation/zpp-validate converge {self.folder / 'converge.h5'} --output {self.output}\n",
                      chapter)
        self.assertIn("1 of 3 settings are; 2 are shown to be worse, 0 diverged, of 0 these runs show neither", chapter)
        first = {path.name: path.read_bytes() for path in self.output.iterdir()
                 if path.suffix in (".png", ".svg", ".md")}
        self.judge(self.folder / "converge.h5")
        self.assertEqual(first, {name: (self.output / name).read_bytes() for name in first})

    def test_what_the_data_do_not_support(self):
        """All effects gone: said in the table and in the chapter, and the matrix stays VALID. And the other way
        round."""
        out, _ = self.judge(self.matrix(settings=[each | {"effect": 0.0} for each in made.LADDER], random_seed=3))
        self.assertEqual(list(self.ladder().values()),
                         ["supported", "not supported by the data", "not supported by the data"])
        for text in (out, (self.output / "chapter.md").read_text()):
            self.assertEqual(text.count("not supported by the data"), 2)
        rows, claims, _ = self.say(settings=[each | {"effect": -each["effect"]} for each in made.LADDER])
        self.assertEqual(list(claims.values())[1:], ["the data say the opposite"] * 2)
        self.assertEqual(rows["int4"], "better")

    def test_noise_is_undecided(self):
        rows, _, missing = self.say(noise=0.2, settings=(made.BASE, made.setting("int4", **made.INT4)))
        self.assertEqual(rows["int4"], "undecided")
        self.assertGreater(min(self.judged["int4"].detectable, self.judged["int4"].provable), 0.02)
        self.assertIn("text, gpt: the rung `int4 weights` has no setting here, or only some that diverged", missing)

    def test_small_and_there(self):
        options = dict(noise=0.0005, settings=(made.BASE, made.setting("int4", effect=0.01, **made.INT4)))
        self.assertEqual(self.say(**options)[0]["int4"], "worse, within the margin")
        self.assertEqual(self.say(margin=0.005, **options)[0]["int4"], "worse")

    def test_no_losses_to_compare(self):
        """Bounds and contracts have their tables, and stand alone where nothing was trained on tokens."""
        for settings, files in ((made.LADDER, True), ((), False)):
            out, _ = self.judge(self.matrix(settings=settings))
            self.assertRegex(out, r"\| quadratic int8 \| +1 \| +10000 \| +0 \| +0\.400 \|\n")
            self.assertRegex(out, r"\| hpz +\| hpz off \| hpz on \| +1 \| +identical \| +none \|\n")
            self.assertTrue(out.endswith("\nVALID\n"), out)
            self.assertEqual((self.output / "chapter.md").exists(), files)
            for path in self.output.iterdir():
                path.unlink()

    def test_divergence_is_a_result(self):
        """One seed of a setting diverged: the setting has no difference, is named, and is on no rung; the matrix stays
        VALID."""
        out, _ = self.judge(self.matrix(diverged("int4", 3)))
        self.assertRegex(out, r"\| int4 .*\| diverged \(seed 3\) \|\n")
        self.assertEqual(set(self.rows()), {"near", "weights"})
        self.assertEqual(set(self.ladder()), {"base <= near", "near < weights"})
        self.assertIn("the rung `int4 gradients` has no setting here", out)
        self.assertIn("1 of 3 settings are; 1 are shown to be worse, 1 diverged,",
                      (self.output / "chapter.md").read_text())

    def test_the_chapter_has_what_is_beside_uncompressed_training(self):
        coarse = made.setting("coarse", baseline="", **made.INT4)
        beside = [made.setting("near coarse", baseline="coarse", effect=0.001, **made.INT4)]
        self.judge(self.matrix(settings=[*made.LADDER, coarse, *beside]))
        self.assertIn("near coarse", self.rows())
        self.assertIn("1 of 3 settings are; 2 are shown to be worse,", (self.output / "chapter.md").read_text())
        self.judge(self.matrix(settings=[coarse, *beside]))
        self.assertFalse((self.output / "chapter.md").exists())

    def test_levels_and_feedback(self):
        """Markov beside text, each with its own baseline; a setting with error feedback is on no rung; the usual block
        is taken."""
        settings = [*made.LADDER, made.setting("coarse", effect=0.3, weight_codec="int4:2048", weight_bits=4.0),
                    made.setting("feedback", effect=-0.5, feedback="beta=0.8,reset=100,dtype=fp32", **made.INT4),
                    *(each | {"name": f"m-{each['name']}", "level": "markov", "baseline": each["baseline"] and "m-base"}
                      for each in made.LADDER)]
        out, _ = self.judge(self.matrix(settings=settings))
        self.assertEqual(set(self.ladder()), {"base <= near", "near < int4", "int4 < weights", "m-base <= m-near",
                                              "m-near < m-int4",
                                              "m-int4 < m-weights"})
        self.assertIn("## markov: 6 seeds per setting\n\n"
                      "Entropy of the source: 1.0397 nats per token; m-base is 1.", out)
        for text in (out, (self.output / "chapter.md").read_text()):
            self.assertRegex(text, r"Effect of error feedback .*\n\n.*\n.*\n\| feedback \| int4 +\| +-0\.5\d+ \|")
        self.assertEqual(out.count("Effect of error feedback"), 1)
        self.assertRegex(out, r"A run of m-base: a gpt of 2 layers of width 64, \d+ steps of 16 sequences of 32 tokens "
                         r"on \d+ ranks in nodes of \d+, "
                              r"\w+ with a learning rate of at most 0\.003, schedule constant\.")
        self.assertIn("corrected over 8 settings", out.replace("\n", " "))
        self.assertEqual(self.judge(self.matrix(settings=settings), "--wide", columns="100")[0], out)
        tables, _ = self.judge(self.matrix(settings=settings), columns="100")
        self.assertLessEqual(max(len(line) for line in tables.splitlines() if line.startswith("|")), 100)
        self.assertEqual({cell.strip() for line in out.splitlines() if line.startswith("| ")
                          for cell in line.split("|")},
                         {cell.strip() for line in tables.splitlines() if line.startswith("| ")
                          for cell in line.split("|")})
        self.assertTrue((self.output / "markov-ladder.png").exists())

    def test_measured_errors(self):
        """Each setting that measured has a row: medians over seeds and measured steps; a run that diverged has none."""
        every = {"measure_quantization_error": 10}
        differences = {"weight_differences": True, "weight_difference_codec": "int4:128",
                       "weight_copy_dtype": "compute"}
        settings = [made.BASE, made.setting("exact", own={**every, "weight_differences": True,
                                                          "exact_differences": True}),
                    made.setting("differences", own={**every, **differences}, **made.INT4),
                    made.setting("int4", own=every, **made.WEIGHTS), made.setting("gone", own=every)]
        matrix = lambda change=None: self.matrix(change, settings=settings)
        out, _ = self.judge(matrix(diverged("gone", 3)))
        title, rest = out[out.index("## Errors of weights"):].split("\n\n", 1)
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in rest.split("\n\n")[0].splitlines()]
        self.assertEqual(lines[0], ["setting", "weights embedding", "weights block", "gradients embedding",
                                    "gradients block"])
        # The middle of 0.1 and 0.01 times the numbers of seeds 1 to 6, of two steps each.
        self.assertEqual(lines[2:], [["exact", "0", "0", "0.35", "0.035"], ["differences", *["0.35", "0.035"] * 2],
                                     ["int4", *["0.35", "0.035"] * 2], ["gone", "0", "0", "0.4", "0.04"]])
        with h5py.File(self.output / "judged.h5") as file:
            rows = list(zip(*(file[f"errors/{name}"][()] for name in ("setting", "kind", "unit_kind", "rows", "low",
                                                                      "median", "high"))))
        self.assertEqual(len(rows), 4 * 4)
        self.assertEqual(rows[4], (b"differences", b"weights", b"embedding", 12, 0.1, 0.35, 0.6))
        self.assertNotIn("## Errors of weights", self.judge(self.matrix())[0])
        for change, reason in (
                (set_in("errors", "run", 99), "/errors: a row of run 99"),
                (set_in("errors", "relative_l2", 0.1, 0), "setting exact, seed 1: /errors: there is an error without"),
                (lambda _, groups: drop(groups, "errors", lambda row: (row["run"], row["step"]) != (12, 10)),
                 "setting differences, seed 1: /errors lacks a step that was to be measured")):
            with self.subTest(reason):
                self.assertIn(reason, "\n".join(converge_checker.problems(Trace(matrix(change)))))

    def test_parts_of_several_sizes(self):
        """The loss is the mean of all batches: of 18, two of 16 parts have two; of 100 that are asked for, the data
        have 40."""
        for batches, asked in ((16, 16), (18, 18), (40, 40), (40, 100)):
            with self.subTest(batches=batches, asked=asked):
                path = self.matrix(of_batches(asked, batches), batches=batches)
                self.assertEqual(converge_checker.problems(Trace(path)), [])
        for batches, asked in ((18, 19), (40, 39), (40, 32)):  # other sizes of the parts: another mean
            with self.subTest(batches=batches, asked=asked):
                reasons = converge_checker.problems(Trace(self.matrix(of_batches(asked, batches), batches=batches)))
                self.assertIn("and the mean of its parts in /held_out_parts", "\n".join(reasons))

    def test_spoiled(self):
        for name, (change, reason) in SPOILED.items():
            with self.subTest(name):
                trace = Trace(self.matrix(change))
                self.assertEqual(trace.problems, [])
                self.assertIn(reason, "\n".join(converge_checker.problems(trace)))
        self.assertEqual(converge_checker.problems(Trace(self.matrix())), [])
        out, _ = self.judge(self.matrix(without_run("int4", 3)), code=1)
        self.assertEqual(out, "INVALID: missing runs: setting int4, seed 3\n")
        self.assertFalse(self.output.exists())

    def test_schema_and_units(self):
        path = self.matrix()
        with h5py.File(path, "r+") as file:
            file["runs/seconds"].attrs["units"] = "ms"
            del file["settings/feedback"]
            del file["data_text"].attrs["source_entropy_bits"]
        self.assertEqual(self.judge(path, code=1)[0].splitlines(), [
            "INVALID: no column /settings/feedback", "INVALID: /runs/seconds is in 'ms', should be in 's'",
            "INVALID: /data_text has no attribute source_entropy_bits"])

    def test_few_seeds(self):
        path = self.matrix(seeds=(1, 2, 3))
        self.assertIn("INVALID: setting base has 3 seeds, 5 are needed", self.judge(path, code=1)[0])
        self.judge(path, "--fewest-seeds", "3")

    def test_several_files_are_one_matrix(self):
        """Files of other seeds, from other machines, are judged as one file that has all their runs."""
        one, two = self.matrix(seeds=(1, 2, 3), name="a.h5"), self.matrix(seeds=(4, 5, 6), name="b.h5", random_seed=2)
        out, _ = self.judge(one, str(two))
        self.assertTrue(out.startswith(f"2 files as one matrix: {one}, {two}.\n"), out)
        # The quadratic and contracts.
        self.assertIn(f"{two}: seed 1 of 3 settings are in a file before it, whose runs count.\n", out)
        rows = self.rows()
        each = []
        for path in (one, two):
            self.judge(path, "--fewest-seeds", "3")
            each.append(self.rows())
        for name, row in rows.items():
            self.assertEqual(row["seeds"], 6)
            self.assertAlmostEqual(row["difference"], (each[0][name]["difference"] + each[1][name]["difference"]) / 2,
                                   places=12)
        with h5py.File(self.output / "judged.h5") as file:
            self.assertEqual(len(file["runs/seed"]), 4 * 3)

    def test_the_files_are_named_as_they_were_given(self):
        """All files of a matrix are called converge.h5."""
        paths = []
        for number, folder in enumerate(("one", "another día")):
            (self.folder / folder).mkdir()
            paths.append(self.matrix(seeds=(1 + 3 * number, 2 + 3 * number, 3 + 3 * number),
                                     name=f"{folder}/converge.h5"))
        self.judge(paths[0], str(paths[1]))
        with h5py.File(self.output / "judged.h5") as file:
            self.assertEqual(shlex.split(file.attrs["trace"].decode()), [str(path) for path in paths])

    def test_a_seed_twice_counts_once(self):
        one, two = self.matrix(seeds=(1, 2, 3), name="a.h5"), self.matrix(seeds=(3, 4, 5), name="b.h5", random_seed=2)
        out, _ = self.judge(one, str(two))
        # 1: of the quadratic and contracts.
        self.assertIn(f"{two}: seed 1, 3 of 7 settings are in a file before it, whose runs count.\n", out)
        self.assertEqual({row["seeds"] for row in self.rows().values()}, {5})
        with h5py.File(one) as file, h5py.File(self.output / "judged.h5") as both:
            kept = dict(zip(zip(both["runs/setting"].asstr(), both["runs/seed"].asstr()), both["runs/loss"]))
            self.assertEqual(kept["base", "3"], file["runs/final_held_out_loss"][2])

    def test_files_of_other_matrices_are_refused(self):
        def other_steps(attributes, groups):
            groups["settings"]["config_json"][1] = groups["settings"]["config_json"][1].replace('"train_steps": 20',
                                                                                                '"train_steps": 30')

        def other_ranks(attributes, groups):
            groups["runs"]["world_size"] = [2] * len(groups["runs"]["world_size"])

        one = self.matrix(seeds=(1, 2, 3), name="a.h5")
        for change, reason in ((other_steps, "setting near, seed 4: the run has 20 of its 30 steps"),
                               (without_run("int4", 5), "missing runs: setting int4, seed 5")):
            out, _ = self.judge(one, str(self.matrix(change, seeds=(4, 5, 6), name="b.h5")), code=1)
            self.assertIn(f"INVALID: {self.folder / 'b.h5'}: {reason}", out)
        for change, reason in ((set_in("settings", "optimizer", "lion", 1),
                                "setting near has optimizer adamw, and lion there"),
                               (lambda attributes, groups: groups["settings"].update(config_json=[
                                   text.replace('"train_batch_size": 16', '"train_batch_size": 8')
                                   for text in groups["settings"]["config_json"]]),
                                "setting base has train_batch_size 16, and 8 there"),
                               (set_in("settings", "name", "nearer", 1), "setting near is in one of them"),
                               (lambda attributes, groups: groups["data_text"].update({"@held_out_tokens": 20480}),
                                "the data of level text have held_out_tokens 20481.0, and 20480.0 there"),
                               (other_ranks, "setting base ran on other ranks or nodes there"),
                               (lambda attributes, groups: attributes.update(git_commit="y"),
                                "they are of the commits x and y: --across-versions takes both")):
            two = self.matrix(change, seeds=(4, 5, 6), name="b.h5")
            self.assertEqual(self.judge(one, str(two), code=2)[1],
                             f"zpp-validate converge: error: {one} and {two} are no parts of one matrix: {reason}\n")
        self.judge(one, str(two), "--across-versions")

    def test_averaged_weights_of_earlier_versions(self):
        """Averaged weights are not read, and each file that has some gives a line. Such runs are judged with runs of
        this version."""
        def averaging(_, groups):
            configs = map(json.loads, groups["settings"]["config_json"])
            groups["settings"]["config_json"] = [json.dumps(
                config | {"zeropp": config["zeropp"] | {"averaged_steps": 3, "peer_stores": "off"}})
                if config else "{}" for config in configs]

        earlier = self.matrix(averaging, seeds=(1, 2, 3), name="a.h5")
        with h5py.File(earlier, "r+") as file:
            file["averaged_weights/loss"] = [3.0]
        now = self.matrix(seeds=(4, 5, 6), name="b.h5")
        out, err = self.judge(earlier, str(now))
        self.assertTrue(out.endswith("\nVALID\n"), out)
        self.assertEqual(err, f"zpp-validate: {earlier}: /averaged_weights is of an earlier version, and is not read\n")

    def test_settings_that_two_matrices_share(self):
        """Settings that are left out may differ; the other settings are judged as if they were alone."""
        one = self.matrix(seeds=(1, 2, 3), name="a.h5")
        two = self.matrix(set_in("settings", "name", "nearer", 1), seeds=(4, 5, 6), name="b.h5", random_seed=2)
        only = ("--only", "base", "--only", "int4", "--only", "weights")
        out, _ = self.judge(one, str(two), *only)
        self.assertIn("Of their settings only base, int4, weights count.\n", out)
        rows = self.rows()
        self.assertEqual((set(rows), {row["seeds"] for row in rows.values()}), ({"int4", "weights"}, {6}))
        losses = {}
        for path in (one, two):
            with h5py.File(path) as file:
                names = file["settings/name"].asstr()[:]
                losses |= {(names[setting], seed): loss for setting, seed, loss in zip(
                    file["runs/setting"], file["runs/seed"], file["runs/final_held_out_loss"])}
        for name, row in rows.items():
            self.assertAlmostEqual(row["difference"],
                                   np.mean([losses[name, seed] - losses["base", seed] for seed in range(1, 7)]),
                                   places=12)
        for words, reason in ((("--only", "base", "--only", "near"), "has no setting near"),
                              (("--only", "int4"), "a baseline")):
            self.assertIn(reason, self.judge(one, str(two), *words, code=2)[1])

    def test_bad_usage(self):
        good = self.matrix()
        for words in (["--margin", "0"], ["--level", "2"], ["--fewest-seeds", "1"]):
            self.judge(good, *words, code=2)
        self.judge(self.folder / "nowhere.h5", code=5)
        (self.folder / "judged").touch()
        self.assertIn("cannot be read or written", self.judge(good, code=5)[1])

    def test_check_trace(self):
        done = subprocess.run([sys.executable, SOURCE / "validation" / "zpp-validate", "check", self.matrix()],
                              capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "VALID\n"), done)


if __name__ == "__main__":
    unittest.main()
