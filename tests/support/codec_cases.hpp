// Cases of the codec tests: every registered format with every block and memory dtype, arrays of a
// run-time dtype, wire memory between guard bytes, and inputs that have rules of their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/spec.hpp"
#include "kernels/core/view.hpp"
#include "lib/device/buffer.hpp"

namespace zeropp::test {

inline const codec::FormatInfo& info_of(const std::string& format) {
  for (const codec::FormatInfo& info : codec::formats()) {
    if (info.name == format) return info;
  }
  throw std::logic_error("not registered: " + format);
}

/// A codec to test.
struct Binding {
  codec::CodecSpec spec;
  Dtype memory;
  [[nodiscard]] codec::Codec bind() const { return {spec, memory}; }
  [[nodiscard]] const codec::FormatInfo& info() const { return info_of(spec.format); }
  [[nodiscard]] bool scaled() const { return info().scale_bytes > 0; }
  [[nodiscard]] bool has(const char* option) const {
    return std::ranges::find(spec.options, option) != spec.options.end();
  }
};

/// The sets of options that an integer format takes.
inline const std::vector<std::vector<std::string>>& option_sets() {
  static const std::vector<std::vector<std::string>> sets = {
      {"wide"},         {"asym"},          {"s32"},
      {"had32"},        {"s32", "wide"},   {"asym", "s32"},
      {"had32", "s32"}, {"had32", "wide"}, {"had32", "s32", "wide"},
      {"sr"},           {"sr", "wide"},    {"s32", "sr"},
      {"asym", "sr"},   {"had32", "sr"},   {"had32", "s32", "sr", "wide"}};
  return sets;
}

/// Every registered format: those with kernels of their own with every power of two that they take
/// as a block, others with blocks that threads, a warp and several warps of a GPU share; and every
/// set of options with widths of one plane and of two.
inline std::vector<codec::CodecSpec> all_specs() {
  std::vector<codec::CodecSpec> specs;
  for (const char* const format : {"int3", "int4", "int8"}) {
    for (std::size_t i = 0; i < option_sets().size(); ++i) {
      specs.push_back({format, i % 2 == 0 ? std::size_t{64} : std::size_t{2048}, option_sets()[i]});
    }
  }
  for (const codec::FormatInfo& info : codec::formats()) {
    if (info.scale_bytes == 0) {
      specs.push_back({std::string(info.name), 0, {}});
      continue;
    }
    const bool by_block = info.name == "int4" || info.name == "int8";
    for (std::size_t block = info.minimum_block; block <= info.maximum_block;
         block *= by_block ? 2 : 4) {
      specs.push_back({std::string(info.name), block, {}});
    }
  }
  return specs;
}

inline std::vector<Binding> all_bindings() {
  std::vector<Binding> bindings;
  for (const codec::CodecSpec& spec : all_specs()) {
    for (const Dtype memory : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      bindings.push_back({spec, memory});
    }
  }
  return bindings;
}

/// Label of a codec for gtest's test names.
inline std::string label_of(const codec::CodecSpec& spec) {
  std::string label = codec::to_string(spec);
  for (char& c : label) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return label;
}
inline std::string label_of(const testing::TestParamInfo<Binding>& binding) {
  return label_of(binding.param.spec) + "_" + std::string(name_of(binding.param.memory));
}

/// Two codecs, used one after the other.
struct Pair {
  codec::CodecSpec from;
  codec::CodecSpec to;
};

/// Every pair of formats with its default block, some with their smallest and largest blocks and
/// with options.
inline std::vector<Pair> all_pairs() {
  std::vector<codec::CodecSpec> specs = {
      {"int4", 64, {"wide"}}, {"int8", 256, {"had32", "s32"}}, {"int4", 128, {"sr"}}};
  for (const codec::FormatInfo& info : codec::formats()) {
    const std::string name(info.name);
    if (info.scale_bytes == 0) {
      specs.push_back({name, 0, {}});
      continue;
    }
    std::set<std::size_t> blocks = {info.default_block};
    // Formats that may be fused, and one that never is, have other blocks too.
    if (name == "int4" || name == "int6" || name == "int8") {
      blocks.insert({info.minimum_block, info.maximum_block});
    }
    for (const std::size_t block : blocks) specs.push_back({name, block, {}});
  }
  std::vector<Pair> pairs;
  for (const auto& from : specs) {
    for (const auto& to : specs) pairs.push_back({from, to});
  }
  return pairs;
}

inline std::string label_of(const testing::TestParamInfo<Pair>& pair) {
  return label_of(pair.param.from) + "_to_" + label_of(pair.param.to);
}

/// Text that gtest prints of bindings and pairs.
inline void PrintTo(const Binding& binding, std::ostream* out) {
  *out << codec::to_string(binding.spec) << " in " << name_of(binding.memory);
}
inline void PrintTo(const Pair& pair, std::ostream* out) {
  *out << codec::to_string(pair.from) << " to " << codec::to_string(pair.to);
}

/// n values of a run-time dtype, every byte 0xA5 at first.
class Values {
 public:
  Values(std::size_t n, Dtype dtype)
      : n_(n), dtype_(dtype), buffer_(n * size_of(dtype), MemoryKind::host) {
    if (n > 0) std::memset(buffer_.data(), 0xA5, buffer_.bytes());
  }
  Values(const std::vector<float>& values, Dtype dtype) : Values(values.size(), dtype) {
    for (std::size_t i = 0; i < n_; ++i) set(i, values[i]);
  }
  [[nodiscard]] std::size_t size() const { return n_; }
  [[nodiscard]] Dtype dtype() const { return dtype_; }
  [[nodiscard]] View view() const { return buffer_.view(n_, dtype_); }
  [[nodiscard]] float operator[](std::size_t i) const {
    return with_type(dtype_, [&](auto* type) {
      return to_float(view().as<std::remove_pointer_t<decltype(type)>>()[i]);
    });
  }
  /// Nearest, saturating; a float that is not a NaN keeps its bits in fp32.
  void set(std::size_t i, float value) {
    with_type(dtype_, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      view().as<T>()[i] = saturating_cast<T>(value);
    });
  }
  [[nodiscard]] std::uint32_t bits(std::size_t i) const {
    std::uint32_t word = 0;
    std::memcpy(&word, buffer_.data() + i * size_of(dtype_), size_of(dtype_));
    return word;
  }
  void set_bits(std::size_t i, std::uint32_t word) {
    std::memcpy(buffer_.data() + i * size_of(dtype_), &word, size_of(dtype_));
  }

 private:
  std::size_t n_;
  Dtype dtype_;
  Buffer buffer_;
};

inline std::uint32_t canonical_nan(Dtype dtype) {
  return dtype == Dtype::fp32   ? kCanonicalNan32
         : dtype == Dtype::bf16 ? kCanonicalNanBf16
                                : kCanonicalNanFp16;
}

/// `images` wire images, poisoned, with guards before, between and after them.
class Wire {
 public:
  Wire(std::size_t image_bytes, std::size_t images, int poison = 0xA5)
      : bytes_(image_bytes),
        images_(images),
        poison_(static_cast<std::byte>(poison)),
        buffer_(kGuard + images * (image_bytes + kGuard), MemoryKind::host) {
    std::memset(buffer_.data(), poison, buffer_.bytes());
  }
  Wire(const codec::Codec& codec, std::size_t n, std::size_t images = 1, int poison = 0xA5)
      : Wire(codec.wire_bytes(n), images, poison) {}
  [[nodiscard]] codec::WireImages images() const {
    return {buffer_.data() + kGuard, bytes_ + kGuard};
  }
  [[nodiscard]] std::vector<std::byte> image(std::size_t i = 0) const {
    const std::byte* first = images().data + i * images().stride;
    return {first, first + bytes_};
  }
  [[nodiscard]] bool guards_intact() const {
    for (std::size_t gap = 0; gap <= images_; ++gap) {
      const std::byte* guard = buffer_.data() + gap * (bytes_ + kGuard);
      for (std::size_t i = 0; i < kGuard; ++i) {
        if (guard[i] != poison_) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  std::size_t bytes_;
  std::size_t images_;
  std::byte poison_;
  Buffer buffer_;
};

/// Encodes all of `values` as one image.
inline Wire encoded(const codec::Codec& codec, const Values& values, int poison = 0xA5) {
  Wire wire(codec, values.size(), 1, poison);
  codec.encode(values.view(), codec::Layout::contiguous(values.size()), wire.images(), {});
  EXPECT_TRUE(wire.guards_intact());
  return wire;
}

inline Values decoded(const codec::Codec& codec, const Wire& wire, std::size_t n, Dtype dtype) {
  Values values(n, dtype);
  codec.decode(wire.images(), codec::Layout::contiguous(n), values.view(), {});
  return values;
}

/// Normal values whose magnitude changes every 32: from deep in the subnormals of bf16 scales to
/// the top of the dtype's range.
inline std::vector<float> random_values(std::size_t n, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-140, 124);
  std::vector<float> values(n);
  int scale = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 32 == 0) scale = (i / 32) % 4 == 0 ? exponent(engine) : 0;
    values[i] = std::ldexp(normal(engine), scale);
  }
  return values;
}

/// Largest magnitude in the block that element i lies in.
inline float block_absmax(const Values& values, std::size_t block, std::size_t i) {
  float largest = 0;
  const std::size_t first = i / block * block;
  for (std::size_t k = first; k < std::min(first + block, values.size()); ++k) {
    largest = std::max(largest, std::fabs(values[k]));
  }
  return largest;
}

/// Half the distance between neighbours of `dtype` around x; 0 for fp32, where decode is exact.
inline double half_ulp(double x, Dtype dtype) {
  if (dtype == Dtype::fp32) return 0;
  int exponent = 0;
  std::frexp(x, &exponent);
  return dtype == Dtype::bf16 ? std::ldexp(0.5, std::max(exponent - 8, -133))
                              : std::ldexp(0.5, std::max(exponent - 11, -24));
}

/// Values of every size, a block in seven with something that has a rule of its own.
inline std::vector<float> hostile_values(std::size_t n, std::size_t block, std::uint32_t seed) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = random_values(n, seed);
  const float special[] = {Limits::quiet_NaN(), Limits::infinity(),     -Limits::infinity(),
                           Limits::max(),       -Limits::max(),         Limits::denorm_min(),
                           -Limits::min() / 2,  126.9F * Limits::min(), 65519.0F};
  std::size_t kind = seed;
  const std::size_t stretch = std::max<std::size_t>(block, 8);
  for (std::size_t first = 0; first < n; first += 7 * stretch, ++kind) {
    const std::size_t last = std::min(first + stretch, n);
    const std::size_t what = kind % (std::size(special) + 2);
    if (what < std::size(special)) {
      values[first + (last - first) / 2] = special[what];
    } else {
      for (std::size_t i = first; i < last; ++i) {
        // The stretch is filled with zeros of both signs, or with subnormals alone.
        values[i] =
            what == std::size(special) ? (i % 2 == 0 ? 0.0F : -0.0F) : std::ldexp(values[i], -149);
      }
    }
  }
  return values;
}

}  // namespace zeropp::test
