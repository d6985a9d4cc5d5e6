"""Spack recipe of zeropp, for Spack 1.0 or later; jobscripts/spack/README.md says how to use it, and what was tried."""

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Zeropp(CMakePackage, CudaPackage):
    """Benchmark and reference-application suite around ZeRO++: sharded training over MPI and NCCL with quantized weight
    gathers, a secondary weight partition and hierarchical quantized gradient reduction, every byte counted."""

    homepage = "https://arxiv.org/abs/2306.10209"
    git = pathlib.Path(__file__).resolve().parents[6].as_uri()  # the clone that this recipe lies in

    license("Apache-2.0")

    version("main", branch="main")

    variant("tests", default=False, description="Build the tests; `spack install --test=root` runs those labelled unit")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("git", type="build")  # the commit in every trace

    # Lower bounds are the versions that the project is tested with.
    depends_on("mpi@3.1:")
    depends_on("fmt@9.1:")
    depends_on("spdlog@1.10:")
    depends_on("nlohmann-json@3.11:")
    depends_on("cli11@2.1:")
    depends_on("openssl@3:")
    depends_on("hdf5@1.10.8:~mpi")  # rank 0 alone writes
    depends_on("kokkos@3.4:~cuda")  # kernels of the host; those of GPUs are the project's own
    depends_on("openblas@0.3.21:")
    depends_on("liburing@2.3:")  # offload to files
    depends_on("googletest@1.12:+gmock", when="+tests")

    depends_on("py-pybind11@2.10:", type="build")  # the Python module

    # Trace checker, reports and script tests.
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-numpy", type=("build", "run"))
    depends_on("py-h5py~mpi", type=("build", "run"))
    depends_on("py-matplotlib", type=("build", "run"))
    depends_on("py-scipy", type=("build", "run"))
    depends_on("py-jinja2", type=("build", "run"))
    depends_on("py-prometheus-client", type=("build", "run"))

    # Attention then runs on cuBLASLt: Spack has no package of cuDNN's C++ front end.
    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: cuda_arch=90 is H100 and H200, 80 is A100")
    depends_on("cuda@12:", when="+cuda")
    for _arch in CudaPackage.cuda_arch_values:
        depends_on(f"nccl+cuda cuda_arch={_arch}", when=f"+cuda cuda_arch={_arch}")

    def cmake_args(self):
        args = [
            self.define_from_variant("ZEROPP_ENABLE_CUDA", "cuda"),
            self.define_from_variant("ZEROPP_ENABLE_TESTS", "tests"),
            self.define("ZEROPP_HOST_ARCH", ""),  # Spack's compilers are told the target
            self.define("ZEROPP_PYTHON", self.spec["python"].command.path),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args

    def check(self):
        if self.spec.satisfies("+tests"):
            with working_dir(self.build_directory):
                ctest("--output-on-failure", "--label-regex", "^unit$")

    def test_version(self):
        """The programs start and know their version."""
        for name in ("zpp_info", "zpp_train"):
            program = Executable(join_path(self.prefix.bin, name))
            assert f"{name} " in program("--version", output=str.split, error=str.split)
