# ctest: name=c_library timeout=60 labels=cli,without-cuda
"""libzeropp_c.so can be moved to a machine that has neither MPI nor HDF5 nor a C++ runtime: it needs the C library and
OpenMP's, in a build with CUDA NCCL as well; and it exports what zeropp.h declares, nothing else."""

import ctypes
import re
import subprocess

import zpp

LIBRARY = zpp.BIN.parent / "lib" / "libzeropp_c.so"
NEEDED = {"libc.so.6", "libm.so.6", "libgomp.so.1", "libnccl.so.2"}
LOADER = re.compile(r"ld-linux-[\w-]+\.so\.\d")
# Functions that NCCL has had since 2.19, the version of PyTorch 2.2: a wheel also serves processes that hold an older
# NCCL than its own.
NCCL = {"AllGather", "AllReduce", "Broadcast", "CommAbort", "CommDestroy", "CommFinalize", "CommGetAsyncError",
        "CommInitRankConfig", "GetErrorString", "GetLastError", "GetUniqueId", "GetVersion", "GroupEnd",
        "GroupStart", "MemAlloc",
        "MemFree", "Recv", "ReduceScatter", "Send"}
# Separate libraries before glibc 2.34.
PARTS_OF_GLIBC = {"libpthread.so.0", "libdl.so.2", "librt.so.1"}


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout


class Library(zpp.TestCase):
    def test_needs_little(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", LIBRARY)))
        self.assertIn("libc.so.6", needed)
        others = {name for name in needed - NEEDED - PARTS_OF_GLIBC if not LOADER.fullmatch(name)}
        self.assertEqual(others, set())

    def test_exports_its_header(self):
        header = (zpp.SOURCE / "lib" / "c" / "zeropp.h").read_text()
        declared = set(re.findall(r"^ZPP_API [\w* ]*\b(zpp_\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(declared), 10)
        exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()}
        self.assertEqual(exported, declared)

    def test_needs_no_new_function_of_nccl(self):
        needed = re.findall(r"\bU nccl(\w+)", output("nm", "-D", "--undefined-only", LIBRARY))
        self.assertEqual(set(needed) - NCCL, set(),
                         "look such functions up weakly, as lib/comm/cuda/nccl_copies.cpp does")

    def test_loads_by_itself(self):
        library = ctypes.CDLL(str(LIBRARY))
        library.zpp_names.restype = ctypes.c_char_p
        self.assertIn("int8", library.zpp_names(b"codecs").decode().split())
        self.assertEqual(library.zpp_abi_version(), 1)


if __name__ == "__main__":
    zpp.main()
