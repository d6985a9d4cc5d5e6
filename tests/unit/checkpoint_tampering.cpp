// ctest: name=checkpoint_tampering timeout=120 labels=sanitize
// Changed checkpoints: every file is cut, swapped, removed, linked elsewhere and has bits flipped.
// A reader finds the change or reads the written values: there is no third outcome.
// ZEROPP_TAMPERINGS=N flips N bits (tests/support/tampering.hpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "lib/base/sha256.hpp"
#include "lib/checkpoint/folder.hpp"
#include "lib/checkpoint/rank_file.hpp"
#include "lib/checkpoint/safetensors.hpp"
#include "lib/model/registry.hpp"
#include "lib/train/run_identity.hpp"
#include "lib/train/saved_state.hpp"
#include "lib/train/weights_file.hpp"
#include "tests/support/checkpoint_case.hpp"
#include "tests/support/tampering.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::train {
namespace {

namespace fs = std::filesystem;
using checkpoint::Folder;
using test::Outcome;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kRanks = 3;
constexpr std::uint64_t kOlder = 5;
constexpr std::uint64_t kNewer = 9;
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kConfig = "config.json";
const std::vector<test::Array> kArrays{{"embedding/master", 4, 1003},
                                       {"embedding/state0", 4, 1003},
                                       {"head/master", 4, 77},
                                       {"adaptive_bits/weights", 8, 3},
                                       {"error_feedback.intra.0/2-hop, 1 x 3 ranks/0", 1, 130},
                                       {"none", 4, 0}};
const std::vector<checkpoint::StoredTensor> kTensors{
    {"transformer.wte.weight", Dtype::fp32, {11, 4}, 0, {}},
    {"transformer.ln_f.bias", Dtype::bf16, {4}, 0, {}}};

nlohmann::json own_identity() {
  const config::TrainConfig config;
  const auto units = model::describe_model(config.model, {.vocab_size = 19}).units;
  return identity_of(config, 19, units);
}

std::string state_after(std::uint64_t step) {
  return to_text({.steps = {step, step + 1},
                  .loss_scale = {1024, 2, 3},
                  .searches_loss_scale = true,
                  .run = own_identity(),
                  .seed = 7,
                  .tokens = std::string(64, 'c'),
                  .decayed = "matrices"});
}

/// The values of `slice` after `step` steps; they differ from step to step.
Bytes values_after(std::uint64_t step, const test::Array& array, const checkpoint::Slice& slice) {
  Bytes values = array.values(slice);
  for (std::byte& value : values) value ^= static_cast<std::byte>(step);
  return values;
}

Bytes weights_after(std::uint64_t step, const checkpoint::StoredTensor& tensor) {
  return values_after(step, {tensor.name, 1, tensor.bytes()},
                      {tensor.name, 1, tensor.bytes(), 0, tensor.bytes()});
}

std::string config_after(std::uint64_t step) { return fmt::format(R"({{"n_head": {}}})", step); }

void save_after(Folder& folder, std::uint64_t step) {
  folder.begin(step);
  checkpoint::Manifest manifest{step, kRanks, state_after(step), {}};
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    std::vector<Bytes> memory;
    std::vector<checkpoint::HostSlice> slices;
    memory.reserve(kArrays.size());
    for (const test::Array& array : kArrays) {
      const checkpoint::Slice part = array.part(rank, kRanks);
      slices.push_back({part, memory.emplace_back(values_after(step, array, part))});
    }
    for (auto& stored : checkpoint::write_rank_file(folder.partial(step), rank, slices)) {
      manifest.slices.push_back(std::move(stored));
    }
  }
  checkpoint::SafetensorsWriter weights(folder.partial(step) / kWeights, kTensors);
  for (const auto& tensor : kTensors) weights.write(weights_after(step, tensor));
  manifest.files.push_back(weights.finish());
  const std::string text = config_after(step);
  std::ofstream(folder.partial(step) / kConfig) << text;
  manifest.files.push_back({kConfig, text.size(), sha256_hex(text)});
  folder.commit(manifest);
}

/// The content of a checkpoint that a run loads.
struct Loaded {
  std::string state;
  std::map<std::string, Bytes> arrays;
  bool operator==(const Loaded&) const = default;
};

using Weights = std::map<std::string, std::vector<float>>;

/// Reads weights by the names and shapes that the model has, as a run does.
Weights read_weights(const fs::path& path) {
  const checkpoint::SafetensorsReader file(path);
  Weights weights;
  for (const checkpoint::StoredTensor& wanted : kTensors) {
    const auto found = file.tensors().find(wanted.name);
    if (found == file.tensors().end() || found->second.shape != wanted.shape) {
      throw Error(ExitCode::usage, "of another model");
    }
    weights[wanted.name] = file.read(found->second, 0, found->second.count());
  }
  if (file.tensors().size() != kTensors.size()) throw Error(ExitCode::usage, "of another model");
  return weights;
}

/// Loads the checkpoint after `step` steps like a run that resumes from it. Throws Error.
Loaded load(const Folder& folder, std::uint64_t step) {
  const fs::path complete = folder.complete(step);
  const checkpoint::Manifest manifest =
      checkpoint::parse_manifest(checkpoint::to_text(folder.manifest(step)), complete.string());
  const SavedState state = state_of(manifest.state);
  EXPECT_THAT(require_same_run(state.run, own_identity(), complete.string()), testing::IsEmpty());
  Loaded loaded{to_text(state), {}};
  const checkpoint::ArrayReader arrays(complete, manifest);
  for (const test::Array& array : kArrays) {
    const checkpoint::Slice all = array.slice(0, array.total);
    loaded.arrays[array.name].resize(all.bytes());
    arrays.read(all, loaded.arrays[array.name]);
  }
  return loaded;
}

bool is_exported(const std::string& name) { return name == kWeights || name == kConfig; }

/// Two checkpoints, of which the newer is changed; each Case begins with them as they were written.
class Case {
 public:
  Case() : folder_(place_.path() / "kept") {
    folder_.prepare();
    save_after(folder_, kOlder);
    save_after(folder_, kNewer);
    written_ = load(folder_, kNewer);
    weights_ = read_weights(newer(kWeights));
    exported_ = exported();
  }
  [[nodiscard]] const Folder& folder() const { return folder_; }
  [[nodiscard]] fs::path newer(const std::string& name) const {
    return folder_.complete(kNewer) / name;
  }
  [[nodiscard]] fs::path older(const std::string& name) const {
    return folder_.complete(kOlder) / name;
  }
  [[nodiscard]] fs::path aside() const { return place_.path() / "aside"; }
  /// The outcome of a run that resumes from the checkpoint.
  [[nodiscard]] Outcome outcome() const {
    return test::outcome_of([&] { return load(folder_, kNewer) == written_; });
  }
  /// The outcome of a run that begins with the weights of the checkpoint.
  [[nodiscard]] Outcome outcome_of_weights() const {
    return test::outcome_of([&] { return read_weights(newer(kWeights)) == weights_; });
  }
  /// Bytes of the files for other programs, which check no digest.
  [[nodiscard]] std::string exported() const {
    std::string bytes;
    for (const char* const name : {kConfig, kWeights}) {
      std::ifstream file(newer(name), std::ios::binary);
      bytes.append(std::istreambuf_iterator<char>(file), {});
    }
    return bytes;
  }
  /// The outcome of a resumed run that verifies the files for other programs: no change in them is
  /// harmless.
  [[nodiscard]] Outcome outcome_of_exported() const {
    return test::outcome_of([&] {
      constexpr std::size_t kReaders = 2;
      for (std::size_t rank = 0; rank < kReaders; ++rank) {
        verify_exported(folder_.complete(kNewer), folder_.manifest(kNewer), rank, kReaders);
      }
      return exported() == exported_;
    });
  }
  /// The outcome of a run that reads this file.
  [[nodiscard]] Outcome outcome_of(const std::string& name) const {
    return is_exported(name) ? outcome_of_exported() : outcome();
  }

 private:
  test::TemporaryFolder place_;
  Folder folder_;
  Loaded written_;
  Weights weights_;
  std::string exported_;  ///< bytes of the files for other programs
};

const std::vector<std::string> kFiles{"manifest.json", "rank-00000.bin", "rank-00001.bin",
                                      "rank-00002.bin"};
/// With those for other programs.
const std::vector<std::string> kAllFiles{"manifest.json",  "rank-00000.bin", "rank-00001.bin",
                                         "rank-00002.bin", kWeights,         kConfig};

TEST(CheckpointTampering, WhatIsLeftAloneIsWhatWasWritten) {
  const Case made;
  EXPECT_EQ(made.outcome(), Outcome::harmless);
  EXPECT_EQ(made.outcome_of_weights(), Outcome::harmless);
}

TEST(CheckpointTampering, AFileThatIsCutIsFound) {
  for (const std::string& name : kAllFiles) {
    const Case made;
    const std::uint64_t size = fs::file_size(made.newer(name));
    // The line's end of a manifest may go.
    for (const std::uint64_t left :
         {size - 2, size - 3, size / 2, std::uint64_t{1}, std::uint64_t{0}}) {
      fs::resize_file(made.newer(name), left);
      EXPECT_EQ(made.outcome_of(name), Outcome::detected) << name << " of " << left << " bytes";
    }
  }
}

TEST(CheckpointTampering, AFileThatIsLongerIsFoundOrRead) {
  for (const std::string& name : kAllFiles) {
    const Case made;
    fs::resize_file(made.newer(name), fs::file_size(made.newer(name)) + 4096);
    EXPECT_NE(made.outcome_of(name), Outcome::undetected) << name;
  }
}

TEST(CheckpointTampering, WhatIsNoFileIsFound) {
  const std::vector<std::function<void(const fs::path&)>> instead{
      [](const fs::path&) {},
      [](const fs::path& path) { fs::create_directory(path); },
      [](const fs::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); },
      [](const fs::path& path) { fs::create_symlink(path, path); },
      [](const fs::path& path) { fs::create_symlink("nowhere", path); },
      [](const fs::path& path) { fs::create_symlink("/dev/zero", path); },
      [](const fs::path& path) { fs::create_symlink("/dev/null", path); }};
  for (const std::string& name : kAllFiles) {
    const Case made;
    fs::rename(made.newer(name), made.aside());
    for (std::size_t i = 0; i < instead.size(); ++i) {
      instead[i](made.newer(name));
      EXPECT_EQ(made.outcome_of(name), Outcome::detected) << name << ", instead of it " << i;
      fs::remove(made.newer(name));
    }
  }
}

void swap_files(const fs::path& one, const fs::path& other, const fs::path& aside) {
  fs::rename(one, aside);
  fs::rename(other, one);
  fs::rename(aside, other);
}

TEST(CheckpointTampering, FilesThatAreSwappedAreFound) {
  const Case made;
  for (const std::string& name : kFiles) {
    swap_files(made.newer(name), made.older(name), made.aside());
    EXPECT_EQ(made.outcome(), Outcome::detected) << name;
    swap_files(made.newer(name), made.older(name), made.aside());
    for (const std::string& other : kFiles) {
      if (other == name) continue;
      swap_files(made.newer(name), made.newer(other), made.aside());
      EXPECT_EQ(made.outcome(), Outcome::detected) << name << " with " << other;
      swap_files(made.newer(name), made.newer(other), made.aside());
    }
  }
  swap_files(made.folder().complete(kNewer), made.folder().complete(kOlder), made.aside());
  EXPECT_EQ(made.outcome(), Outcome::detected) << "whole folders";
}

TEST(CheckpointTampering, LinksAreFollowedToWhatWasWrittenAndNoFurther) {
  for (const std::string& name : kFiles) {
    const Case made;
    fs::rename(made.newer(name), made.aside());
    fs::create_symlink(made.aside(), made.newer(name));
    EXPECT_EQ(made.outcome(), Outcome::harmless) << name << ", moved away";
    fs::remove(made.newer(name));
    fs::create_hard_link(made.aside(), made.newer(name));
    EXPECT_EQ(made.outcome(), Outcome::harmless) << name;
    fs::remove(made.newer(name));
    fs::create_symlink(made.older(name), made.newer(name));
    EXPECT_EQ(made.outcome(), Outcome::detected) << name << " of the checkpoint before";
  }
}

/// Forges fields that decide where values are read from and for which run, in a manifest whose
/// digest is right again. A forger may also change fields that a run may choose anew (the number of
/// ranks that wrote, the seed).
TEST(CheckpointTampering, AForgedFieldIsFoundOrReadsWhatWasWritten) {
  const Case made;
  const auto write = [&](const std::string& text) {
    std::ofstream(made.newer("manifest.json"), std::ios::trunc) << text;
  };
  const nlohmann::json whole =
      nlohmann::json::parse(checkpoint::to_text(made.folder().manifest(kNewer)));
  const nlohmann::json flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (pointer == "/sha256" || pointer == "/state") continue;
    nlohmann::json changed = whole;
    nlohmann::json& field = changed[nlohmann::json::json_pointer(pointer)];
    if (value.is_number()) {
      field = value.get<std::uint64_t>() + 1;
    } else {
      field = "another";
    }
    write(test::digested(changed));
    const Outcome found = made.outcome();
    EXPECT_NE(found, Outcome::undetected) << pointer;
    if (pointer.starts_with("/slices/") || pointer.starts_with("/files/")) continue;
    EXPECT_EQ(found, pointer == "/world_size" ? Outcome::harmless : Outcome::detected) << pointer;
  }
  nlohmann::json outside = whole;
  outside["files"][0]["name"] = "../config.json";
  write(test::digested(outside));
  EXPECT_EQ(made.outcome(), Outcome::detected) << "a file of another folder";
  write(test::digested(whole));
  EXPECT_EQ(made.outcome(), Outcome::harmless) << "the digest is as the writer's";
}

TEST(CheckpointTampering, BitsThatAreFlippedAreFoundOrHarmless) {
  const Case made;
  std::vector<fs::path> files;
  for (const std::string& name : kAllFiles) files.push_back(made.newer(name));
  const auto counts = test::flip_bits(
      files, [&](const fs::path& path) { return made.outcome_of(path.filename().string()); });
  for (const auto& [name, count] : counts) {
    fmt::print("{:17} {} flips: {} detected, {} harmless, {} undetected\n", name, count.total(),
               count.detected, count.harmless, count.undetected);
    EXPECT_EQ(count.undetected, 0U) << name;
    EXPECT_TRUE(count.harmless == 0 || !is_exported(name)) << name;
  }
  for (const std::string& name : kAllFiles) {
    EXPECT_EQ(made.outcome_of(name), Outcome::harmless) << "all are flipped back";
  }
}

}  // namespace
}  // namespace zeropp::train
