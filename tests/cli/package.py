# ctest: name=package timeout=180 labels=cli,without-cuda processors=2
"""find_package(zeropp CONFIG) of an installation: the project in tests/consumer finds it with its dependencies,
compiles every public header, links, and gathers through codecs under the launcher; another version and a project
without C are refused."""

import re
import shutil

import zpp

BUILD = zpp.BIN.parent
PLACE = BUILD / "tests" / "package"  # made anew by each run
PREFIX = PLACE / "prefix"


def cached(name):
    return re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[1]


def cmake(*words):
    return zpp.Process(["cmake", *words]).end(timeout=150)


def configure(source, build):
    return cmake("-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}",
                 "-DCMAKE_BUILD_TYPE=Release",
                 f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}",
                 f"-DCMAKE_C_COMPILER={cached('CMAKE_C_COMPILER')}")


def setUpModule():
    shutil.rmtree(PLACE, ignore_errors=True)
    done = cmake("--install", BUILD, "--prefix", PREFIX)
    assert done.code == zpp.OK, done


class Package(zpp.TestCase):
    def test_a_consumer_builds_and_gathers(self):
        done = configure(zpp.SOURCE / "tests" / "consumer", PLACE / "build")
        self.assertEqual(done.code, zpp.OK, done)
        self.assertNotIn("Warning", done.stderr, done)
        done = cmake("--build", PLACE / "build")
        self.assertEqual(done.code, zpp.OK, done)
        # 1000 fp32 values are 4000 bytes; in whole blocks 1024 + 16 as int8 with scales, 512 + 16 as int4; each to
        # three others.
        for algorithm, codec, sent in (("flat", "none", 12000), ("two-level", "int8:256", 3120),
                                       ("flat", "int4:128", 1584)):
            done = zpp.launch([(4, [str(PLACE / "build" / "consumer"), algorithm, codec, "1000"])]).end()
            self.assertEqual((done.code, done.stdout, done.stderr),
                             (zpp.OK, f"4 ranks, {algorithm}, {codec}: 0 wrong values, "
                              f"{sent} bytes sent by rank 0\n", ""), done)

    def test_a_program_in_c_gathers(self):
        """One rank, with the header and the library of the C interface alone."""
        done = zpp.Process([str(PLACE / "build" / "c_consumer")]).end()
        self.assertEqual((done.code, done.stdout, done.stderr),
                         (zpp.OK, "1000 values, 1040 bytes of an image, direct\n", ""), done)

    def test_headers_keep_to_the_package(self):
        """Nothing of the source tree, nor an empty folder, nor what only the archive needs."""
        include = PREFIX / "include"
        self.assertEqual([path.name for path in include.iterdir()], ["zeropp"])
        self.assertEqual({path.name for path in (include / "zeropp").iterdir()}, {"kernels", "lib", "zeropp.h"})
        self.assertEqual([path for path in include.rglob("*") if path.is_dir() and not any(path.iterdir())], [])
        for file in (PREFIX / "lib").rglob("*.cmake"):
            self.assertNotIn(str(zpp.SOURCE), file.read_text(), file)

    def project(self, languages, version):
        folder = self.folder / "project"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES "
                                               f"{languages})\n"
                                               f"find_package(zeropp {version} CONFIG REQUIRED)\n")
        return configure(folder, self.folder / "build")

    def test_another_version_is_refused(self):
        done = self.project("C CXX", "99.0")
        self.assertEqual(done.code, 1, done)
        self.assertIn("zeropp", done.stderr)
        self.assertIn("99.0", done.stderr)

    def test_a_project_without_c_is_told(self):
        done = self.project("CXX", "")
        self.assertEqual(done.code, 1, done)
        self.assertIn("write project(... LANGUAGES C CXX)", " ".join(done.stderr.split()))


if __name__ == "__main__":
    zpp.main()
