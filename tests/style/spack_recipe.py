# ctest: name=spack_recipe timeout=30 labels=style,nightly
"""The Spack recipe says what CMake's files say: the same options, a dependency for whatever they look for, the same
lowest versions of CMake and Python. Its text alone is read: this does not show that Spack builds it."""

import ast
import re

from source_tree import SOURCE as ROOT

RECIPE = ROOT / "jobscripts/spack/spack_repo/zeropp/packages/zeropp/package.py"

# The names for find_package(), and the package of each; None: nothing to install, or Spack has no package.
PACKAGES = {"Threads": None, "MPI": "mpi", "fmt": "fmt", "spdlog": "spdlog", "nlohmann_json": "nlohmann-json",
            "CLI11": "cli11", "OpenSSL": "openssl", "HDF5": "hdf5", "Kokkos": "kokkos", "BLAS": "openblas",
            "Git": "git",
            "GTest": "googletest", "Liburing": "liburing", "CUDAToolkit": "cuda",
            "NCCL": "nccl", "Cudnn": None,
            "OpenMP": None, "Python": "python", "pybind11": "py-pybind11"}

# Each option of the build, with the variant that gives it, or the value that the recipe sets; None: CMake's default
# stands.
OPTIONS = {"ZEROPP_ENABLE_CUDA": "cuda", "ZEROPP_ENABLE_TESTS": "tests",
           "ZEROPP_HOST_ARCH": "", "ZEROPP_WARNINGS_AS_ERRORS": None, "ZEROPP_SANITIZE": None, "ZEROPP_FUZZ": None,
           "ZEROPP_UNITY_BUILD": None,
           "ZEROPP_CUDNN_FRONTEND_DIR": None}

cmake = {path: path.read_text() for path in [*ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("tests/*/CMakeLists.txt"),
                                             ROOT / "CMakeLists.txt", *ROOT.glob("cmake/*.cmake")]
         if path.parent.name != "consumer"}  # a project of its own
build = "\n".join(cmake.values())
searched = set(re.findall(r"find_package\((\w+)", build))
assert searched == set(PACKAGES), f"find_package() and the table of this test differ: {searched ^ set(PACKAGES)}"
declared = set(re.findall(r"option\((ZEROPP_\w+)", build)) | set(re.findall(r"set\((ZEROPP_\w+)[^()]*\sCACHE\s", build))
assert declared == set(OPTIONS), f"CMake's options and the table of this test differ: {declared ^ set(OPTIONS)}"

tree = ast.parse(RECIPE.read_text())
calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name_of(call):
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


def text(node):
    """The text of a string; an f-string has its parts joined by {}."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) else None


needed = {text(call.args[0]) for call in calls if name_of(call) == "depends_on"}
names = {re.match(r"[a-z0-9-]+", spec)[0] for spec in needed}
assert {name for name in PACKAGES.values() if name} <= names, {n for n in PACKAGES.values() if n} - names
assert {"c", "cxx", "cmake", "python", "py-numpy", "py-h5py", "py-matplotlib", "py-scipy", "py-jinja2",
        "py-prometheus-client"} <= names, names
lowest = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", build)[1]
assert f"cmake@{lowest}:" in needed, lowest
given = {text(call.args[0]): text(call.args[1]) for call in calls if name_of(call) in ("define", "define_from_variant")}
assert {name: value for name, value in given.items() if name.startswith("ZEROPP_") and name != "ZEROPP_PYTHON"} == {
    name: value for name, value in OPTIONS.items() if value is not None}, given
variants = {text(call.args[0]) for call in calls if name_of(call) == "variant"} | {"cuda"}  # of CudaPackage
assert {value for value in OPTIONS.values() if value} == variants, variants

# The clone that the recipe lies in is what it builds.
(depth,) = re.findall(r"parents\[([0-9]+)\]", RECIPE.read_text())
assert RECIPE.parents[int(depth)] == ROOT, RECIPE.parents[int(depth)]
