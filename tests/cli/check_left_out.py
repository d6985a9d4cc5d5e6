# ctest: name=check_left_out labels=cli timeout=60
"""The list of skipped tests at the end of ./check names each test and its reason, as CTest writes them."""

import subprocess
import sys
import unittest

import left_out
import zpp

LISTS = """
cmake_minimum_required(VERSION 3.25)
project(p LANGUAGES NONE)
enable_testing()
add_test(NAME passes COMMAND true)
add_test(NAME no_gpu COMMAND sh -c "echo first; echo skipped: no GPU is visible; exit 77")
add_test(NAME no_torch COMMAND sh -c "echo 'skipped: no module torch: run ./check --torch'; exit 77")
add_test(NAME no_torch_too COMMAND sh -c "echo 'skipped: no module torch: run ./check --torch'; exit 77")
add_test(NAME silent COMMAND sh -c "exit 77")
set_tests_properties(no_gpu no_torch no_torch_too silent PROPERTIES SKIP_RETURN_CODE 77)
"""


class LeftOut(zpp.TestCase):
    def test_a_run_of_ctest(self):
        (self.folder / "CMakeLists.txt").write_text(LISTS)
        build, file = self.folder / "build", self.folder / "check.xml"
        for command in (["cmake", "-G", "Ninja", "-S", self.folder, "-B", build],
                        ["ctest", "--test-dir", build, "--output-junit", file]):
            subprocess.run(command, check=True, capture_output=True, timeout=50)
        done = subprocess.run([sys.executable, left_out.__file__, file], check=True, capture_output=True, text=True)
        self.assertEqual(done.stdout.splitlines(),
                         ["check: left out: no_torch, no_torch_too: no module torch: run ./check --torch",
                          "check: left out: no_gpu: no GPU is visible",
                          "check: left out: silent: no reason given"])

    def test_what_passed_alone(self):
        lists = LISTS + "add_test(NAME fails COMMAND false)"
        (self.folder / "CMakeLists.txt").write_text(lists)
        build, file = self.folder / "build", self.folder / "alone.xml"
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.folder, "-B", build], check=True, capture_output=True,
                       timeout=50)
        subprocess.run(["ctest", "--test-dir", build, "-R", "passes|fails|silent", "--output-junit", file],
                       check=False, capture_output=True, timeout=50)
        done = subprocess.run([sys.executable, left_out.__file__, "--passed", file], check=True,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, "check: passed only alone: passes\n")

    def test_many_names_are_counted(self):
        line, = left_out.lines({"no GPU": [f"test{number:02}" for number in range(20)]})
        self.assertIn("test00, ", line)
        self.assertIn("test11 and 8 more: no GPU", line)


if __name__ == "__main__":
    unittest.main()
