# ctest: name=ramble_definition timeout=120 labels=cli,nightly processors=4
"""jobscripts/ramble: the commands of its workloads run, and its regular expressions, applied as Ramble applies them (to
the beginning of each line), find every figure in what zpp_train prints, and the right ones. A module stands in for
Ramble's that keeps what the definition declares: this does not show that Ramble loads it."""

import importlib.util
import json
import re
import shlex
import sys
import types

import zpp

FOLDER = zpp.SOURCE / "jobscripts" / "ramble"
DIRECTIVES = ("tags", "software_spec", "required_package", "executable", "workload", "workload_variable",
              "figure_of_merit_context", "figure_of_merit", "success_criteria", "archive_pattern")


def declared():
    """{directive: [(arguments, keywords), ...]}"""
    calls = {name: [] for name in DIRECTIVES}
    appkit = types.ModuleType("ramble.appkit")
    appkit.ExecutableApplication = type("ExecutableApplication", (), {})
    for name in DIRECTIVES:
        setattr(appkit, name, lambda *words, _name=name, **keywords: calls[_name].append((words, keywords)))
    sys.modules["ramble"], sys.modules["ramble.appkit"] = types.ModuleType("ramble"), appkit
    spec = importlib.util.spec_from_file_location("application", FOLDER / "applications" / "zeropp" / "application.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return calls


def figures(calls, text):
    """{(context or None, name): last value}"""
    found = {}
    contexts = {words[0]: keywords for words, keywords in calls["figure_of_merit_context"]}
    for line in text.splitlines():
        for words, keywords in calls["figure_of_merit"]:
            match = re.compile(keywords["fom_regex"]).match(line)
            for name in keywords.get("contexts", [None]) if match else []:
                context = contexts[name] if name else None
                where = context and context["output_format"].format(**re.match(context["regex"], line).groupdict())
                found[where, words[0]] = match[keywords["group_name"]]
    return found


class RambleDefinition(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.calls = declared()
        ((_, keywords),) = self.calls["success_criteria"]
        self.success = re.compile(keywords["match"])

    def succeeds(self, text):
        return any(self.success.match(line) for line in text.splitlines())

    def command(self, workload):
        """The command for 2 nodes x 2 ranks, with the values of Ramble's variables."""
        variables = {"experiment_run_dir": str(self.folder / workload), "zeropp_path": str(self.folder / "prefix"),
                     "processes_per_node": "2"}
        for words, keywords in self.calls["workload_variable"]:
            if workload in keywords["workloads"]:
                variables[words[0]] = keywords["default"]
        ((words, keywords),) = self.calls["executable"]
        self.assertTrue(keywords["use_mpi"])
        text = words[1]
        while "{" in text:
            text = text.format(**variables)
        program, *flags = shlex.split(text)
        return [str(zpp.BIN / program), *flags, "--node-size", "2", "--backend", "host"]

    def test_figures_of_every_workload(self):
        inputs = self.folder / "prefix" / "share" / "zeropp"
        inputs.mkdir(parents=True)
        (inputs / "inputs").symlink_to(zpp.SOURCE / "inputs")
        names = [words[0] for words, _ in self.calls["workload"]]
        self.assertEqual(names, ["zero3", "qwz", "hpz", "qgz", "zeropp"])
        features = set()
        for workload in names:
            with self.subTest(workload):
                (self.folder / workload).mkdir()
                done = self.check_ok(zpp.launch([(4, self.command(workload))]).end())
                summary = json.loads((self.folder / workload / "summary.json").read_text())
                zero, steps = summary["config"]["zero_optimization"], summary["steps"]
                features.add((zero["zero_quantized_weights"], zero["zero_hpz_partition_size"],
                              zero["zero_quantized_gradients"]))
                self.assertTrue(self.succeeds(done.stdout), done)
                found = figures(self.calls, done.stdout)
                self.assertEqual({name for where, name in found if where is None},
                                 {words[0] for words, keywords in self.calls["figure_of_merit"]
                                  if "contexts" not in keywords})
                self.assertEqual(found[None, "Verdict"], "VALID")
                for step in (10, 12):
                    values = {name: float(value) for (where, name), value in found.items() if where == f"step {step}"}
                    self.assertEqual(set(values), {"Loss", "Gradient norm", "Step time", "Throughput",
                                                   "Bytes across nodes"})
                    self.assertAlmostEqual(values["Loss"], steps["loss"][step - 1], delta=1e-4)
                    self.assertAlmostEqual(values["Gradient norm"], steps["grad_norm"][step - 1], delta=1e-3)
                    self.assertAlmostEqual(values["Step time"], steps["time"][step - 1] * 1e3, delta=0.51)
                    self.assertAlmostEqual(values["Throughput"], steps["tokens_per_second"][step - 1], delta=0.51)
                    self.assertAlmostEqual(values["Bytes across nodes"], steps["bytes_inter_node"][step - 1] / 1e6,
                                           delta=0.0051 * steps["bytes_inter_node"][step - 1] / 1e6)
                self.assertEqual(float(found[None, "Last loss"]), float(found["step 12", "Loss"]))
        self.assertEqual(len(features), 5)

    def test_a_run_that_is_not_valid_is_no_success(self):
        for text in ("INVALID: counted bytes differ  out/train.h5", "zpp_train: error: no such file", "VALID", ""):
            self.assertFalse(self.succeeds(text), text)
        self.assertEqual(figures(self.calls, "INVALID: bytes  out/train.h5"), {(None, "Verdict"): "INVALID: bytes"})


if __name__ == "__main__":
    zpp.main()
