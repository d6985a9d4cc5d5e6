# ctest: name=opened_libraries timeout=60 labels=cli
"""Programs are not linked with the libraries that they open when they first need them: cuBLASLt, whose relocations
take a seventh of a second of every start, cuDNN, which many machines lack, and NVML, which comes with the driver."""

import re
import subprocess
import unittest

from source_tree import programs

PROGRAMS = sorted(path for path in programs().glob("zpp_*") if path.is_file())
OPENED = re.compile(r"lib(cublasLt|cudnn|nvidia-ml)")


def needed(program):
    read = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", read.stdout)


class OpenedLibraries(unittest.TestCase):
    def test_no_program_needs_them_to_start(self):
        self.assertGreater(len(PROGRAMS), 5)
        for program in PROGRAMS:
            with self.subTest(program.name):
                self.assertTrue(any(name.startswith("libc.so") for name in needed(program)), program)
                self.assertEqual([name for name in needed(program) if OPENED.match(name)], [])


if __name__ == "__main__":
    unittest.main()
