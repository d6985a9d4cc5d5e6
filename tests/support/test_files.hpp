// Choice of the tests that a test program runs. A program holds the tests of several files
// (tests/CMakeLists.txt). Called by the link test_NAME it runs the tests of the file whose header
// line has that name. Called by its own name it runs all tests, or the tests of the files whose
// names ZEROPP_TEST_FILES lists, with commas between them.
#pragma once

#include <span>

namespace zeropp::test {

struct TestFile {
  const char* name;  ///< as in `// ctest: name=...`
  const char* file;  ///< its file name, without a folder
};

/// The files that the program is made of; CMake writes it.
extern const std::span<const TestFile> test_files;

/// Runs what InitGoogleTest() left of the chosen file's tests; called_as is argv[0]. Returns the
/// exit code: not 0 also if no test is chosen, or if a test of the program lies in none of its
/// files (a header, say), so that no entry of CTest would run it.
int run_tests(const char* called_as);

}  // namespace zeropp::test
