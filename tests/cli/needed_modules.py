# ctest: name=needed_modules timeout=120 labels=cli,nightly
"""Scripts of jobscripts/ ask for the Python modules that they need after their runs before the first: each names what
the commands that it calls import, and refuses a Python without it in one line, with the remedy, and leaves nothing.
Examples say what to install."""

import ast
import os
import re
import sys

import local_script
import zpp
from zpp_validate.commands import COMMANDS

JOBSCRIPTS = zpp.SOURCE / "jobscripts"
LOCAL = JOBSCRIPTS / "local"
JUDGE = ("zpp_validate.checkers.check_trace",)  # what jobscripts/study.py imports when it needs it
COLLECT = (*JUDGE, "zpp_validate.tables.study_plot", "zpp_validate.tables.study_table")
NEEDED = re.compile(
    r"""(?:need_modules|missing_modules) "\$(?:table_)?python" (?:"[^"]*"|\S+)([\w. ]*)|"""
    r"""study_modules\+?=\(([\w ]*)\)""")


def source_of(module):
    path = zpp.SOURCE / "validation" / module.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)


def imported(*modules):
    """Modules of others that these modules import, directly or by our modules, inside of functions too."""
    seen, others, todo = set(), set(), list(modules)
    while todo:
        module = todo.pop()
        if module in seen or source_of(module) is None:
            continue
        seen.add(module)
        for node in ast.walk(ast.parse(source_of(module).read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                [node.module, *(f"{node.module}.{alias.name}"
                                for alias in node.names)] if isinstance(node, ast.ImportFrom) else []
            todo += [name for name in names if name.startswith("zpp_validate")]
            others |= {name.split(".")[0] for name in names if not name.startswith("zpp_validate")}
    return others - set(sys.stdlib_module_names)


def called(text):
    """Modules of what a script calls after its runs."""
    commands = set(re.findall(r'python" *(?:\\\n *)?validation/zpp-validate ([a-z0-9-]+)', text))
    modules = [f"zpp_validate.{COMMANDS[name].module}" for name in commands]
    modules += COLLECT if "study.py collect" in text else JUDGE if "study.py run" in text else ()
    return imported(*modules)


class NeededModules(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.bare = self.folder / "bare_python"  # has what comes with Python alone
        self.bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -S "$@"\n')
        self.bare.chmod(0o755)
        self.build = self.folder / "build"  # programs that none of these scripts comes to start
        (self.build / "bin").mkdir(parents=True)
        for name in ("train", "sweep", "converge", "kernels", "plan", "info"):
            program = self.build / "bin" / f"zpp_{name}"
            program.write_text("#!/bin/sh\nexit 1\n")
            program.chmod(0o755)

    def test_each_script_names_what_its_commands_import(self):
        shared = (JOBSCRIPTS / "job.sh").read_text()
        asking = 0
        for path in [*sorted(LOCAL.glob("*.sh")), *sorted(JOBSCRIPTS.glob("*.sbatch"))]:
            text = path.read_text()
            if "run_study" in text:
                text += shared[shared.index("study_modules=("):]
            named = {module for groups in NEEDED.findall(text) for group in groups for module in group.split()}
            with self.subTest(path.name):
                self.assertEqual(called(text) - named, set())
            asking += bool(called(text))
        self.assertGreater(asking, 8)

    def test_local_scripts_refuse_a_python_that_lacks_them(self):
        place = ["--results", self.folder / "results"]
        machine = [*place, "--machine", "here", "--build", self.build]
        host = ["--gpus", "2", "--backend", "host"]
        for script, words, modules in (
                ("regression.sh", ["name", *place, "--table-python", self.bare], "h5py, numpy, scipy, matplotlib"),
                ("convergence.sh", [*machine, "--table-python", self.bare], "h5py, numpy, scipy, matplotlib"),
                ("train_shapes.sh", [*machine, *host, "--shapes", "tiny", "--layouts", "node", "--python", self.bare],
                 "torch"),
                ("sweep.sh", [*machine, *host, "--layouts", "node", "--python", self.bare], "torch")):
            with self.subTest(script):
                done = local_script.run(LOCAL / script, *words, cwd=zpp.SOURCE)
                self.refused(done, f"{script.removesuffix('.sh')}: error: '{self.bare}' has no Python module "
                             f"{modules}: ")
                self.assertRegex(done.stderr, r"name another Python with --(table-)?python")

    def test_the_python_of_the_build_is_asked_first(self):
        (self.build / "CMakeCache.txt").write_text(f"ZEROPP_PYTHON:INTERNAL={self.bare}\n")
        done = local_script.run(LOCAL / "regression.sh", "name", "--build", self.build,
                                "--results", self.folder / "results", cwd=zpp.SOURCE)
        self.refused(done, f"regression: error: '{self.bare}' has no Python module ")

    def test_local_scripts_refuse_what_is_no_python(self):
        done = local_script.run(LOCAL / "convergence.sh", "--results", self.folder / "results", "--machine", "here",
                                "--build", self.build, "--table-python", "false", cwd=zpp.SOURCE)
        self.refused(done, "convergence: error: 'false' runs no Python program: ")

    def test_jobs_refuse_a_python_that_lacks_them(self):
        job = {**os.environ, "SLURM_SUBMIT_DIR": str(zpp.SOURCE), "SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "job",
               "SLURM_JOB_NUM_NODES": "2",
               "SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "ZEROPP_PYTHON": str(self.bare)}
        for script, words, modules in (("regression", ["name"], "h5py, numpy, scipy, matplotlib"),
                                       ("train", [], "h5py, numpy"),
                                       ("fabric", ["before.json"], "h5py, numpy, prometheus_client, scipy"),
                                       ("fabric", [], "prometheus_client"),
                                       ("sweep", [], "h5py, matplotlib, numpy, scipy"),
                                       ("convergence", [], "h5py, matplotlib, numpy, scipy")):
            with self.subTest(script):
                done = local_script.run("bash", JOBSCRIPTS / f"{script}.sbatch", *words,
                                        "--results", self.folder / "results", env=job)
                self.refused(done, f"job: error: '{self.bare}' has no Python module {modules}: ")
                self.assertIn("name another Python with ZEROPP_PYTHON", done.stderr)

    def test_a_study_is_not_begun(self):
        study = self.write_json("study.json", {"name": "study", "app": "zpp_train", "nodes": 1, "ranks_per_node": 1,
                                               "flags": zpp.TINY})
        done = local_script.run(self.bare, JOBSCRIPTS / "study.py", "run", study, "0",
                                "--results", self.folder / "results")
        self.refused(done, "study: error: ", code=zpp.ENVIRONMENT, modules="h5py, numpy")
        self.assertRegex(done.stderr, r"for example /usr/bin/python3 .*/study\.py; in jobs ZEROPP_PYTHON names it$")
        linked = self.write_json("network.json", {"name": "network", "app": "zpp_train", "nodes": 2,
                                                  "ranks_per_node": 1, "flags": zpp.TINY,
                                                  "axes": {"rate": {"1gbit": {"network": {"rate": "1gbit"}}}}})
        done = local_script.run(self.bare, LOCAL / "netns_study.py", linked, "--results", self.folder / "results")
        self.refused(done, "netns_study: error: ", code=zpp.ENVIRONMENT, modules="h5py, numpy")

    def test_examples_say_what_to_install(self):
        examples = sorted((zpp.SOURCE / "examples").glob("*/*.py"))
        self.assertGreater(len(examples), 4)
        for path in examples:
            with self.subTest(path.parent.name + "/" + path.name):
                done = local_script.run(self.bare, path, cwd=self.folder)
                self.refused(done, f"{path}: error: ", code=1, modules="has no module torch")
                self.assertIn("pip install 'torch>=2.9'", done.stderr)

    def refused(self, done, begin, code=zpp.USAGE, modules=""):
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1), done)
        self.assertTrue(done.stderr.startswith(begin), done)
        self.assertIn(modules, done.stderr)
        self.assertFalse((self.folder / "results").exists(), done)


if __name__ == "__main__":
    zpp.main()
