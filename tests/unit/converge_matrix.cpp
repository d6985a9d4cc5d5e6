// ctest: name=converge_matrix timeout=60 labels=sanitize link=zeropp_app_converge
// The meaning of a matrix file, entries that are refused, and the files of finished runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "apps/converge/codec_lists.hpp"
#include "apps/converge/matrix.hpp"
#include "apps/converge/run_store.hpp"
#include "kernels/codec/spec.hpp"
#include "lib/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::converge {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

json document() {
  return json::parse(R"({
    "base": {"zeropp": {"train_steps": 9, "backend": "host"}, "optimizer": {"params": {"lr": 1, "eps": 2}}},
    "levels": {"markov": {"config": {"optimizer": {"params": {"eps": null}}}},
               "contract": {"seeds": [7], "ranks": 2}},
    "settings": [
      {"name": "plain", "level": "markov"},
      {"name": "weights", "level": "markov", "baseline": "plain", "weight_codecs": ["int8", "int4:64+had32"]},
      {"name": "gradients", "level": "markov", "gradient_codecs": ["int8:64/int4"], "seeds": [3]},
      {"name": "again", "level": "contract"}, {"name": "and again", "level": "contract", "ranks": 1}],
    "checks": [{"name": "rerun", "first": "again", "second": "and again", "limit": 0.5}]
  })");
}

Options with_seeds() {
  Options options;
  options.seeds = {1, 2};
  return options;
}

TEST(Matrix, SettingsAreTheBaseChangedByLevelAndSetting) {
  const Matrix matrix = read_matrix(document(), "m.json", with_seeds());
  std::vector<std::string> names;
  for (const Setting& setting : matrix.settings) names.push_back(setting.name);
  EXPECT_THAT(names, ElementsAre("plain", "weights int8:256", "weights int4:64+had32",
                                 "gradients int8:64/int4:128", "again", "and again"));
  const Setting& weights = matrix.settings[2];
  EXPECT_EQ(weights.baseline, "plain");
  EXPECT_THAT(weights.seeds, ElementsAre(1, 2));
  EXPECT_EQ(weights.config, json::parse(R"({
    "zeropp": {"train_steps": 9, "backend": "host", "weight_codec": "int4:64+had32"},
    "zero_optimization": {"zero_quantized_weights": true}, "optimizer": {"params": {"lr": 1}}})"));
  EXPECT_EQ(matrix.settings[3].config["zeropp"]["gradient_codec_inter"], "int4:128");
  EXPECT_THAT(matrix.settings[3].seeds, ElementsAre(3));
  EXPECT_THAT(matrix.settings[4].seeds, ElementsAre(7));
  EXPECT_EQ(matrix.settings[4].ranks, 2U);
  EXPECT_EQ(matrix.settings[5].ranks, 1U);
  ASSERT_EQ(matrix.checks.size(), 1U);
  EXPECT_EQ(matrix.checks[0].limit, 0.5);
}

TEST(Matrix, FlagsChangeTheBaseOnly) {
  json given = document();
  given["settings"][1]["config"] = {{"zeropp", {{"backend", "cuda"}}}};
  Options options = with_seeds();
  options.backend = "auto";
  const Matrix matrix = read_matrix(given, "m.json", options);
  EXPECT_EQ(matrix.settings[0].config["zeropp"]["backend"], "auto");
  EXPECT_EQ(matrix.settings[1].config["zeropp"]["backend"], "cuda");
}

TEST(Matrix, AFileMayBeNamedByAFlag) {
  json given = document();
  given["base"]["zeropp"]["data"] = {{"source", "llmc"}, {"path", "a"}, {"vocab_size", 9}};
  Options options = with_seeds();
  options.data_path = "b";
  options.held_out_fraction = 0.25;
  EXPECT_EQ(read_matrix(given, "m.json", options).settings[0].config["zeropp"]["data"],
            json::parse(R"({"source": "llmc", "path": "b", "vocab_size": 9,
                            "held_out_fraction": 0.25})"));
  options.data_vocab_size = 10;
  EXPECT_EQ(
      read_matrix(given, "m.json", options).settings[0].config["zeropp"]["data"]["vocab_size"], 10);
}

TEST(Matrix, ASourceByAFlagHasNothingOfTheMatrixData) {
  json given = document();
  given["base"]["zeropp"]["data"] = {{"source", "llmc"}, {"path", "a"}, {"vocab_size", 9}};
  given["settings"][0]["config"] = {{"zeropp", {{"data", {{"source", "markov"}}}}}};
  Options options = with_seeds();
  options.data_source = "text";
  options.data_path = "b";
  const Matrix matrix = read_matrix(given, "m.json", options);
  EXPECT_EQ(matrix.settings[1].config["zeropp"]["data"],
            json::parse(R"({"source": "text", "path": "b"})"));
  EXPECT_EQ(matrix.settings[0].config["zeropp"]["data"]["source"], "markov");
}

TEST(Matrix, EveryCodecIsEachFormatAloneAndWithEachOption) {
  const std::vector<std::string> names = every_codec();
  std::size_t expected = 0;
  for (const codec::FormatInfo& format : codec::formats()) expected += 1 + format.options.size();
  EXPECT_EQ(names.size(), expected);
  EXPECT_THAT(names, testing::IsSupersetOf({"none", "int2:128", "int4:128+had32", "mxfp4:32"}));
}

void expect_refused(const json& given, const char* place, const char* what) {
  try {
    (void)read_matrix(given, "m.json", with_seeds());
    FAIL() << "accepted: " << given.dump();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("m.json"), HasSubstr(place), HasSubstr(what)));
  }
}

TEST(Matrix, MistakesAreRefusedWithTheirPlace) {
  const auto with = [](const char* pointer, const json& value) {
    json given = document();
    given[json::json_pointer(pointer)] = value;
    return given;
  };
  expect_refused(with("/setings", 1), "setings", "nearest known: settings");
  expect_refused(with("/settings/1/weight_codec", "int8"), "settings[1]",
                 "nearest known: weight_codecs");
  expect_refused(with("/settings/1/weight_codecs", json::array({"int9"})), "settings[1]", "int9");
  expect_refused(with("/settings/1/weight_codecs", "all"), "settings[1]", "every");
  expect_refused(with("/settings/1/gradient_codecs", "every"), "settings[1]", "two entries");
  expect_refused(with("/settings/0/level", "markow"), "settings[0]", "markov");
  expect_refused(with("/settings/0/seeds", json::array({1U, 1U})), "settings[0]", "twice");
  expect_refused(with("/settings/0/seeds", json::array({-1})), "settings[0]", "whole numbers");
  expect_refused(with("/settings/0/config", 3), "settings[0]", "object");
  expect_refused(with("/settings/0/config", {{"zeropp", {{"seed", 1}}}}), "settings[0]", "seeds");
  for (const char* unread : {"hash_parameters", "log_interval", "verify_action", "gpu_sampling"}) {
    expect_refused(with("/base/zeropp", {{unread, 1}}), "settings[0]", unread);
  }
  expect_refused(with("/settings/3/name", "plain"), "plain", "rename");
  expect_refused(with("/settings/3/name", "weights_int8.256"), "weights_int8.256", "rename");
  expect_refused(with("/settings/1/baseline", "plane"), "baseline", "plain");
  expect_refused(with("/settings/1/baseline", "again"), "baseline", "another level");
  expect_refused(with("/settings/2/baseline", "weights int8:256"), "baseline", "without one");
  expect_refused(with("/checks/0/first", "plain"), "checks[0]", "contract");
  expect_refused(with("/checks/0/second", "agin"), "checks[0]", "again");
  expect_refused(with("/levels/texts", json::object()), "levels", "text");
}

RunRecord record() {
  RunRecord made;
  made.setting = "weights int8:256";
  made.seed = 3;
  made.curve = {{1.0 / 3, NAN, 1}, {2, 3, 0}};
  made.evaluations = {{4, 5}};
  made.quadratic.rows = {{1, 2, 3}};
  made.verdict = "VALID";
  return made;
}

TEST(RunStore, ARunIsFoundByItsKeyAndWithEveryNumber) {
  const test::TemporaryFolder folder;
  const RunStore store(folder.path());
  store.preflight();
  EXPECT_FALSE(store.find("weights int8:256", 3, "key"));
  store.keep(record(), "key");
  const auto found = store.find("weights int8:256", 3, "key");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->curve[0].loss, 1.0 / 3);
  EXPECT_TRUE(std::isnan(found->curve[0].grad_norm));
  EXPECT_TRUE(std::isnan(found->final_held_out_loss));
  EXPECT_EQ(pack(*found), pack(record()));
  EXPECT_FALSE(store.find("weights int8:256", 3, "other key"));
  EXPECT_FALSE(store.find("weights int8:256", 4, "key"));
  store.keep(record(), "other key");  // of another matrix in the same folder
  EXPECT_TRUE(store.find("weights int8:256", 3, "key"));
}

TEST(RunStore, AFileWhoseBytesChangedCountsAsNotThere) {
  const test::TemporaryFolder folder;
  const RunStore store(folder.path());
  store.keep(record(), "key");
  const auto path = std::filesystem::directory_iterator(folder.path())->path();
  const auto size = std::filesystem::file_size(path);
  for (std::size_t at = 0; at < size; at += 7) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    const auto found = store.find("weights int8:256", 3, "key");
    EXPECT_FALSE(found) << "byte " << at;
    std::fstream again(path, std::ios::in | std::ios::out | std::ios::binary);
    again.seekp(static_cast<std::streamoff>(at));
    again.put(byte);
  }
  EXPECT_TRUE(store.find("weights int8:256", 3, "key"));
  std::filesystem::resize_file(path, size / 2);
  EXPECT_FALSE(store.find("weights int8:256", 3, "key"));
}

}  // namespace
}  // namespace zeropp::converge
