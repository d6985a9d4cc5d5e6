# ctest: name=c_environment timeout=60 labels=cli
"""The library of the C interface leaves the environment of the process alone, which is somebody else's. Programs of
zeropp set theirs when they start."""

import subprocess
import sys

import zpp

LIBRARY = zpp.BIN.parent / "lib" / "libzeropp_c.so"
USE = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
os.environ["ZEROPP_LIBRARY"] = sys.argv[2]

def environment():
    found, at = [], ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    while at[len(found)] is not None:
        found.append(at[len(found)])
    return sorted(found)

from zeropp import library
from zeropp.collectives import Communicator
before = environment()

class Alone:
    def all_gather_bytes(self, part):
        return [part]
    def exchange(self, sends, receives, stream):
        pass

for device, transport in ((library.Device.HOST, library.Transport.CALLBACKS),
                          (library.Device.CUDA, library.Transport.CALLBACKS),
                          (library.Device.CUDA, library.Transport.NCCL)):
    try:
        communicator = Communicator(0, 1, 1, Alone(), device, transport)
        communicator.plan_all_gather(8, library.Dtype.FP32, "int8:32").close()
        communicator.close()
    except library.EnvironmentLacks as lacking:
        print(lacking)
added = set(environment()) ^ set(before)
assert not added, f"changed: {added}"
"""


class Environment(zpp.TestCase):
    def test_stays_as_it_was(self):
        done = subprocess.run([sys.executable, "-c", USE, zpp.SOURCE / "python", LIBRARY], capture_output=True,
                              text=True, timeout=50, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)


if __name__ == "__main__":
    zpp.main()
