// ctest: name=config_published timeout=60
// DeepSpeed configurations as people publish them (tests/deepspeed/published/files.json): each is
// taken, with the keys that are ignored, or refused for the keys that the file names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"
#include "tests/support/resolving.hpp"

namespace zeropp::config {
namespace {

using nlohmann::json;

constexpr int kRanks = 8;

std::vector<json> published() {
  const char* const source = std::getenv("ZEROPP_SOURCE");
  if (source == nullptr) throw std::runtime_error("set ZEROPP_SOURCE to the source tree");
  std::ifstream file(std::filesystem::path(source) / "tests" / "deepspeed" / "published" /
                     "files.json");
  return json::parse(file)["files"];
}

struct Outcome {
  std::set<std::string> ignored = {};
  std::string error = {};
};

/// The outcome of a file on so many ranks of one node.
Outcome outcome_of(const json& config, int ranks) {
  Outcome outcome;
  TrainConfig read;
  auto table = options(read);
  try {
    std::vector<Ignored> ignored = read_object(config, "x.json", table);
    leave_out_idle(table, ignored);
    for (const Ignored& each : ignored) outcome.ignored.insert(each.key);
    resolve(read, table, machine(1, ranks));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    outcome.error = error.what();
  }
  return outcome;
}

TEST(ConfigPublished, FilesAreTakenOrRefusedForTheirKeys) {
  const std::vector<json> files = published();
  std::size_t refused = 0;
  std::set<std::string> sources;
  for (const json& file : files) {
    SCOPED_TRACE(file["source"]);
    EXPECT_TRUE(sources.insert(file["source"]).second);
    const Outcome outcome = outcome_of(file["config"], file.value("ranks", kRanks));
    if (file.contains("refused")) {
      ++refused;
      for (const std::string key : file["refused"]) {
        EXPECT_THAT(outcome.error, testing::HasSubstr(key));
      }
      const auto numbered = static_cast<std::size_t>(
          std::ranges::count(outcome.error, '(') > 0 ? file["refused"].size() : 1);
      EXPECT_TRUE(file["refused"].size() == 1 ||
                  outcome.error.find(fmt::format("x.json: {} keys are refused: ", numbered)) == 0)
          << outcome.error;
    } else {
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.ignored, file["ignored"].get<std::set<std::string>>());
    }
  }
  EXPECT_GE(files.size(), 80U);
  EXPECT_GE(files.size() - refused, 80U) << "most files are taken";
}

}  // namespace
}  // namespace zeropp::config
