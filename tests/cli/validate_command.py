# ctest: name=validate_command timeout=240 labels=cli,oracle
"""zpp-validate itself: every command begins its help with an example that its parser takes; a name that is none
gets the nearest; and a command imports no other's modules."""

import ast
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import validate
from zpp_validate import command_line
from zpp_validate.commands import COMMANDS

VALIDATION = pathlib.Path(os.environ["ZEROPP_SOURCE"]) / "validation"
NEEDS_TORCH = {"torch-oracle"}  # even for the list of its flags
INVALID, USAGE, ENVIRONMENT, IO = 1, 2, 3, 5
# Words of each command that reads files. INPUT stands for each file and FOLDER for each folder; OUTPUT is in a folder
# that is absent.
READING = {
    "check": ["INPUT"], "checkpoint": ["FOLDER"], "exported-weights": ["FOLDER", "INPUT"],
    "copy-drift": ["FOLDER", "--trace", "INPUT"], "summarize": ["INPUT"], "report": ["INPUT", "--output", "OUTPUT"],
    "html": ["INPUT", "--output", "OUTPUT"], "plot": ["INPUT", "--output", "OUTPUT"],
    "plan-plot": ["INPUT", "--output", "OUTPUT"], "timeline": ["INPUT", "--output", "OUTPUT"],
    "converge": ["INPUT", "--output", "OUTPUT"], "power": ["INPUT"], "size-trend": ["INPUT"],
    "compare": ["INPUT", "INPUT"],
    "expected": ["INPUT", "--cluster", "INPUT"],
    "gate": ["INPUT", "--baseline", "OUTPUT"], "prometheus": ["INPUT"], "train-table": ["FOLDER"],
    "sweep-table": ["INPUT"], "exact-bits": ["INPUT", "--output", "OUTPUT"],
    "network-table": ["INPUT", "--output", "OUTPUT"], "planner": ["--program", "OUTPUT", "--clusters", "FOLDER"],
    "oracle": ["gradients", "FOLDER"], "torch-oracle": ["FOLDER"], "transformers": ["loss", "FOLDER", "INPUT"],
    "torch-curve": ["INPUT", "--output", "OUTPUT"],
    "curve-table": ["INPUT", "--curves", "INPUT", "--output", "OUTPUT"],
}
WRITING = {"peer-fsdp2", "peer-collectives", "raw-copy"}  # read nothing
# Words of Python, which are not for users.
PYTHON = (r"[a-z]Error\b|None\b|Expecting|'(dict|list|str|int|float)'|codec can't|indices|literal|argument \d|unpack|"
          r"recursion|Unable to|Can't|sblock|No module")
JUDGING = {"check", "summarize", "html", "gate"}  # a file of another kind is INVALID


# Prints the help of the commands that it is given, each in a process of its own, so that none finds what another
# imported.
HELPS = """
import json, multiprocessing, sys, validate
with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    helps = pool.starmap(validate.run, [(name, "--help") for name in sys.argv[1:]], chunksize=1)
print(json.dumps([[done.returncode, done.stdout, done.stderr] for done in helps]))
"""


def run(*words, program=VALIDATION / "zpp-validate", **options):
    """The program itself; what does not need one goes through validate.run()."""
    return subprocess.run([sys.executable, program, *words], capture_output=True, text=True, timeout=60, check=False,
                          **options)


def damage(path):
    """Writes a trace one of whose groups cannot be opened."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs.update(app="train", schema="zeropp-trace")
        address = h5py.h5o.get_info(file.create_group("steps").id).addr
    data = bytearray(path.read_bytes())
    data[address] = 99  # the version of its header
    path.write_bytes(data)


def helps_without(module, names):
    """{name: result} of the helps of these commands in a Python that has no such module."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, f"{module}.py").write_text(f"raise ModuleNotFoundError('none', name='{module}')\n")
        path = os.pathsep.join([folder, os.environ["PYTHONPATH"]])
        done = run("-c", HELPS, *names, program="-B", env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done
    return {name: subprocess.CompletedProcess(name, *found) for name, found in zip(names, json.loads(done.stdout))}


class ValidateCommand(unittest.TestCase):
    def test_help(self):
        listed = run("--help")
        self.assertEqual((listed.returncode, listed.stderr), (0, ""), listed)
        self.assertTrue(listed.stdout.startswith("example: zpp-validate check "))
        for name, command in COMMANDS.items():
            self.assertRegex(listed.stdout, rf"(?m)^  {name} +{re.escape(command.summary)}$")
            done = validate.run(name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertTrue(done.stdout.startswith(f"example: zpp-validate {name} {command.example}\n"), done)
            self.assertIn(command.summary, done.stdout)
            if name in NEEDS_TORCH and "The list of flags needs the module torch" in done.stdout:
                continue
            flags = {word for word in shlex.split(command.example) if word.startswith("-")}
            self.assertEqual(flags - set(re.findall(r"(?<!\w)--?[a-z][\w-]*", done.stdout.partition("\n")[2])),
                             set(), name)
        self.assertEqual(validate.run("html", "--help-all").stdout, validate.run("html", "--help").stdout,
                         "zpp_plan report --help-all")

    def test_every_module_with_a_main_is_a_command(self):
        package = VALIDATION / "zpp_validate"
        found = {f"{path.parent.name}.{path.stem}" for path in package.glob("*/*.py")
                 if any(isinstance(node, ast.FunctionDef) and node.name == "main" and len(node.args.args) == 1
                        for node in ast.parse(path.read_text()).body)}
        self.assertEqual(found, {command.module for command in COMMANDS.values()})

    def test_a_module_that_python_lacks(self):
        for name, module, package in (("check", "h5py", "h5py"), ("html", "jinja2", "jinja2"),
                                      ("compare", "scipy", "scipy"),
                                      ("prometheus", "prometheus_client", "prometheus-client")):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, f"{module}.py").write_text(f"raise ModuleNotFoundError('none', name='{module}')\n")
                done = run(name, "no.h5", env={**os.environ, "PYTHONPATH": folder})
                self.assertEqual((done.returncode, done.stdout), (ENVIRONMENT, ""), done)
                self.assertRegex(done.stderr, rf"^zpp-validate {name}: error: \S+ has no module {module}: install "
                                 rf"{module} there \(Debian: python3-{package}\), or .*\n$")

    def test_without_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "torch.py").write_text("raise ModuleNotFoundError('none', name='torch')\n")
            file = pathlib.Path(folder, "file")
            file.touch()
            path = os.pathsep.join([folder, os.environ["PYTHONPATH"]])
            for words in (["transformers", "loss", folder, file], ["transformers", "make", folder],
                          ["transformers", "gradients"], ["torch-oracle", folder], ["peer-fsdp2"],
                          ["peer-collectives"]):
                with self.subTest(words[0]):
                    done = run(*words, env={**os.environ, "PYTHONPATH": path})
                    self.assertEqual((done.returncode, done.stdout), (ENVIRONMENT, ""), done)
                    self.assertRegex(done.stderr, rf"^zpp-validate {words[0]}: error: \S+ has no module torch: install "
                                     r"torch there, or [^\n]*\n$")

    def test_help_without_a_module(self):
        """Every command says what it does where Python has no NumPy; where a command needs none, the help is the whole
        one."""
        names = [name for name in COMMANDS if name not in NEEDS_TORCH]
        found, short = helps_without("numpy", names), 0
        for name in names:
            done, command = found[name], COMMANDS[name]
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertTrue(done.stdout.startswith(f"example: zpp-validate {name} {command.example}\n\n"), done)
            self.assertIn(command.summary, done.stdout)
            short += "The list of flags needs the module numpy" in done.stdout
        self.assertGreater(short, 3)
        self.assertIn("usage: zpp-validate power TRACE... [--only SETTING]", found["power"].stdout)
        self.assertIn("The list of flags needs the module numpy", found["power"].stdout)

    def test_refusals(self):
        for words, part in (([], "usage: zpp-validate"), (["chekc"], "(nearest: check)"), (["--frob"], '"--frob"')):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""), done)
            self.assertIn(part, done.stderr)

    def refused(self, code, name, words, *parts):
        done = validate.run(name, *words)
        if name in NEEDS_TORCH and "has no module torch" in done.stderr:
            return
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertRegex(done.stderr, rf"\Azpp-validate {name}: error: [^\n]+: [^\n]+\n\Z")
        self.assertNotRegex(done.stderr, PYTHON)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_files_that_cannot_be_read(self):
        """Every command says so in one line, with code 5: of a file that is not there, and of a folder in the place of
        a file or the other way round."""
        self.assertEqual(set(READING) | WRITING, set(COMMANDS))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "file.h5")
            file.touch()
            places = {"OUTPUT": f"{folder}/none/out.json", "INPUT": str(file), "FOLDER": folder}
            for name, words in READING.items():
                for index, word in enumerate(words):
                    other = {"INPUT": folder, "FOLDER": str(file)}.get(word)
                    for wrong in [f"{folder}/nowhere", other] if other else []:
                        if name in ("compare", "gate") and wrong == folder:
                            continue  # they take folders of traces
                        with self.subTest(name, word=index, wrong=wrong):
                            given = [places.get(each, each) for each in words]
                            given[index] = wrong
                            if name == "compare":  # which reads one after the other
                                given = [wrong] * 2
                            self.refused(IO, name, given, f"{wrong} cannot be read: ",
                                         ": name file.h5 in it" if wrong == folder else ": check the path")

    def test_names_that_are_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = pathlib.Path(folder, "fifo")
            os.mkfifo(fifo)
            for words in (["check", fifo], ["compare", fifo, fifo], ["html", fifo, "--output", folder]):
                self.refused(IO, words[0], words[1:], f"{fifo} cannot be read: it is no regular file: check the path")
            self.refused(IO, "check", [folder], f"{folder} cannot be read: Is a directory: check the path")
            for words in (["compare", "", VALIDATION], ["check", ""], ["checkpoint", ""], ["html", "a", "--output="]):
                self.refused(USAGE, words[0], words[1:], "the name is empty: try --help")

    def test_files_of_another_kind(self):
        """They are named in one line, with code 2; a trace that is cut off is damaged, with code 5."""
        import h5py

        with tempfile.TemporaryDirectory() as folder:
            none, empty, other, whole, cut, bad = (pathlib.Path(folder, name) for name in
                                                   ("none", "empty", "other.json", "whole.h5", "cut.h5", "bad.h5"))
            texts = {"torn": '{"a": ', "deep": "[" * 100000, "deep objects": '{"a": ' * 3000,
                     "list": "[]", "null": "null", "zpp_plan": '{"app": "zpp_plan"}',
                     "sweep": '{"schema": "zeropp-sweep", "results": [1], "config": null}',
                     "train": '{"schema": "zeropp-trace", "app": "train", "steps": [], "config": [], "verdict": 1}'}
            for name, text in texts.items():
                pathlib.Path(folder, name).write_text(text)
            none.write_bytes(b"\xff none of them \n")
            empty.touch()
            other.write_text('{"a": 1}')
            with h5py.File(whole, "w") as file:
                file["values"] = list(range(1000))
            cut.write_bytes(whole.read_bytes()[:3000])
            damage(bad)
            for name, words in READING.items():
                if name in JUDGING or "FOLDER" in words or "--program" in words:
                    continue
                for path in (none, empty, other, whole, *(pathlib.Path(folder, text) for text in texts)):
                    with self.subTest(name, path=path.name):
                        given = [{"INPUT": str(path), "OUTPUT": f"{folder}/{name}"}.get(word, word) for word in words]
                        self.refused(USAGE, name, given, str(path))
            self.refused(USAGE, "converge", [str(whole), "--output", f"{folder}/converge"],
                         f"{whole} is no trace of any program: name the converge.h5")
            for name in ("report", "plot", "plan-plot", "timeline", "converge", "power", "compare", "torch-curve"):
                for path in (cut, bad):
                    with self.subTest(name, path=path.name):
                        places = {"INPUT": str(path), "OUTPUT": f"{folder}/{name}"}
                        self.refused(IO, name, [places.get(word, word) for word in READING[name]],
                                     f"{path} is damaged: copy it again, or repeat the run")
            for path, reason in ((cut, "cannot be read: it is damaged: copy it again, or repeat the run"),
                                 (bad, "cannot be read: it is damaged: copy it again, or repeat the run"),
                                 (whole, "it is no trace of zeropp: name one that a program wrote")):
                with self.subTest("check", path=path.name):
                    done = validate.run("check", path)
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (INVALID, f"INVALID: {reason}\n", ""))
                    done = validate.run("html", path, other, "--output", f"{folder}/html")
                    self.assertEqual((done.returncode, done.stderr), (INVALID, ""), done)
                    self.assertIn(f"not all VALID\n{path}: INVALID: {reason}\n{other}: INVALID: ", done.stdout)
            self.refused(IO, "train-table", [folder], f"{folder}/runs.tsv")
            pathlib.Path(folder, "runs.tsv").write_text("a\tb\n1\t2\n")
            self.refused(USAGE, "train-table", [folder], f"{folder} is no study: it has no session")
            pathlib.Path(folder, "runs.tsv").unlink()
            self.refused(USAGE, "checkpoint", [folder], f"{folder} holds no checkpoint")

    def test_files_of_a_checkpoint(self):
        import h5py

        with tempfile.TemporaryDirectory() as folder:
            step, trace = pathlib.Path(folder, "step-100"), pathlib.Path(folder, "train.h5")
            step.mkdir()
            with h5py.File(trace, "w") as file:
                file.create_group("units")
            weights, manifest = step / "model.safetensors", step / "manifest.json"
            for name, words, path, begin in (("checkpoint", [folder], manifest, "step-100  "),
                                             ("exported-weights", [step, trace], weights, "")):
                for text, reason in (("", "it is empty"), ("12345678{", "it is no JSON at line 1, column 2"),
                                     ("12345678" + "[" * 100000, "it is nested too deeply")):
                    with self.subTest(name, reason=reason):
                        path.write_text(text if path == weights else text.removeprefix("12345678"))
                        done = validate.run(name, *words)
                        self.assertEqual((done.returncode, done.stdout, done.stderr),
                                         (INVALID, f"{begin}INVALID: {path.name}: {reason}\n", ""))
            manifest.unlink()
            self.assertEqual(validate.run("checkpoint", folder).stdout,
                             "step-100  INVALID: manifest.json: No such file or directory\n")

    def test_programs_that_say_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "zpp_plan")
            for text, code, part in (("exit 0", USAGE, "wrote no JSON: name a zpp_plan with --program"),
                                     ("echo 'zpp_plan: error: a.json: it is empty: correct it' >&2; exit 5", IO,
                                      "ended with 5: a.json: it is empty: correct it")):
                program.write_text(f"#!/bin/sh\n{text}\n")
                program.chmod(0o755)
                with self.subTest(code=code):
                    self.refused(code, "planner", ["--program", program], f"{program} ", part)

    def test_a_study_without_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "runs.tsv").touch()
            self.refused(USAGE, "train-table", [folder], f"{folder} is no study: runs.tsv lists no run: name a folder")

    def test_summaries_of_another_kind(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "runs.tsv").write_text("session\tname\tkind\texit\tstem\twarmup\tshape\tlayout\n"
                                                        "1\tnone\tzeropp\t0\trun\t0\tshape\tlayout")
            summary = pathlib.Path(folder, "runs", "run.json")
            summary.parent.mkdir()
            for text in ("", "{", "[]", "null", '{"steps": 1, "config": []}'):
                summary.write_text(text)
                with self.subTest("train-table", text=text):
                    done = validate.run("train-table", folder)
                    self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done)
                    self.assertIn(f"{summary} is no summary of a run: ", done.stderr)
                    self.assertNotRegex(done.stderr, PYTHON)

    def test_measuring(self):
        """Commands that measure a host: what cannot be used is told as by commands that read files."""
        with tempfile.TemporaryDirectory() as folder:
            output = ["--json", f"{folder}/out.json"]
            self.refused(USAGE, "raw-copy", ["--bytes", "4", *output], "--bytes is less than 8 bytes a thread")
            self.refused(ENVIRONMENT, "raw-copy", ["--bytes", str(10**15), *output], ": lower --bytes")

    def test_what_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "runs.tsv").write_text("session\tname\tkind\texit\tstem\twarmup\tshape\tlayout\n"
                                                        "1\tnone\tzeropp\t3\trun\t0\tshape\tlayout")
            done = validate.run("train-table", folder, "--output", f"{folder}/none/table.md")
            self.assertEqual(done.returncode, IO, done)
            self.assertEqual(done.stderr, f"zpp-validate train-table: error: {folder}/none/table.md cannot be read or "
                             "written: No such file or directory: check the path\n")

    def test_what_a_command_reads_is_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "kept.json")
            path.write_text("{}")
            link = path.with_name("link.json")
            link.symlink_to(path)
            for name, option in (("compare", "--json"), ("gate", "--json"), ("prometheus", "-o"), ("timeline", "-o"),
                                 ("sweep-table", "--output"), ("exact-bits", "--output"), ("torch-curve", "--output")):
                with self.subTest(name):
                    words = [path if word == "INPUT" else word for word in READING[name] if word not in
                             ("--output", "OUTPUT", "--baseline")] + (["--baseline", path] if name == "gate" else [])
                    done = validate.run(name, *words, option, link)
                    self.assertEqual(done.returncode, USAGE, done)
                    self.assertIn("kept.json is read and would be overwritten: write to another file\n", done.stderr)
                    self.assertEqual(path.read_text(), "{}")

    def test_usage_errors_are_one_line(self):
        for words, part in (
                (["report", "--outptu", "x", "a.h5"], "there is no option --outptu (nearest: --output): try --help"),
                (["check", "a.h5", "--frob=1"], "there is no option --frob: try --help"),
                (["plot", "a.json", "--output", "x", "--place", "in-plac"], "(nearest: in-place): try --help"),
                (["transformers", "los", "a", "b"],
                 "'los' (choose from 'loss', 'make', 'gradients') (nearest: loss): try --help"),
                (["transformers", "loss", "a", "b", "--tolerence", "1"],
                 "no option --tolerence (nearest: --tolerance): try"),
                (["converge", "a.h5", "--output", "x", "--margn", "1"], "no option --margn (nearest: --margin): try"),
                (["gate", "a.h5"], "one of the arguments --record --baseline is required: try --help"),
                (["gate", "a.h5", "--basline", "x"], "there is no option --basline (nearest: --baseline): try --help"),
                (["check"], "the following arguments are required: trace: try --help"),
                (["power", "a.h5", "--margin", "x"], "argument --margin: x is not between 0 and 1: try --help"),
                (["train-table", "a", "--peak-tflops", "0"], "--peak-tflops: 0 is not a number above 0: try --help"),
                (["train-table", "a", "--output"], "argument --output: expected one argument: try --help")):
            with self.subTest(words):
                self.refused(USAGE, words[0], words[1:], part)
        for name in COMMANDS:
            with self.subTest(name):
                self.refused(USAGE, name, ["--bogus"], "there is no option --bogus")

    def test_a_limit_that_nothing_exceeds_is_refused(self):
        limits = {("compare", "a", "b"): ("--threshold", "--level", "--confidence"),
                  ("gate", "a", "--baseline", "b"): ("--threshold", "--margin", "--norm-margin"),
                  ("converge", "a.h5", "--output", "x"): ("--margin",), ("power", "a.h5"): ("--margin",),
                  ("curve-table", "a.h5", "--curves", "b", "--output", "x"): ("--tolerance",),
                  ("oracle", "gradients", "a"): ("--tolerance",)}
        for words, flags in limits.items():
            for flag in flags:
                for value in ("1", "1e9", "inf", "nan", "0", "-0.5", "x"):
                    with self.subTest(words=words, flag=flag, value=value):
                        self.refused(USAGE, words[0], [*words[1:], f"{flag}={value}"],
                                     f"argument {flag}: {value} is not between 0 and 1")
        self.refused(USAGE, "gate", ["a", "--baseline", "b", "--warmup=-1"],
                     "argument --warmup: -1 is no whole number from 0")

    def test_a_command_is_alone(self):
        """Python itself says what was imported."""
        for words, absent in ((["--help"], ("numpy", "h5py", "argparse")),
                              (["sweep-table", "--help"], ("numpy", "h5py", "matplotlib")),
                              (["check", "--help"], ("matplotlib", "scipy", "zpp_validate.tables"))):
            done = run("-X", "importtime", str(VALIDATION / "zpp-validate"), *words, program="-B")
            self.assertEqual(done.returncode, 0, done)
            imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
            self.assertIn("zpp_validate.commands", imported)
            self.assertEqual(imported & set(absent), set(), words)

    def test_from_anywhere(self):
        """Through a link, in a folder elsewhere, without PYTHONPATH, and where Python leaves out the folder of its
        script."""
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder) / "zpp-validate"
            link.symlink_to(VALIDATION / "zpp-validate")
            for isolated in ([], ["-I"]):
                done = run(*isolated, str(link), "--help", program="-B", cwd=folder,
                           env={**os.environ, "PYTHONPATH": ""})
                self.assertEqual((done.returncode, done.stdout), (0, run("--help").stdout), done)

    def test_details(self):
        self.assertEqual(command_line.details("Title.\n\nusage: zpp-validate x\n\nMore.\nAnd more.\n\nLast.\n"),
                         "More.\nAnd more.\n\nLast.")
        self.assertEqual(command_line.details(""), "")


if __name__ == "__main__":
    unittest.main()
