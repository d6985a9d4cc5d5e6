# ctest: name=converge labels=cli timeout=300 processors=4
"""zpp_converge runs a matrix of settings and seeds, keeps each run when it ends, resumes after an ended job, and writes
one trace. A matrix without a meaning is refused with a line that names the place."""

import copy
import json
import math
import pathlib
import shutil
import signal

import numpy

import token_file_writer
import validate
import zpp

PROGRAM = str(zpp.BIN / "zpp_converge")
INPUTS = zpp.SOURCE / "inputs" / "convergence"

TINY = {
    "base": {
        "train_batch_size": 4,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {"stage": 3},
        "zeropp": {
            "backend": "host", "node_size": 2, "train_steps": 12, "evaluation_interval": 6, "evaluation_batches": 1,
            "model": {"name": "gpt", "num_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 8}}},
    "seeds": [1, 2],
    "levels": {
        "quadratic": {"seeds": [1], "config": {
            "train_batch_size": None, "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "SGD", "params": {"lr": 150}},
            "zeropp": {"train_steps": 30, "evaluation_interval": 0, "evaluation_batches": None,
                       "model": {"name": "quadratic", "hidden_size": 300, "num_attention_heads": None,
                                 "seq_length": 4}}}},
        "contract": {"seeds": [1], "config": {
            "zeropp": {"deterministic": True, "evaluation_interval": 0, "evaluation_batches": None}}}},
    "settings": [
        {"name": "zero3", "level": "markov"},
        {"name": "zero++", "level": "markov", "baseline": "zero3", "config": {"zero_optimization": {
            "zero_quantized_weights": True, "zero_hpz_partition_size": 2, "zero_quantized_gradients": True}}},
        {"name": "feedback", "level": "markov", "baseline": "zero3", "gradient_codecs": ["int4:128"],
         "config": {"zeropp": {"measure_quantization_error": 4, "error_feedback": {"hops": "both", "beta": 0.5}}}},
        {"name": "differences", "level": "markov", "baseline": "zero3", "config": {
            "zero_optimization": {"stage": 2, "zero_quantized_weights": True},
            "zeropp": {"weight_differences": True, "measure_quantization_error": 4}}},
        {"name": "descent", "level": "quadratic", "weight_codecs": ["int4:128"]},
        {"name": "descent", "level": "quadratic", "gradient_codecs": ["int8:64/int4:128+had32"]},
        {"name": "contract", "level": "contract"},
        {"name": "contract hpz", "level": "contract", "config": {"zero_optimization": {"zero_hpz_partition_size": 2}}},
        {"name": "contract 2 ranks", "level": "contract", "ranks": 2},
        {"name": "contract stage 0", "level": "contract", "config": {"zero_optimization": {"stage": 0}}}],
    "checks": [{"name": "hpz", "first": "contract", "second": "contract hpz"},
               {"name": "stages", "first": "contract", "second": "contract stage 0"},
               {"name": "world_size", "first": "contract", "second": "contract 2 ranks", "limit": 0.01}],
}
RUNS = 14
# By group, the columns: f real, u whole, S text.
COLUMNS = {
    "settings": {"name": "S", "level": "S", "model": "S", "stage": "u", "weight_codec": "S",
                 "gradient_codec_intra": "S",
                 "gradient_codec_inter": "S", "reduce_scatter": "S", "hpz": "u", "feedback": "S", "optimizer": "S",
                 "weight_bits": "f", "gradient_bits": "f", "baseline": "S", "config_json": "S"},
    "runs": {"setting": "u", "seed": "u", "world_size": "u", "node_size": "u", "steps": "u", "skipped": "u",
             "final_train_loss": "f", "final_held_out_loss": "f", "bits_per_byte": "f", "seconds": "f",
             "seconds_per_step": "f",
             "bytes_inter_node": "u", "bytes_predicted_inter_node": "u", "data_hash": "S", "parameters_hash": "S",
             "verdict": "S"},
    "steps": {"run": "u", "step": "u", "loss": "f", "grad_norm": "f", "skipped": "u"},
    "evaluations": {"run": "u", "step": "u", "loss": "f"},
    "held_out_parts": {"run": "u", "part": "u", "loss": "f"},
    "errors": {"run": "u", "step": "u", "kind": "S", "unit_kind": "S", "relative_l2": "f", "cosine": "f",
               "largest": "f",
               "norm_ratio": "f"},
    "quadratic": {"run": "u", "step": "u", "distance": "f", "bound": "f"},
    "quadratic_runs": {"run": "u", "violations": "u", "largest_ratio": "f", "steps": "u"},
    "checks": {"name": "S", "first": "u", "second": "u", "difference": "f", "limit": "f", "passed": "u"},
}
PYTHON = {"f": float, "u": int, "S": str}


class Converge(zpp.TestCase):
    def command(self, matrix, *words):
        path = matrix if isinstance(matrix, pathlib.Path) else self.write_json("matrix.json", matrix)
        return [PROGRAM, "--config", path, "--output", self.out, *words]

    def start(self, matrix, *words, ranks=4):
        process = zpp.launch([(ranks, self.command(matrix, *words))], cwd=self.folder, patient=True)
        self.addCleanup(process.stop)
        return process

    def converge(self, matrix, *words, ranks=4, **options):
        return zpp.run(ranks, self.command(matrix, *words), cwd=self.folder, **options)

    def trace(self):
        return zpp.read_trace(self.out / "converge.h5")

    def check_to_do(self, result, number):
        self.assertIn(f" {RUNS} runs, {number} to be done", result.stdout, result)

    def check_refused(self, matrix, *parts, words=(), ranks=1):
        self.check_fails(self.converge(matrix, *words, ranks=ranks), zpp.USAGE, *parts, program="zpp_converge")

    def test_runs_resumes_and_writes_the_trace(self):
        result = self.check_ok(self.converge(TINY, "--json", self.folder / "summary.json"))
        self.check_to_do(result, RUNS)
        root, groups = self.trace()
        self.assertEqual((root["app"], root["verdict"], root["world_size"]), ("converge", "VALID", 4))
        self.assertEqual(json.loads(root["config_json"])["seeds"], [1, 2])
        for group, columns in COLUMNS.items():
            self.assertEqual({name: type(groups[group][name][0]) for name in columns},
                             {name: PYTHON[kind] for name, kind in columns.items()}, group)
        self.check_rows(groups)
        self.assertEqual(zpp.check_trace(self.out / "converge.h5").code, zpp.OK)
        self.assertEqual(json.loads((self.folder / "summary.json").read_text())["runs"]["seed"], groups["runs"]["seed"])

        # Runs that are gone, changed or of another configuration are run again, the same; others stay.
        kept = sorted((self.out / "runs").iterdir())
        self.assertEqual(len(kept), RUNS)
        kept[0].unlink()
        kept[1].write_bytes(kept[1].read_bytes()[:-9])
        shutil.copy(kept[2], kept[3])
        (self.out / "converge.h5").unlink()
        self.check_to_do(self.check_ok(self.converge(TINY, "--ranks-per-run", "4")), 3)
        again = self.trace()[1]
        for column in ("setting", "seed", "final_held_out_loss", "final_train_loss", "parameters_hash", "data_hash"):
            self.assertEqual(repr(again["runs"][column]), repr(groups["runs"][column]), column)
        changed = copy.deepcopy(TINY)
        changed["settings"][0]["config"] = {"zeropp": {"train_steps": 13}}
        self.check_to_do(self.check_ok(self.converge(changed)), 2)

    def test_a_setting_with_two_baselines_is_trained_once(self):
        other = {"name": "other", "level": "markov", "gradient_codecs": ["int8:64"]}
        mine = {"level": "markov", "gradient_codecs": ["int4:128"]}
        matrix = copy.deepcopy(TINY)
        matrix["settings"] = [TINY["settings"][0], other, {"name": "beside zero3", "baseline": "zero3", **mine},
                              {"name": "beside other", "baseline": "other int8:64", **mine}]
        del matrix["checks"]
        _, kept = self.ended_after_two_runs(matrix)
        self.assertTrue(2 <= kept < 6, kept)
        self.check_two_baselines(matrix, 6 - kept)
        matrix["settings"].reverse()  # kept by the name of what comes first
        self.check_two_baselines(matrix, 0)

    def check_two_baselines(self, matrix, to_do):
        result = self.check_ok(self.converge(matrix, apart=True))
        self.assertIn(f" 8 runs, 2 that train as others do, {to_do} to be done", result.stdout)
        settings, runs = (self.trace()[1][group] for group in ("settings", "runs"))
        rows = {name: [run for run, setting in enumerate(runs["setting"]) if setting == index]
                for index, name in enumerate(settings["name"])}
        self.assertEqual(set(rows), {"zero3", "other int8:64", "beside zero3 int4:128", "beside other int4:128"})
        for column in ("seed", "parameters_hash", "final_held_out_loss", "seconds"):
            one, two = ([runs[column][run] for run in rows[f"beside {name} int4:128"]] for name in ("zero3", "other"))
            self.assertEqual(one, two, column)
        self.assertEqual(len(set(runs["parameters_hash"])), 6)
        self.assertEqual(zpp.check_trace(self.out / "converge.h5").code, zpp.OK)

    def test_runs_that_are_compared_with_each_other_are_all_trained(self):
        matrix = copy.deepcopy(TINY)
        matrix["settings"] = [TINY["settings"][0], {"name": "the same", "level": "markov", "baseline": "zero3"},
                              {"name": "contract", "level": "contract"}, {"name": "again", "level": "contract"}]
        matrix["checks"] = [{"name": "rerun", "first": "contract", "second": "again"}]
        self.assertIn(" 6 runs, 6 to be done", self.check_ok(self.converge(matrix)).stdout)

    def check_rows(self, groups):
        settings, runs = groups["settings"], groups["runs"]
        by_name = {name: index for index, name in enumerate(settings["name"])}
        self.assertEqual(list(by_name), ["zero3", "zero++", "feedback int4:128", "differences", "descent int4:128",
                                         "descent int8:64/int4:128+had32", "contract",
                                         "contract hpz", "contract 2 ranks", "contract stage 0"])
        default = by_name["zero++"]
        self.assertEqual([settings[name][default] for name in ("weight_codec", "gradient_codec_intra", "hpz",
                                                               "baseline", "feedback")],
                         ["int8:256", "int4:128", 2, "zero3", "off"])
        self.assertEqual(settings["weight_bits"][by_name["zero3"]], 32)
        self.assertEqual(settings["weight_bits"][default], 8 + 16 / 256)
        # To one neighbour values of both nodes, then to the other node one.
        self.assertAlmostEqual(settings["gradient_bits"][by_name["descent int8:64/int4:128+had32"]],
                               (2 * (8 + 16 / 64) + (4 + 16 / 128)) / 3)
        self.assertEqual([runs["seed"][run] for run in range(RUNS)], [*[1, 2] * 4, *[1] * 6])
        self.assertEqual(runs["verdict"], ["VALID"] * RUNS)
        self.assertEqual(runs["bytes_inter_node"], runs["bytes_predicted_inter_node"])
        self.assertEqual(runs["data_hash"][0], runs["data_hash"][2], "zero3 and zero++ with seed 1 saw the same data")
        self.assertNotEqual(runs["data_hash"][0], runs["data_hash"][1])
        self.assertEqual(runs["world_size"], [4] * 12 + [2, 4])
        of_first = [loss for run, loss in zip(groups["evaluations"]["run"], groups["evaluations"]["loss"]) if run == 0]
        self.assertEqual((len(of_first), of_first[-1]), (3, runs["final_held_out_loss"][0]))
        self.assertTrue(math.isnan(runs["bits_per_byte"][0]), "tokens of the Markov source are no bytes")
        steps = [step for run, step in zip(groups["steps"]["run"], groups["steps"]["step"]) if run == 1]
        self.assertEqual(steps, list(range(12)))
        self.assertIn("beta=0.5", settings["feedback"][by_name["feedback int4:128"]])
        self.assertEqual(set(groups["errors"]["run"]), {4, 5, 6, 7})
        self.check_measured_errors(groups)
        self.check_levels(groups)

    def check_measured_errors(self, groups):
        """Beside the losses: medians over two seeds and the steps 0, 4 and 8."""
        done = validate.run("converge", self.out / "converge.h5", "--output", self.folder / "judged", "--fewest-seeds",
                            2, "--wide")
        self.assertEqual(done.returncode, zpp.OK, done)
        lines = done.stdout[done.stdout.index("## Errors of weights and gradients"):].split("\n\n")[1].splitlines()
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        found = {row[0]: dict(zip(head[1:], row[1:])) for row in rows}
        self.assertEqual(list(found), ["feedback int4:128", "differences"])
        errors = groups["errors"]
        for number, name in enumerate(found):
            for column, text in found[name].items():
                own = [value for run, *kind, value in zip(errors["run"], errors["kind"], errors["unit_kind"],
                                                          errors["relative_l2"])
                       if run in (4 + 2 * number, 5 + 2 * number) and " ".join(kind) == column]
                self.assertEqual((len(own), text), (6, f"{numpy.median(own):.3g}"), (name, column))
        self.assertEqual(found["feedback int4:128"]["weights block"], "0")
        self.assertLess(float(found["differences"]["gradients block"]), 1e-6)  # another order of sums
        self.assertLess(0, float(found["differences"]["weights block"]))
        self.assertLess(float(found["differences"]["weights block"]), 0.01)

    def check_levels(self, groups):
        quadratic = groups["quadratic_runs"]
        self.assertEqual((quadratic["run"], quadratic["violations"], quadratic["steps"]), ([8, 9], [0, 0], [30, 30]))
        self.assertTrue(all(0.05 <= ratio <= 1 for ratio in quadratic["largest_ratio"]), quadratic)
        checks = groups["checks"]
        self.assertEqual(list(zip(checks["name"], checks["first"], checks["second"], checks["passed"])),
                         [("hpz", 10, 11, 1), ("stages", 10, 13, 1), ("world_size", 10, 12, 1)])
        self.assertEqual(checks["difference"][:2], [0, 0])
        self.assertGreater(checks["difference"][2], 0)

    def ended_after_two_runs(self, matrix):
        """(Result, number of runs that are kept) of a job that a signal ends; its runs get longer where a busy machine
        lets the job end before the signal comes. Runs of changed sources are kept for one executable."""
        for steps in (60, 600):
            shutil.rmtree(self.out, ignore_errors=True)
            matrix["base"]["zeropp"]["train_steps"] = steps
            process = self.start(matrix)
            process.wait_for_line("run 3/")  # the first seed of the second setting
            process.process.send_signal(signal.SIGUSR1)
            result = process.end()
            if result.code != zpp.OK:
                break
        return result, len(list((self.out / "runs").iterdir()))

    def test_a_job_that_is_ended_goes_on(self):
        matrix = copy.deepcopy(TINY)
        result, kept = self.ended_after_two_runs(matrix)
        self.assertEqual(result.code, zpp.REQUEUE, result)
        self.assertFalse((self.out / "converge.h5").exists())
        self.assertTrue(2 <= kept < RUNS, kept)
        self.assertIn(f"{kept} of {RUNS} runs are kept", result.stderr)
        self.check_to_do(self.check_ok(self.converge(matrix, apart=True)), RUNS - kept)
        self.assertEqual(self.trace()[0]["verdict"], "VALID")

    def test_an_early_end_leaves_whole_seeds(self):
        matrix = copy.deepcopy(TINY)
        del matrix["settings"][2:], matrix["checks"]
        matrix["base"]["zeropp"]["train_steps"] = 600
        process = self.start(matrix)
        process.wait_for_line("run 3/4")
        process.process.send_signal(signal.SIGUSR1)
        result = process.end()
        self.assertEqual(result.code, zpp.REQUEUE, result)
        self.assertIn("or with --seeds '[1]' for the trace of these seeds", result.stderr)
        result = self.check_ok(self.converge(matrix, "--seeds", "[1]", apart=True))
        self.assertIn(" 2 runs, 0 to be done", result.stdout, result)
        self.assertEqual(self.trace()[1]["runs"]["seed"], [1, 1])

    def test_a_long_evaluation_is_cut_off(self):
        matrix = copy.deepcopy(TINY)
        matrix["base"]["zeropp"]["evaluation_batches"] = 100_000_000
        matrix["base"]["zeropp"]["model"] |= {"num_layers": 12, "hidden_size": 512}
        matrix["levels"]["quadratic"]["config"]["zeropp"]["model"]["num_layers"] = 1
        process = self.start(matrix)
        process.wait_for_line(" to be done by ")
        process.process.send_signal(signal.SIGUSR1)
        result = process.end()
        self.assertEqual(result.code, zpp.REQUEUE, result)
        self.assertIn(f"0 of {RUNS} runs are kept", result.stderr)

    def test_teams_do_the_same_runs(self):
        matrix = copy.deepcopy(TINY)
        del matrix["settings"][6:], matrix["checks"]
        losses = []
        for words in (("--ranks-per-run", 2), ()):
            self.check_ok(self.converge(matrix, *words, ranks=4 if words else 2))
            runs = self.trace()[1]["runs"]
            self.assertEqual(runs["world_size"], [2] * 10)
            losses.append((runs["final_train_loss"], runs["parameters_hash"]))
            shutil.rmtree(self.out)
        self.assertEqual(*map(repr, losses))

    def test_sources_of_ids(self):
        """Files of llm.c and Megatron-LM, whose vocabulary the matrix names: their tokens are no bytes, a text's
        are."""
        ids = [number % 300 for number in range(4000)]
        (self.folder / "ids").write_bytes(token_file_writer.llmc(ids))
        token_file_writer.write_megatron(self.folder / "pair", [[ids]], numpy.uint16)
        sources = {"llmc": {"path": "ids", "vocab_size": 300}, "megatron": {"path": "pair", "vocab_size": 300},
                   "text": {"path": str(self.text())}}
        for source, options in sources.items():
            with self.subTest(source=source):
                matrix = copy.deepcopy(TINY)
                matrix["settings"], matrix["seeds"] = [{"name": source, "level": "text"}], [1]
                del matrix["checks"], matrix["levels"]
                matrix["base"]["zeropp"]["data"] = {"source": source, **options}
                self.check_ok(self.converge(matrix, ranks=2))
                groups = self.trace()[1]
                self.assertEqual(groups["data_text"]["vocab_size"], options.get("vocab_size", 256))
                runs = groups["runs"]
                self.assertEqual(math.isnan(runs["bits_per_byte"][0]), source != "text", runs)
                self.check_accepted(self.out / "converge.h5")
                shutil.rmtree(self.out)

    def test_divergence_is_a_result(self):
        matrix = copy.deepcopy(TINY)
        matrix["base"]["optimizer"] = {"params": {"lr": 1e38}}
        matrix["settings"] = matrix["settings"][:1]
        del matrix["checks"]
        self.check_ok(self.converge(matrix, ranks=2))
        root, groups = self.trace()
        self.assertEqual(root["verdict"], "VALID")
        self.assertIn("INVALID: ", groups["runs"]["verdict"][0])
        self.assertIn("not finite", groups["runs"]["verdict"][0])

    def test_a_broken_contract_is_found(self):
        matrix = copy.deepcopy(TINY)
        matrix["settings"] = [{"name": "a", "level": "contract"},
                              {"name": "b", "level": "contract", "config": {"optimizer": {"params": {"lr": 0.002}}}}]
        matrix["checks"] = [{"name": "rerun", "first": "a", "second": "b"}]
        result = self.converge(matrix, ranks=2)
        self.assertEqual(result.code, zpp.INVALID, result)
        self.assertIn("INVALID: check rerun", result.stdout)
        self.assertEqual(self.trace()[1]["checks"]["passed"], [0])

    def test_refusals(self):
        def changed(change):
            matrix = copy.deepcopy(TINY)
            change(matrix)
            return matrix

        self.check_refused('{"settings": [', "matrix.json:1:", "malformed JSON")
        self.check_refused((zpp.SOURCE / "inputs" / "demo.json").read_text(), "is a key of zpp_train's",
                           "start zpp_train --config ", "reduced.json")
        self.check_refused(changed(lambda m: m.update(setings=[])), "unknown key setings", "nearest known: settings")
        self.check_refused(changed(lambda m: m["settings"][1].update(codecs=[])), "settings[1]", "unknown key codecs")
        self.check_refused(changed(lambda m: m["base"]["zeropp"].update(train_step=1)), "setting zero3",
                           "zeropp.train_step",
                           "zeropp.train_steps", ranks=2)
        self.check_refused(changed(lambda m: m["settings"][4].update(weight_codecs=["int4:100"])),
                           "settings[4]", "int4:100")
        self.check_refused(changed(lambda m: m["levels"]["quadratic"]["config"].update(gradient_clipping=1)),
                           "setting descent int4:128", "gradient_clipping 0", ranks=2)
        self.check_refused(changed(lambda m: m["settings"][8].update(ranks=8)), "setting contract 2 ranks",
                           "takes 8 ranks", ranks=2)
        self.check_refused(changed(lambda m: [m["base"]["zeropp"].pop(f"evaluation_{key}")
                                              for key in ("interval", "batches")]),
                           "setting zero3", "zeropp.evaluation_interval is 0", "level markov", ranks=2)
        self.check_refused(TINY, "teams of 3", words=("--ranks-per-run", "3"), ranks=2)
        result = zpp.run(1, [PROGRAM], cwd=self.folder)
        self.check_fails(result, zpp.USAGE, "--config", program="zpp_converge")

    def test_the_inputs_are_understood(self):
        """Each is planned on the ranks that it is for, up to the run that would begin."""
        for name, ranks, words in (("reduced", 4, ()), ("quadratic", 2, ()), ("full", 4, ("--data-path", self.text()))):
            process = self.start(INPUTS / f"{name}.json", *words, ranks=ranks)
            process.wait_for_line(" to be done by ")
            process.process.send_signal(signal.SIGUSR1)
            self.assertEqual(process.end().code, zpp.REQUEUE, name)

    def text(self):
        path = self.folder / "text"
        path.write_bytes(bytes(range(32, 127)) * 3000)
        return path


if __name__ == "__main__":
    zpp.main()
