# ctest: name=build_info timeout=60 labels=cli,unit
"""A program says that its sources differ from its commit where a tracked file does, or where git does not know a source
file, as a new codec is. Ignored files, and those outside of apps, kernels and lib, say nothing of it."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import zpp

SCRIPT = zpp.SOURCE / "cmake" / "ZeroppBuildInfo.cmake"


class Dirty(unittest.TestCase):
    def setUp(self):
        if not shutil.which("git"):
            self.skipTest("git is not installed")
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.checkout = pathlib.Path(place.name, "checkout")
        self.header = pathlib.Path(place.name, "build.hpp")
        for name, text in {"kernels/codec/formats/int4.hpp": "\n", "docs/page.md": "\n",
                           ".gitignore": "*.pyc\n"}.items():
            self.write(name, text)
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "commit", "--quiet", "-m", "A commit")

    def write(self, name, text="changed\n"):
        path = self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.checkout, check=True,
                       env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})

    def dirty(self):
        subprocess.run(["cmake", f"-DHEADER={self.header}", f"-DSOURCE={self.checkout}", "-DGIT=git", "-P", SCRIPT],
                       check=True)
        (line,) = [line for line in self.header.read_text().splitlines() if "git_dirty" in line]
        return line.endswith("= true;")

    def test_files_as_committed(self):
        self.assertFalse(self.dirty())

    def test_a_tracked_file_differs(self):
        self.write("docs/page.md")
        self.assertTrue(self.dirty())

    def test_a_source_that_git_does_not_know(self):
        self.write("kernels/codec/formats/mine.hpp")
        self.assertTrue(self.dirty())

    def test_other_files_that_git_does_not_know(self):
        self.write("mine.json")
        self.write("kernels/module.pyc")
        self.assertFalse(self.dirty())


if __name__ == "__main__":
    zpp.main()
