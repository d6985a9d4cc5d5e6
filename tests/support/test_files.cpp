#include "tests/support/test_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace zeropp::test {
namespace {
int refuse(const std::string& why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  return 1;
}

struct Test {
  std::string name;  ///< SUITE.TEST
  std::string file;  ///< without a folder
};

std::vector<Test> all_tests() {
  std::vector<Test> tests;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      tests.push_back({std::string(suite.name()) + "." + test.name(),
                       std::filesystem::path(test.file()).filename()});
    }
  }
  return tests;
}

/// Names of the files whose tests run; none: all files.
std::vector<std::string> chosen_names(const char* called_as) {
  const std::string link = std::filesystem::path(called_as).filename();
  if (link.starts_with("test_")) return {link.substr(5)};
  std::vector<std::string> names;
  const char* const listed = std::getenv("ZEROPP_TEST_FILES");
  std::istringstream words(listed == nullptr ? "" : listed);
  for (std::string word; std::getline(words, word, ',');) names.push_back(word);
  return names;
}
}  // namespace

int run_tests(const char* called_as) {
  const std::vector<Test> tests = all_tests();
  for (const Test& test : tests) {
    if (std::ranges::none_of(test_files,
                             [&](const TestFile& one) { return test.file == one.file; })) {
      return refuse(test.name + " (" + test.file +
                    ") lies in no file of this program: move it into one");
    }
  }
  const std::vector<std::string> names = chosen_names(called_as);
  std::set<std::string> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(test_files, name, &TestFile::name);
    if (found == test_files.end())
      return refuse("no file of this program has the name of test_" + name + ": build again");
    chosen.insert(found->file);
  }
  if (!chosen.empty()) {
    std::string filter = testing::GTEST_FLAG(filter);
    if (filter.find('-') == std::string::npos) filter += "-";  // what follows is left out
    for (const Test& test : tests) {
      if (!chosen.contains(test.file)) filter += ":" + test.name;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  const int status = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0)
    return refuse("no test is chosen");
  return status;
}

}  // namespace zeropp::test
