// ctest: name=contract3_stage3_limits np=1,4 cuda=mpi,nccl timeout=240 labels=sanitize
// Units that persist, and units that are kept until their next use, change no bit of what is
// trained, with hpZ, qwZ and shard groups too; they save gathers, and take the memory that they are
// said to.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

/// Result of a run with its options, and what its memory was.
struct Trained {
  Outcome outcome;
  std::uint64_t gathers = 0;
  std::map<std::string, std::size_t> memory;
};

Trained run(const zero::Options& options) {
  Trained made;
  EngineCase engine(options, node_size_of_four(), make_tiny_gpt);
  made.outcome = engine.train(3, 2);
  for (const trace::CollectiveRow& row : engine.recorder().collectives) {
    if (row.operation == "all_gather" && row.purpose != "gradients_across")
      made.gathers += row.calls;
  }
  for (const zero::MemoryReport& part : engine.engine().memory()) {
    EXPECT_EQ(part.actual, part.predicted) << part.name;
    made.memory[part.name] = part.actual;
  }
  return made;
}

/// Plain; qwZ with random rounding; hpZ; shard groups where there are several.
std::vector<zero::Options> kinds() {
  zero::Options plain;
  plain.deterministic = true;
  plain.compute = Dtype::bf16;
  plain.accumulation_steps = 2;
  plain.prefetch_bucket_size = 0;
  plain.reduce_bucket_size = 6000;
  std::vector<zero::Options> all(2, plain);
  all[1].quantized_weights = true;
  all[1].weight_codec = codec::parse_codec("int6:64+sr");
  if (world().size() == 4) {
    all.push_back(all[1]);
    all.back().hpz_partition_size = 2;
    all.push_back(plain);
    all.back().shard_group_size = 2;
  }
  return all;
}

TEST(Stage3Limits, KeepingUnitsChangesNoBit) {
  for (zero::Options options : kinds()) {
    const Trained released = run(options);
    options.max_reuse_distance = 1'000'000'000;
    const Trained kept = run(options);
    EXPECT_EQ(kept.outcome.hash, released.outcome.hash);
    EXPECT_EQ(kept.outcome.losses, released.outcome.losses);
    EXPECT_LT(2 * kept.gathers, released.gathers);
    // A world of one rank has gradient shards so large that what is kept lies in the room of their
    // images.
    if (world().size() > 1) {
      EXPECT_GT(kept.memory.at("arena"), released.memory.at("arena"));
    }
    options.max_live_parameters = 0;
    EXPECT_EQ(run(options).gathers, released.gathers) << "nothing may be kept";
  }
}

TEST(Stage3Limits, UnitsThatPersistChangeNoBit) {
  for (zero::Options options : kinds()) {
    const Trained none = run(options);
    EXPECT_EQ(none.memory.at("resident_weights"), 0U);
    options.persistence_threshold = 1'000'000;
    const Trained all = run(options);
    EXPECT_EQ(all.outcome.hash, none.outcome.hash);
    EXPECT_EQ(all.outcome.losses, none.outcome.losses);
    EXPECT_EQ(all.outcome.secondary_gathers, 0U);
    EXPECT_LT(2 * all.gathers, none.gathers);
    EXPECT_EQ(all.memory.at("resident_weights"),
              all.memory.at("master") / sizeof(float) * size_of(options.compute) *
                  static_cast<std::size_t>(options.shard_group_size == zero::kAllRanks
                                               ? world().size()
                                               : static_cast<int>(options.shard_group_size)));
    options.model_persistence_threshold = 8000;  // a block has 7,000 parameters
    const Trained some = run(options);
    EXPECT_EQ(some.outcome.hash, none.outcome.hash);
    EXPECT_GT(some.memory.at("resident_weights"), 0U);
    EXPECT_LT(some.memory.at("resident_weights"), all.memory.at("resident_weights"));
    EXPECT_LT(some.gathers, none.gathers);
  }
}

TEST(Stage3Limits, GoTogether) {
  zero::Options options;
  options.deterministic = true;
  const std::string hash = run(options).outcome.hash;
  options.max_reuse_distance = 20'000;
  options.persistence_threshold = 8000;
  options.max_live_parameters = 30'000;
  options.overlap_comm = false;
  EXPECT_EQ(run(options).outcome.hash, hash);
}

}  // namespace
}  // namespace zeropp::test
