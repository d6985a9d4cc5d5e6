# ctest: name=gpu_tests_script labels=cli,nightly timeout=60
"""The script that runs the GPU tests elsewhere names programs that exist, and refuses what it does not know."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
SCRIPT = SOURCE / "jobscripts" / "local" / "gpu_tests.sh"


def run(*words):
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False)


class GpuTests(unittest.TestCase):
    def test_every_program_is_a_test(self):
        names = {name for folder in ("gpu", "mpi") for file in (SOURCE / "tests" / folder).glob("*.cpp")
                 for name in re.findall(r"^// ctest:.*name=(\S+)", file.read_text(), re.MULTILINE)}
        done = run("--dry-run")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        programs = re.findall(r"tests/bin/test_(\S+)", done.stdout)
        self.assertGreater(len(programs), 15)
        self.assertLessEqual(set(programs), names)
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
            self.assertIn(f"--tool {tool} ", done.stdout)

    def test_parts(self):
        self.assertNotIn("compute-sanitizer", run("--dry-run", "--tools", "").stdout)
        one = run("--dry-run", "--tools", "initcheck", "--no-tests")
        self.assertEqual((one.returncode, one.stderr), (0, ""), one)
        self.assertNotIn("ctest", one.stdout)
        self.assertEqual(set(re.findall(r"--tool (\S+)", one.stdout)), {"initcheck"})

    def test_without_the_sanitizer_nothing_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bash", "readlink", "dirname", "basename", "env"):
                pathlib.Path(folder, name).symlink_to(shutil.which(name))
            done = subprocess.run([SCRIPT, "--machine", "here", "--results", f"{folder}/results"], capture_output=True,
                                  text=True, check=False,
                                  env={**os.environ, "PATH": folder})
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done)
            self.assertTrue(done.stderr.startswith("gpu_tests: error: no compute-sanitizer: "), done)
            self.assertFalse(pathlib.Path(folder, "results").exists())

    def test_unknown_arguments_are_refused(self):
        for words in (("--nothing", "1"), ("word",), ("--build",), ("--tools", "memcheck,leakcheck")):
            done = run(*words)
            self.assertEqual((done.returncode, done.stderr.count("gpu_tests: error: ")), (2, 1), done)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
