// ctest: name=contract1_optimizer_cuda timeout=300
// The optimizer's kernels on the GPU against the host's, bit for bit: pieces of random lengths at
// random places, aligned and not, empty, and arrays with values that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/compute_device.hpp"
#include "lib/device/table.hpp"
#include "tests/support/optimizer_reference.hpp"

namespace zeropp::optim {
namespace {

const std::vector<std::size_t> kCounts{1, 3, 4, 31, 1024, 1025, 50257, 3U << 20U};

const ComputeDevice& gpu() {
  static const ComputeDevice device = Device::cuda(0);
  return device;
}

/// Values on the GPU, `shift` elements after a 256-byte boundary.
template <class T>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<T>& values, std::size_t shift = 0)
      : count_(values.size()), memory_((values.size() + shift) * sizeof(T), MemoryKind::device) {
    data_ = reinterpret_cast<T*>(memory_.data()) + shift;
    gpu().memory_ops->copy(words(values.data(), MemoryKind::host), words(data_), {});
    gpu().runtime->synchronize(nullptr);
  }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::vector<T> fetch() const {
    std::vector<T> values(count_);
    gpu().memory_ops->copy(words(data_), words(values.data(), MemoryKind::host), {});
    gpu().runtime->synchronize(nullptr);
    return values;
  }

 private:
  /// The values as 16-bit words: a copy moves bits.
  View words(const T* data, MemoryKind kind = MemoryKind::device) const {
    return {const_cast<T*>(data), count_ * sizeof(T) / 2, Dtype::bf16, kind};
  }
  std::size_t count_;
  Buffer memory_;
  T* data_ = nullptr;
};

std::vector<float> values_of(std::size_t n, std::uint64_t stream) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = standard_normal(7, stream, i);
  for (std::size_t begin = 0; begin + 40 < n; begin += 4099) {
    values[begin + 5] = std::numeric_limits<float>::quiet_NaN();
    values[begin + 17] = std::numeric_limits<float>::infinity();
    values[begin + 31] = -0.0F;
    values[begin + 33] = 1e-42F;
    values[begin + 37] = std::numeric_limits<float>::max();
  }
  return values;
}

template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;  // payloads are the machine's
    }
    ASSERT_EQ(std::memcmp(&got[i], &wanted[i], sizeof(T)), 0)
        << what << "[" << i << "]: got " << got[i] << ", wanted " << wanted[i];
  }
}

/// Consecutive elements of a test's arrays.
struct Extent {
  std::size_t first;
  std::size_t count;
};

/// Extents that do not touch, with gaps between them; most begin at a multiple of 16 bytes.
std::vector<Extent> random_extents(std::size_t count, std::size_t longest, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Extent> made;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    at += random() % 9;
    if (random() % 4 != 0) at = (at + 3) / 4 * 4;
    const std::size_t kinds[] = {0, 1 + random() % 4, random() % longest, longest};
    made.push_back({at, kinds[random() % 4]});
    at += made.back().count;
  }
  return made;
}

/// Arrays that an optimizer reads and writes, on the host or on the GPU; it gets extents of them.
struct UpdateArrays {
  const float* gradient;
  float* weight;
  float* state[kMostStates];
  std::uint16_t* narrow;

  [[nodiscard]] std::vector<UpdatePiece> pieces(const std::vector<Extent>& extents,
                                                bool cut) const {
    std::vector<UpdatePiece> made;
    for (const Extent& extent : extents) {
      made.push_back({gradient + extent.first,
                      weight + extent.first,
                      {},
                      cut ? narrow + extent.first : nullptr,
                      static_cast<std::uint32_t>(extent.count),
                      made.size() % 3 != 0});
      for (std::size_t i = 0; i < kMostStates; ++i) {
        if (state[i] != nullptr) made.back().state[i] = state[i] + extent.first;
      }
    }
    return made;
  }
};

/// Compares three steps of one optimizer on extents of arrays, on the host and on the GPU. Its
/// states lie `shift` elements after a boundary.
void compare_steps(const Options& options, const std::vector<Extent>& extents, std::size_t shift,
                   Dtype narrow) {
  const std::size_t n = extents.back().first + extents.back().count + 5;
  const Variant variant = variant_of(options);
  std::vector<float> weight = values_of(n, 1);
  std::vector<std::uint16_t> shard(n, 0xA5A5);
  const OnGpu<float> gpu_weight(weight);
  const OnGpu<std::uint16_t> gpu_shard(shard, shift);
  std::vector<std::vector<float>> states(variant.states, std::vector<float>(n, 0.0F));
  std::vector<OnGpu<float>> gpu_states;
  for (const auto& state : states) gpu_states.emplace_back(state, shift);
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = values_of(n, 10 + t);
    const OnGpu<float> gpu_gradient(gradient);
    UpdateArrays host{gradient.data(), weight.data(), {}, shard.data()};
    UpdateArrays device{gpu_gradient.data(), gpu_weight.data(), {}, gpu_shard.data()};
    for (std::size_t i = 0; i < states.size(); ++i) {
      host.state[i] = states[i].data();
      device.state[i] = gpu_states[i].data();
    }
    const bool cut = narrow != Dtype::fp32;
    const Step step{t, {.mean = 1.0F / 3.0F, .clip = 0.7F}};
    variant.host(options, step, narrow, host.pieces(extents, cut), {});
    const Table<UpdatePiece> table(device.pieces(extents, cut), gpu());
    variant.cuda(options, step, narrow, table.all(), {});
    gpu().runtime->synchronize(nullptr);
  }
  expect_same_bits(gpu_weight.fetch(), weight, "weight");
  for (std::size_t i = 0; i < states.size(); ++i) {
    expect_same_bits(gpu_states[i].fetch(), states[i], i == 0 ? "first state" : "second state");
  }
  expect_same_bits(gpu_shard.fetch(), shard, "16-bit shard");
}

/// Moments as they are kept: of each the values, `T`, and in 8 bits the scales of the extents'
/// blocks.
template <class T>
struct MomentArrays {
  T* values[kMostStates];
  float* scales[kMostStates];

  void add_to(std::vector<UpdatePiece>& pieces, const std::vector<Extent>& extents) const {
    std::size_t block = 0;
    for (std::size_t p = 0; p < extents.size(); ++p) {
      pieces[p].number = 5 * extents[p].first;  // of any remainder
      if (extents[p].first % 4 == 0) pieces[p].number = extents[p].first;
      for (std::size_t i = 0; i < kMostStates; ++i) {
        if (values[i] == nullptr) continue;
        pieces[p].state[i] = values[i] + extents[p].first;
        pieces[p].scale[i] = scales[i] + block;
      }
      block += moment_scales(Moments::int8, extents[p].count);
    }
  }
};

/// compare_steps() with moments of 16 or 8 bits; memory that no piece has keeps its bits.
template <class T>
void compare_moments(const Options& options, const std::vector<Extent>& extents, std::size_t shift,
                     Dtype narrow) {
  shift *= 2 / sizeof(T);  // whole words are copied
  const std::size_t n = (extents.back().first + extents.back().count) / 2 * 2 + 6;
  std::size_t blocks = 1;
  for (const Extent& extent : extents) blocks += moment_scales(Moments::int8, extent.count);
  const Variant variant = variant_of(options);
  std::vector<float> weight = values_of(n, 1);
  std::vector<std::uint16_t> shard(n, 0xA5A5);
  const OnGpu<float> gpu_weight(weight);
  const OnGpu<std::uint16_t> gpu_shard(shard, shift);
  // Codes of any kind are some moment's.
  std::vector<std::vector<T>> values(variant.states, std::vector<T>(n, T{0x25}));
  std::vector<std::vector<float>> scales(variant.states, std::vector<float>(blocks, 0.5F));
  std::vector<OnGpu<T>> gpu_values;
  std::vector<OnGpu<float>> gpu_scales;
  MomentArrays<T> host{};
  MomentArrays<T> device{};
  for (std::size_t i = 0; i < variant.states; ++i) {
    gpu_values.emplace_back(values[i], shift);
    gpu_scales.emplace_back(scales[i]);
  }
  for (std::size_t i = 0; i < variant.states; ++i) {
    host.values[i] = values[i].data();
    host.scales[i] = scales[i].data();
    device.values[i] = gpu_values[i].data();
    device.scales[i] = gpu_scales[i].data();
  }
  for (std::uint64_t t = 1; t <= 3; ++t) {
    const std::vector<float> gradient = values_of(n, 10 + t);
    const OnGpu<float> gpu_gradient(gradient);
    const bool cut = narrow != Dtype::fp32;
    const Step step{t, {.mean = 1.0F / 3.0F, .clip = 0.7F}, 77 + t};
    auto pieces =
        UpdateArrays{gradient.data(), weight.data(), {}, shard.data()}.pieces(extents, cut);
    host.add_to(pieces, extents);
    variant.host(options, step, narrow, pieces, {});
    pieces = UpdateArrays{gpu_gradient.data(), gpu_weight.data(), {}, gpu_shard.data()}.pieces(
        extents, cut);
    device.add_to(pieces, extents);
    const Table<UpdatePiece> table(pieces, gpu());
    variant.cuda(options, step, narrow, table.all(), {});
    gpu().runtime->synchronize(nullptr);
  }
  expect_same_bits(gpu_weight.fetch(), weight, "weight");
  for (std::size_t i = 0; i < values.size(); ++i) {
    expect_same_bits(gpu_values[i].fetch(), values[i], i == 0 ? "first moment" : "second moment");
    expect_same_bits(gpu_scales[i].fetch(), scales[i], i == 0 ? "first scales" : "second scales");
  }
  expect_same_bits(gpu_shard.fetch(), shard, "16-bit shard");
}

TEST(OptimizerOnGpu, MomentsOfEveryKindAreTheHosts) {
  std::vector<std::vector<Extent>> cases{random_extents(5, 3U << 16U, 4),
                                         random_extents(2000, 300, 5),
                                         random_extents(400, kUpdatePiece, 6)};
  for (const std::size_t n : kCounts) {
    if (n < 100000) cases.push_back({{0, n}});  // every block is alike: more of them show nothing
  }
  for (Options options : test::optimizer_cases()) {
    for (const std::vector<Extent>& extents : cases) {
      for (const std::size_t shift : {0U, 1U}) {
        for (const Dtype narrow : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
          SCOPED_TRACE(testing::Message() << test::describe(options) << ": " << extents.size()
                                          << " pieces, the last of " << extents.back().count
                                          << " at " << extents.back().first << ", shift " << shift
                                          << ", shard " << name_of(narrow));
          options.moments = Moments::bf16;
          compare_moments<std::uint16_t>(options, extents, shift, narrow);
          options.moments = Moments::int8;
          compare_moments<std::uint8_t>(options, extents, shift, narrow);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(OptimizerOnGpu, EveryOptimizerIsTheHosts) {
  // Few and long, many and short, and those of an engine: cut to kUpdatePiece.
  std::vector<std::vector<Extent>> cases{random_extents(5, 3U << 18U, 1),
                                         random_extents(2000, 300, 2),
                                         random_extents(400, kUpdatePiece, 3)};
  for (const std::size_t n : kCounts) cases.push_back({{0, n}});
  for (const Options& options : test::optimizer_cases()) {
    ASSERT_NE(variant_of(options).cuda, nullptr) << options.type;
    for (const std::vector<Extent>& extents : cases) {
      for (const std::size_t shift : {0U, 1U}) {
        for (const Dtype narrow : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
          SCOPED_TRACE(testing::Message() << test::describe(options) << ": " << extents.size()
                                          << " pieces, the last of " << extents.back().count
                                          << " at " << extents.back().first << ", shift " << shift
                                          << ", shard " << name_of(narrow));
          compare_steps(options, extents, shift, narrow);
        }
      }
    }
  }
}

TEST(OptimizerOnGpu, AddIsTheHosts) {
  for (const std::size_t n : kCounts) {
    for (const std::size_t shift : {0U, 1U}) {
      const std::vector<float> source = values_of(n, 2);
      std::vector<float> sum = values_of(n, 3);
      const OnGpu<float> gpu_source(source, shift);
      const OnGpu<float> gpu_sum(sum, shift);
      host_optim_ops().add(n, source.data(), sum.data(), {});
      gpu().optim->add(n, gpu_source.data(), gpu_sum.data(), {});
      expect_same_bits(gpu_sum.fetch(), sum, "sum");
    }
  }
}

TEST(OptimizerOnGpu, OverflowIsTheHosts) {
  constexpr float kLimit = 1.5F;  // many of the values are beyond
  constexpr std::size_t kRows = 3;
  for (const std::size_t count : kCounts) {
    for (const std::size_t gap : {0U, 1U, 4U}) {
      for (const std::size_t shift : {0U, 1U}) {
        std::vector<float> values = values_of(kRows * (count + gap), 6);
        if (!values.empty()) values.back() = std::numeric_limits<float>::quiet_NaN();
        const OnGpu<float> there(values, shift);
        host_optim_ops().overflow(kLimit, kRows, count + gap, count, values.data(), {});
        gpu().optim->overflow(kLimit, kRows, count + gap, count, there.data(), {});
        expect_same_bits(there.fetch(), values, "values");
      }
    }
  }
}

/// The tables of sum_of_squares for extents of `values`.
struct Norm {
  Norm(const std::vector<Extent>& extents, const float* values, double* scratch, double* sums) {
    for (const Extent& extent : extents) {
      for_each_piece(extent.count, kNormPiece, [&](std::size_t first, std::size_t n) {
        pieces.push_back({values + extent.first + first, scratch + norm_blocks(first),
                          static_cast<std::uint32_t>(n)});
      });
      arrays.push_back({scratch, norm_blocks(extent.count), sums++});
      scratch += norm_scratch(extent.count);
    }
  }
  std::vector<NormPiece> pieces;
  std::vector<NormArray> arrays;
};

TEST(OptimizerOnGpu, SumsOfSquaresAreTheHosts) {
  std::vector<std::vector<Extent>> cases{random_extents(300, 5000, 4),
                                         random_extents(7, 1U << 20U, 5)};
  for (const std::size_t n : {0UL, 1UL, 31UL, 1024UL, 1025UL, 50257UL, 1024UL * 1024UL,
                              1024UL * 1024UL + 1UL, 5'000'011UL}) {
    cases.push_back({{0, n}});
  }
  for (const std::vector<Extent>& extents : cases) {
    for (const bool finite : {true, false}) {
      SCOPED_TRACE(testing::Message() << extents.size() << " arrays, the last of "
                                      << extents.back().count << (finite ? ", finite" : ""));
      const std::size_t n = extents.back().first + extents.back().count;
      std::size_t doubles = 0;
      for (const Extent& extent : extents) doubles += norm_scratch(extent.count);
      std::vector<float> values = values_of(n, 4);
      for (float& value : values) {
        if (finite && !(std::fabs(value) < 10.0F)) value = 0.5F;
      }
      std::vector<double> scratch(doubles, -1.0);
      std::vector<double> sums(extents.size(), -1.0);
      const OnGpu<float> gpu_values(values);
      const OnGpu<double> gpu_scratch(scratch);
      const OnGpu<double> gpu_sums(sums);
      const Norm host(extents, values.data(), scratch.data(), sums.data());
      const Norm device(extents, gpu_values.data(), gpu_scratch.data(), gpu_sums.data());
      const Table<NormPiece> pieces(device.pieces, gpu());
      const Table<NormArray> arrays(device.arrays, gpu());
      host_optim_ops().sum_of_squares(1.0F / 3.0F, host.pieces, host.arrays, {});
      gpu().optim->sum_of_squares(1.0F / 3.0F, pieces.all(), arrays.all(), {});
      expect_same_bits(gpu_scratch.fetch(), scratch, "sums of blocks");
      expect_same_bits(gpu_sums.fetch(), sums, "sum of squares");
    }
  }
}

TEST(OptimizerOnGpu, InitialWeightsAreTheHosts) {
  for (const std::size_t n : kCounts) {
    for (const float scale : {0.0F, 0.02F}) {
      std::vector<float> weights(n, -1.0F);
      const OnGpu<float> gpu_weights(weights);
      host_optim_ops().initialize(3, 5, 12345, n, 1.0F, scale, weights.data(), {});
      gpu().optim->initialize(3, 5, 12345, n, 1.0F, scale, gpu_weights.data(), {});
      expect_same_bits(gpu_weights.fetch(), weights, "weights");
    }
  }
}

TEST(MemoryOnGpu, ConvertsEveryPatternAsTheHost) {
  const auto patterns = [](Dtype dtype) {
    std::vector<std::uint16_t> words;
    if (dtype != Dtype::fp32) {
      for (std::uint32_t i = 0; i <= 0xFFFFU; ++i) words.push_back(static_cast<std::uint16_t>(i));
      return words;
    }
    for (std::uint32_t high = 0; high <= 0xFFFFU; ++high) {
      for (const int low : {0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF}) {
        words.push_back(static_cast<std::uint16_t>(low));
        words.push_back(static_cast<std::uint16_t>(high));
      }
    }
    return words;
  };
  for (const Dtype from : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    for (const Dtype to : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      for (const std::size_t shift : {0U, 2U}) {
        std::vector<std::uint16_t> source = patterns(from);
        const std::size_t n = source.size() * 2 / size_of(from) - 3;  // ragged
        std::vector<std::uint16_t> result(n * size_of(to) / 2, 0xA5A5);
        const OnGpu<std::uint16_t> gpu_source(source, shift);
        const OnGpu<std::uint16_t> gpu_result(result, shift);
        host_memory_ops().convert({source.data(), n, from}, {result.data(), n, to}, {});
        gpu().memory_ops->convert({gpu_source.data(), n, from, MemoryKind::device},
                                  {gpu_result.data(), n, to, MemoryKind::device}, {});
        SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
        expect_same_bits(gpu_result.fetch(), result, "converted word");
      }
    }
  }
}

TEST(MemoryOnGpu, RefusesWhatItCannotReach) {
  std::vector<float> host(8);
  EXPECT_THROW(gpu().memory_ops->clear(View::of(host.data(), 8), {}), std::invalid_argument);
  EXPECT_THROW(host_memory_ops().clear({host.data(), 8, Dtype::fp32, MemoryKind::device}, {}),
               std::invalid_argument);
}

TEST(DeviceMemory, IsCountedAndGivenBack) {
  const MemoryUse before = gpu().runtime->memory_use();
  {
    const Buffer buffer(1U << 20U, MemoryKind::device);
    EXPECT_EQ(gpu().runtime->memory_use().current, before.current + (1U << 20U));
    EXPECT_GE(gpu().runtime->memory_use().peak, before.current + (1U << 20U));
  }
  EXPECT_EQ(gpu().runtime->memory_use().current, before.current);
  EXPECT_THROW(Buffer(std::size_t{1} << 50U, MemoryKind::device), std::exception);
}

TEST(Streams, WaitForEventsAndTellTimes) {
  const Stream first = gpu().make_stream("first");
  const Stream second = gpu().make_stream("second");
  constexpr std::size_t kMany = std::size_t{1} << 28U;
  const Buffer source = Buffer::zeros(kMany, Dtype::fp32, MemoryKind::device);
  const Buffer target = Buffer::zeros(kMany, Dtype::fp32, MemoryKind::device);
  for (int round = 0; round < 5; ++round) {
    const auto value = static_cast<float>(round + 1);
    Mark begin;
    Mark end;
    Event done;
    first.set(begin);
    gpu().optim->initialize(0, 0, 0, kMany, value, 0.0F,
                            source.view(kMany, Dtype::fp32).as<float>(), first.handle());
    first.set(end);
    first.record(done);
    second.wait(done);
    gpu().memory_ops->copy(source.view(kMany, Dtype::fp32), target.view(kMany, Dtype::fp32),
                           second.handle());
    float last = -1;
    gpu().memory_ops->copy(ConstView(target.view(kMany, Dtype::fp32)).part(kMany - 1, 1),
                           View::of(&last, 1), second.handle());
    second.synchronize();
    EXPECT_EQ(last, value) << "the copy ran before the values were written";
    EXPECT_GT(end.seconds_since(begin), 0.0);
    EXPECT_LT(end.seconds_since(begin), 1.0);
  }
}

}  // namespace
}  // namespace zeropp::optim
