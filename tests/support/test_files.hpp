// Choice of the tests of a test program that run. A program holds the tests of several files
// (tests/CMakeLists.txt); called by the link test_NAME it runs those of the file whose header line
// has that name, called by its own name all, or those of the files whose names ZEROPP_TEST_FILES
// lists, with commas between them.
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
/// exit code: not 0 too where no test is chosen, or where one of the program lies in none of its
/// files (a header, say), so that no entry of CTest would run it.
int run_tests(const char* called_as);

}  // namespace zeropp::test
