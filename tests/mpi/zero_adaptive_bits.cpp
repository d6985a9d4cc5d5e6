// ctest: name=zero_adaptive_bits np=4 cuda=mpi,nccl timeout=180 labels=sanitize
// Adaptive bits: every rank makes the same choice. The choice keeps the budget to the byte in every
// step, loses no more than one width for all units, is the same in every run, follows the losses of
// the widths, and resumes from a saved state.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/error.hpp"
#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

using codec::parse_codec;

int node_size_of_four() { return world().size() == 4 ? 2 : world().size(); }

struct AdaptiveCase : EngineCase {
  explicit AdaptiveCase(const zero::Options& options)
      : EngineCase(options, node_size_of_four(),
                   [](const model::Context& context) { return make_tiny_gpt(context); }) {}
};

zero::Options options_of(zero::AdaptedValues values, const char* reduction = "2-hop") {
  zero::Options options;
  options.quantized_weights = options.quantized_gradients = true;
  options.reduce_scatter_algorithm = reduction;
  options.hpz_partition_size = static_cast<std::size_t>(node_size_of_four());
  options.accumulation_steps = 2;
  options.reduce_bucket_size = 9'000;  // of the larger units several buckets
  options.deterministic = true;
  options.adaptive_bits.values = values;
  options.adaptive_bits.block = 64;
  options.adaptive_bits.interval = 2;
  options.adaptive_bits.budget_codec = parse_codec("int4:64");
  return options;
}

/// Bytes of the adaptive values that all ranks have sent.
std::uint64_t sent_so_far(const trace::Recorder& recorder, const std::string& purpose) {
  std::uint64_t sum[1] = {0};
  for (const trace::CollectiveRow& row : recorder.collectives) {
    if (row.purpose == purpose && row.phase != "evaluation")
      sum[0] += row.wire_bytes_intra + row.wire_bytes_inter;
  }
  world().control().all_reduce_sum(sum);
  return sum[0];
}

TEST(AdaptiveBits, KeepTheBudgetAndTheBestOfOneWidth) {
  for (const auto values : {zero::AdaptedValues::gradients, zero::AdaptedValues::weights}) {
    for (const char* reduction : {"1-hop", "2-hop"}) {
      SCOPED_TRACE(testing::Message() << enum_name(values) << " " << reduction);
      AdaptiveCase made(options_of(values, reduction));
      std::uint64_t before = 0;
      std::set<std::uint64_t> volumes;
      for (std::uint64_t step = 0; step < 6; ++step) {
        made.step(step);  // expects the predicted bytes
        const std::uint64_t after = sent_so_far(made.recorder(), std::string(enum_name(values)));
        EXPECT_LE(after - before, made.recorder().width_budget) << "step " << step;
        volumes.insert(after - before);
        before = after;
      }
      const auto& rows = made.recorder().widths;
      ASSERT_EQ(rows.size(), 3U * 4U * 7U);  // choices, units, widths
      for (const std::uint64_t step : {0U, 2U, 4U}) {
        std::uint64_t bytes = 0;
        double error = 0;
        std::map<std::uint64_t, std::pair<std::uint64_t, double>> uniform;
        std::size_t chosen = 0;
        for (const trace::WidthRow& row : rows) {
          if (row.step != step) continue;
          uniform[row.bits].first += row.bytes;
          uniform[row.bits].second += row.error;
          if (row.chosen == 0) continue;
          ++chosen;
          bytes += row.bytes;
          error += row.error;
        }
        EXPECT_EQ(chosen, 4U);
        EXPECT_LE(bytes, made.recorder().width_budget);
        for (const auto& [bits, all] : uniform) {
          if (all.first <= made.recorder().width_budget) {
            EXPECT_LE(error, all.second) << bits;
          }
        }
      }
      if (world().size() > 1) {
        EXPECT_GT(made.recorder().width_budget, 0U);
        EXPECT_GT(*volumes.rbegin(), made.recorder().width_budget / 2) << "it is made use of";
      }
      for (const zero::MemoryReport& row : made.engine().memory()) {
        EXPECT_EQ(row.actual, row.predicted) << row.name;
      }
    }
  }
}

TEST(AdaptiveBits, BeginWithTheWidestThatAllCanHave) {
  AdaptiveCase made(options_of(zero::AdaptedValues::weights));
  made.step(0);
  for (std::size_t u = 0; u < 4; ++u) {
    // One rank sends nothing, so that everything can be had.
    EXPECT_EQ(made.recorder().codecs[u].weights, world().size() == 1 ? "int8:64" : "int4:64");
  }
}

TEST(AdaptiveBits, GiveWidthsByUnit) {
  if (world().size() == 1) return;  // nothing is sent, and nothing chosen but the widest
  zero::Options options = options_of(zero::AdaptedValues::gradients);
  AdaptiveCase uniform(options);
  uniform.engine().prepare();
  // The budget lies between what int4 and int5 send everywhere: no one width makes use of it.
  options.adaptive_bits.budget_bytes = uniform.recorder().width_budget * 9 / 8;
  AdaptiveCase made(options);
  made.train(3);
  std::set<std::uint64_t> widths;
  for (const trace::WidthRow& row : made.recorder().widths) {
    if (row.step == 2 && row.chosen > 0) widths.insert(row.bits);
  }
  EXPECT_GT(widths.size(), 1U);
}

TEST(AdaptiveBits, AreTheSameInEveryRunAndOnEveryRank) {
  for (const auto values : {zero::AdaptedValues::gradients, zero::AdaptedValues::weights}) {
    std::set<std::string> hashes;
    std::string chosen[2];
    for (std::string& text : chosen) {
      AdaptiveCase made(options_of(values));
      hashes.insert(made.train(5, 2).hash);
      for (const trace::CodecRow& row : made.recorder().codecs) {
        text += std::to_string(row.step) + " " + std::to_string(row.unit) + " " + row.weights +
                " " + row.gradients_intra + "\n";
      }
      const auto everywhere = world().control().gather(text);
      for (const std::string& other : everywhere) EXPECT_EQ(other, text);
    }
    EXPECT_EQ(hashes.size(), 1U) << enum_name(values);
    EXPECT_EQ(chosen[0], chosen[1]);
  }
}

TEST(AdaptiveBits, BytesMayBeGivenAsANumber) {
  zero::Options options = options_of(zero::AdaptedValues::gradients);
  AdaptiveCase by_codec(options);
  by_codec.step(0);
  const std::uint64_t budget = by_codec.recorder().width_budget;
  if (world().size() == 1) {
    EXPECT_EQ(budget, 0U);
    return;
  }
  options.adaptive_bits.budget_bytes = budget + 5;
  AdaptiveCase by_number(options);
  EXPECT_NO_THROW(by_number.engine().prepare());
  EXPECT_EQ(by_number.recorder().width_budget, budget + 5);
  options.adaptive_bits.minimum_bits = 4;  // which send the budget to the byte
  options.adaptive_bits.budget_bytes = budget;
  AdaptiveCase enough(options);
  EXPECT_NO_THROW(enough.engine().prepare());
  options.adaptive_bits.budget_bytes = budget - 1;
  AdaptiveCase too_few(options);
  try {
    too_few.engine().prepare();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("zeropp.adaptive_bits"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(std::to_string(budget)), std::string::npos);
  }
}

TEST(AdaptiveBits, TheChoiceIsTheWholeState) {
  const zero::Options options = options_of(zero::AdaptedValues::gradients);
  const auto unit_partitions =
      zero::partition_units(make_tiny_gpt({.micro_batch = 1,
                                           .vocab_size = token_source().vocab_size(),
                                           .device = Device::host(),
                                           .compute = Dtype::fp32,
                                           .deterministic = true,
                                           .timers = *std::make_unique<trace::Timers>()})
                                ->units(),
                            static_cast<std::size_t>(world().size()), 1, Dtype::fp32);
  trace::Recorder recorder;
  zero::WidthCosts costs;
  costs.bytes.assign(unit_partitions.size(), {2, 3, 4, 5, 6, 7, 8});
  costs.of_budget_codec = 4 * unit_partitions.size();
  zero::AdaptiveBits bits(options, unit_partitions, costs, world().control(), device(), recorder);
  bits.agree();
  EXPECT_EQ(bits.bits(), (std::vector<std::uint64_t>{4, 4, 4, 4}));
  using Bits = std::vector<std::uint64_t>;
  EXPECT_TRUE(bits.restore(Bits{3, 2, 7, 4}));  // 16 bytes per rank, the budget
  for (const Bits& other : {Bits{3, 2, 8, 4}, Bits{1, 2, 7, 4}, Bits{9, 2, 2, 2}, Bits{3, 2, 7}}) {
    EXPECT_FALSE(bits.restore(other));
    EXPECT_EQ(bits.bits(), (Bits{3, 2, 7, 4}));
  }
  zero::CodecChoice choice{{0, 0, 0, 0}, {0, 0, 0, 0}};
  bits.overlay(choice);
  EXPECT_EQ(choice.gradients, (std::vector<std::size_t>{1, 0, 5, 2}));
  EXPECT_EQ(choice.weights, (std::vector<std::size_t>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace zeropp::test
