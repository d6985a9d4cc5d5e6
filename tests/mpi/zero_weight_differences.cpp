// ctest: name=zero_weight_differences np=1,3,4,6 cuda=mpi,nccl timeout=240 labels=sanitize
// Weight differences on nodes of one rank (1 and 3 ranks) and of two (4 and 6), against a plain
// simulation of the copy: every node's copy has its bits after each step, for any codec and either
// dtype, whole weights go when they should, and what encoding lost is never more than one
// difference may lose. With whole weights in every step, uncompressed, training is that of hpZ
// without qwZ. Bytes are the predicted ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/codec/codec.hpp"
#include "lib/base/sha256.hpp"
#include "tests/support/engine_case.hpp"

namespace zeropp::test {
namespace {

int node_size() { return world().size() < 4 ? 1 : 2; }

zero::Options with_differences(const std::string& codec, zero::CopyDtype copy, Dtype compute) {
  zero::Options options;
  options.deterministic = true;
  options.compute = compute;
  options.quantized_weights = true;
  options.hpz_partition_size = static_cast<std::size_t>(node_size());
  options.weight_codec = codec::parse_codec("int8:64");
  options.weight_differences = {.enabled = true, .codec = codec::parse_codec(codec), .copy = copy};
  return options;
}

EngineCase make_case(const zero::Options& options) {
  return {options, node_size(),
          [](const model::Context& context) { return make_tiny_gpt(context); }};
}

float rounded(float value, Dtype dtype) {
  return with_type(dtype, [&](auto* type) {
    return to_float(saturating_cast<std::remove_pointer_t<decltype(type)>>(value));
  });
}

/// Encodes and decodes values, rounded to `memory` first.
std::vector<float> through(const codec::CodecSpec& spec, Dtype memory, std::vector<float> values) {
  const codec::Codec codec(spec, memory);
  for (float& value : values) value = rounded(value, memory);
  const Buffer image(std::max<std::size_t>(16, codec.wire_bytes(values.size())), MemoryKind::host);
  const auto layout =
      codec::Layout{1,
                    0,
                    1,
                    0,
                    values.size(),
                    (values.size() + codec.block() - 1) / codec.block() * codec.block()};
  const codec::WireImages wire{image.data(), image.bytes()};
  const View view = View::of(values.data(), values.size());
  codec.rounding().encode(view, layout, wire, {});
  codec.decode(wire, layout, view, {});
  return values;
}

/// The copy as one process would keep it: shard by shard of all units.
class Simulation {
 public:
  Simulation(const zero::Options& options, const std::vector<zero::UnitPartition>& units)
      : options_(options), units_(units) {
    for (const zero::UnitPartition& unit : units) copies_.emplace_back(unit.padded, 0.0F);
  }

  /// `weights`: of a unit, its flat elements.
  void follow(std::size_t unit, std::vector<float> weights, bool whole) {
    const std::size_t shard = units_[unit].shard;
    const Dtype dtype = units_[unit].secondary_dtype;
    std::vector<float>& copy = copies_[unit];
    weights.resize(copy.size(), 0.0F);
    const codec::CodecSpec& spec =
        whole ? options_.weight_codec : options_.weight_differences.codec;
    const codec::Codec codec(spec, options_.compute);
    for (std::size_t begin = 0; begin < copy.size(); begin += shard) {
      std::vector<float> sent(weights.begin() + static_cast<std::ptrdiff_t>(begin),
                              weights.begin() + static_cast<std::ptrdiff_t>(begin + shard));
      for (std::size_t i = 0; i < shard && !whole; ++i) sent[i] -= copy[begin + i];
      const std::vector<float> arrived = through(spec, options_.compute, sent);
      for (std::size_t i = 0; i < shard; ++i) {
        const float before = whole ? 0.0F : copy[begin + i];
        copy[begin + i] = rounded(before + arrived[i], dtype);
        const double lost = std::abs(double{weights[begin + i]} - copy[begin + i]);
        EXPECT_LE(lost, bound(codec, sent, i, copy[begin + i], dtype)) << unit << " " << begin + i;
      }
    }
  }

  /// SHA-256 as a node's copy has it.
  [[nodiscard]] std::string hash() const {
    Sha256 all;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      const Dtype dtype = units_[unit].secondary_dtype;
      for (std::size_t begin = 0; begin < copies_[unit].size(); begin += units_[unit].shard) {
        Buffer memory = Buffer::zeros(units_[unit].shard, dtype, MemoryKind::host);
        const View shard = memory.view(units_[unit].shard, dtype);
        host_memory_ops().convert(ConstView::of(copies_[unit].data() + begin, shard.count), shard,
                                  {});
        Sha256 digest;
        digest.update({memory.data(), shard.bytes()});
        const std::string hex = digest.hex();
        all.update(std::as_bytes(std::span(hex)));
      }
    }
    return all.hex();
  }

 private:
  /// Most that value `i` of those that were sent may lose: by its codec, which is given values
  /// rounded to the compute dtype, and by the rounding of the copy.
  [[nodiscard]] double bound(const codec::Codec& codec, const std::vector<float>& sent,
                             std::size_t i, float copy, Dtype dtype) const {
    const auto ulp = [](double value, Dtype of) {
      return std::abs(value) * (of == Dtype::fp32 ? 0x1p-23 : 0x1p-8);
    };
    const std::size_t block = std::max<std::size_t>(codec.block(), 1);
    const std::size_t first = i / block * block;
    float absmax = 0;
    for (std::size_t k = first; k < std::min(first + block, sent.size()); ++k)
      absmax = std::max(absmax, std::abs(rounded(sent[k], options_.compute)));
    return codec.error_bound(rounded(sent[i], options_.compute), absmax) +
           ulp(sent[i], options_.compute) + ulp(copy, dtype) + 1e-30;
  }

  const zero::Options& options_;
  const std::vector<zero::UnitPartition>& units_;
  std::vector<std::vector<float>> copies_;
};

/// Trains, and compares the nodes' copies with the simulation's after each step.
void expect_the_copies_of_the_simulation(const zero::Options& options, std::uint64_t steps) {
  SCOPED_TRACE(codec::to_string(options.weight_differences.codec) + " " +
               std::string(name_of(options.compute)));
  EngineCase engine_case = make_case(options);
  zero::Engine& engine = engine_case.engine();
  const auto& units = engine.plan().input.units;
  Simulation simulation(options, units);
  const bool is_root = world().control().rank() == 0;
  const std::size_t interval = options.weight_differences.refresh_interval;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const bool whole = step == 0 || (interval > 0 && step % interval == 0);
    for (std::size_t u = 0; u < units.size(); ++u) {
      std::vector<float> weights = engine.gather_master(u);
      if (is_root) simulation.follow(u, std::move(weights), whole);
    }
    (void)engine_case.step(step);
    const std::vector<std::string> hashes = engine.copy_hashes();
    if (!is_root) continue;
    ASSERT_EQ(hashes.size(), static_cast<std::size_t>(world().size() / node_size()));
    for (const std::string& hash : hashes) EXPECT_EQ(hash, simulation.hash()) << "step " << step;
  }
}

TEST(WeightDifferences, EveryNodeHoldsTheCopyOfThePlainSimulation) {
  using enum zero::CopyDtype;
  for (const char* codec : {"int4:128", "int8:32", "int3:64+asym", "mxfp4", "none"}) {
    for (const Dtype compute_dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
      expect_the_copies_of_the_simulation(with_differences(codec, compute, compute_dtype), 4);
    }
    expect_the_copies_of_the_simulation(with_differences(codec, fp32, Dtype::bf16), 4);
  }
}

TEST(WeightDifferences, WholeWeightsGoAtTheirInterval) {
  zero::Options options = with_differences("int4:32", zero::CopyDtype::fp32, Dtype::bf16);
  options.weight_differences.refresh_interval = 3;
  options.pipeline_depth = 3;
  options.accumulation_steps = 2;
  for (const char* whole : {"int8:64", "none"}) {
    options.weight_codec = codec::parse_codec(whole);
    expect_the_copies_of_the_simulation(options, 8);
  }
}

TEST(WeightDifferences, WithWholeWeightsInEveryStepTrainAsHpzWithoutCompression) {
  zero::Options options = with_differences("int4:128", zero::CopyDtype::compute, Dtype::bf16);
  options.weight_differences.refresh_interval = 1;
  options.weight_codec = {};
  const Outcome outcome = make_case(options).train(4, 2);
  options.weight_differences = {};
  options.quantized_weights = false;
  EXPECT_EQ(outcome.hash, make_case(options).train(4, 2).hash);
  EXPECT_EQ(outcome.backward_inter, 0U);
  EXPECT_GT(outcome.secondary_gathers, 0U);
}

TEST(WeightDifferences, SendAQuarterOfTheBytesOfSixteenBitsBetweenNodes) {
  zero::Options options = with_differences("int4:128", zero::CopyDtype::compute, Dtype::bf16);
  EngineCase engine_case = make_case(options);
  (void)engine_case.step(0);
  const auto sent = [&](const std::string& purpose) {
    std::uint64_t bytes = 0;
    std::uint64_t calls = 0;
    for (const trace::CollectiveRow& row : engine_case.recorder().collectives) {
      if (row.purpose != purpose) continue;
      bytes += row.wire_bytes_inter;
      calls += row.calls;
      EXPECT_EQ(row.wire_bytes_intra, 0U);
    }
    return std::pair(bytes, calls);
  };
  const std::size_t units = engine_case.engine().plan().input.units.size();
  EXPECT_EQ(sent("weights_copy").second, units);
  EXPECT_EQ(sent("weights_difference").second, 0U);
  (void)engine_case.step(1);
  EXPECT_EQ(sent("weights_copy").second, units);
  EXPECT_EQ(sent("weights_difference").second, units);
  std::uint64_t expected = 0;
  const auto others = static_cast<std::uint64_t>(world().size() / node_size() - 1);
  for (const zero::UnitPartition& unit : engine_case.engine().plan().input.units) {
    const std::size_t blocks = (unit.shard + 127) / 128;
    expected += others * ((blocks * 64 + 15) / 16 * 16 + (blocks * 2 + 15) / 16 * 16);
  }
  EXPECT_EQ(sent("weights_difference").first, expected);
}

TEST(WeightDifferences, OfRandomRoundingAreTheSameInEveryRunAndOnEveryNode) {
  const auto run = [](std::uint64_t seed) {
    zero::Options options = with_differences("int4:64+sr", zero::CopyDtype::compute, Dtype::bf16);
    options.seed = seed;
    EngineCase engine_case = make_case(options);
    const std::string hash = engine_case.train(3).hash;
    const std::vector<std::string> copies = engine_case.engine().copy_hashes();
    for (const std::string& copy : copies) EXPECT_EQ(copy, copies.front());
    return std::pair(hash, copies);
  };
  EXPECT_EQ(run(1), run(1));
}

}  // namespace
}  // namespace zeropp::test
