#include "tests/support/update_image_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "kernels/core/counter_rng.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/table.hpp"

namespace zeropp::optim {
namespace {

/// An array of bytes on the host, and its copy in the memory of a device.
class Both {
 public:
  Both(const ComputeDevice& device, std::size_t bytes, std::byte filled = std::byte{0xA5})
      : device_(device), host_(bytes, filled), there_(bytes, device.memory) {
    upload();
  }
  template <class T>
  Both(const ComputeDevice& device, const std::vector<T>& values)
      : Both(device, values.size() * sizeof(T)) {
    std::memcpy(host_.data(), values.data(), host_.size());
    upload();
  }
  template <class T>
  [[nodiscard]] T* host() {
    return reinterpret_cast<T*>(host_.data());
  }
  template <class T>
  [[nodiscard]] T* device() const {
    return reinterpret_cast<T*>(there_.data());
  }
  /// Compares what the device has with the host's; of fp32 values NaN is NaN, whatever its payload.
  void expect_same(const char* what, bool floats) const {
    std::vector<std::byte> got(host_.size());
    const Stream stream = Stream::borrow(*device_.runtime, {});
    stream.copy(got.data(), there_.data(), got.size());
    stream.synchronize();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == host_[i]) continue;
      if (floats && std::isnan(value(got, i)) && std::isnan(value(host_, i))) continue;
      FAIL() << what << ": byte " << i << " of " << got.size() << " is " << int(got[i])
             << ", wanted " << int(host_[i]);
    }
  }

 private:
  static float value(const std::vector<std::byte>& bytes, std::size_t at) {
    float of = 0;
    std::memcpy(&of, bytes.data() + at / sizeof(float) * sizeof(float), sizeof of);
    return of;
  }
  void upload() {
    const Stream stream = Stream::borrow(*device_.runtime, {});
    stream.copy(there_.data(), host_.data(), host_.size());
    stream.synchronize();
  }
  const ComputeDevice& device_;
  std::vector<std::byte> host_;
  Buffer there_;
};

/// Weights or gradients; `special`: some are not finite, subnormal, or beyond fp16 and bf16.
std::vector<float> values_of(std::size_t n, std::uint64_t stream, float scale, bool special) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = scale * standard_normal(7, stream, i);
  if (!special) return values;
  const float of[] = {std::numeric_limits<float>::quiet_NaN(),
                      std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::max(),
                      -3.4e38F,
                      70000.0F,
                      1e-42F,
                      -0.0F};
  for (std::size_t i = 0; 1531 * i + 77 < n; ++i) values[1531 * i + 77] = of[i % std::size(of)];
  // A block of nothing but zeros, and one of values that are too small for a scale.
  for (std::size_t i = 2048; i < std::min<std::size_t>(n, 3072); ++i) values[i] = 0;
  for (std::size_t i = 5120; i < std::min<std::size_t>(n, 6144); ++i) values[i] = 1e-40F;
  return values;
}

/// A part of the weights that the optimizer treats alike; what lies between two is a gap.
struct Part {
  std::size_t begin;
  std::size_t count;
  bool decay;
};

std::vector<Part> random_parts(std::size_t n, std::size_t multiple, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Part> parts;
  std::size_t at = random() % 3 * multiple;
  while (at < n) {
    const std::size_t most[] = {multiple, 300, 5000, 40000};
    std::size_t count = std::min(n - at, 1 + random() % most[random() % 4]);
    parts.push_back({at, count, random() % 2 == 0});
    at += count + random() % 2 * (random() % 64);
    at = (at + multiple - 1) / multiple * multiple;
  }
  return parts;
}

struct Case {
  std::string codec;
  Dtype rounded = Dtype::bf16;
  std::size_t n = 0;
  std::size_t chunk = 0;  ///< values of a chunk but the last one
  std::vector<Part> parts;
  bool special = true;
};

/// Compares two steps of an optimizer and the image after each: on `device` updates write the
/// image; on the host an update comes first and an encoding after it.
void compare(const ComputeDevice& device, const Options& options, const Case& given) {
  const codec::CodecSpec spec = codec::parse_codec(given.codec);
  const codec::Codec codec = codec::Codec(spec, given.rounded).rounding();
  const ImageFormat format{.bits = spec.format == "int4" ? 4U : 8U,
                           .block = static_cast<std::uint32_t>(codec.block()),
                           .rounded = given.rounded};
  const Variant variant = variant_of(options);
  const std::size_t n = given.n;
  const std::size_t each = moment_element_bytes(options.moments);
  Both weight(device, values_of(n, 1, 0.02F, given.special));
  std::vector<Both> moments;
  std::vector<Both> scales;
  for (std::size_t i = 0; i < variant.states; ++i) {
    moments.emplace_back(device, n * each, std::byte{0});
    scales.emplace_back(device, std::vector<float>(n / kMomentBlock + 1, 0.25F));
  }
  // The chunks of the image; a guard lies before the first and after the last.
  constexpr std::size_t kGuard = 64;
  struct Chunk {
    std::size_t first, length, offset, bytes;
  };
  std::vector<Chunk> chunks;
  std::size_t bytes = kGuard;
  for (std::size_t first = 0; first < n; first += given.chunk) {
    const std::size_t length = std::min(given.chunk, n - first);
    chunks.push_back({first, length, bytes, codec.wire_bytes(length)});
    bytes += chunks.back().bytes;
  }
  for (std::uint64_t t = 1; t <= 2; ++t) {
    Both gradient(device, values_of(n, 10 + t, 1.0F, given.special));
    Both image(device, bytes + kGuard);
    std::vector<UpdatePiece> on_host;
    std::vector<UpdatePiece> pieces;
    std::vector<ImageTile> tiles;
    const auto piece = [&](const Part& part, std::size_t at, std::size_t count, bool there) {
      UpdatePiece made{.gradient = (there ? gradient.device<float>() : gradient.host<float>()) + at,
                       .weight = (there ? weight.device<float>() : weight.host<float>()) + at,
                       .state = {},
                       .narrow = nullptr,
                       .count = static_cast<std::uint32_t>(count),
                       .decay = part.decay,
                       .number = at};
      for (std::size_t i = 0; i < variant.states; ++i) {
        made.state[i] =
            (there ? moments[i].device<std::byte>() : moments[i].host<std::byte>()) + at * each;
        made.scale[i] =
            (there ? scales[i].device<float>() : scales[i].host<float>()) + at / kMomentBlock;
      }
      return made;
    };
    for (const Part& part : given.parts)
      on_host.push_back(piece(part, part.begin, part.count, false));
    for (const Chunk& chunk : chunks) {
      const std::size_t scale_offset = codec.scale_offset(chunk.length);
      const std::size_t blocks = (chunk.length + codec.block() - 1) / codec.block();
      for_each_piece(chunk.length, kImageTile, [&](std::size_t first, std::size_t count) {
        const std::size_t begin = chunk.first + first;
        const std::size_t before = pieces.size();
        for (const Part& part : given.parts) {
          const std::size_t from = std::max(begin, part.begin);
          const std::size_t to = std::min(begin + count, part.begin + part.count);
          if (from < to) pieces.push_back(piece(part, from, to - from, true));
        }
        std::byte* const codes = image.device<std::byte>() + chunk.offset;
        const bool last = first + count == chunk.length;
        tiles.push_back({.weight = weight.device<float>() + begin,
                         .codes = codes + first * format.bits / 8,
                         .scales = codes + scale_offset + first / format.block * kImageScaleBytes,
                         .first = static_cast<std::uint32_t>(before),
                         .pieces = static_cast<std::uint32_t>(pieces.size() - before),
                         .values = static_cast<std::uint32_t>(count),
                         .padding = static_cast<std::uint32_t>(
                             last ? chunk.bytes - scale_offset - blocks * kImageScaleBytes : 0)});
      });
    }
    const Step step{t, {.mean = 1.0F / 3.0F, .clip = 0.7F}, 77 + t};
    variant.host(options, step, Dtype::fp32, on_host, {});
    for (const Chunk& chunk : chunks) {
      codec::Layout layout = codec::Layout::contiguous(chunk.length);
      layout.padded = (chunk.length + codec.block() - 1) / codec.block() * codec.block();
      codec.encode(ConstView::of(weight.host<float>() + chunk.first, chunk.length), layout,
                   {image.host<std::byte>() + chunk.offset, chunk.bytes}, {});
    }
    const Table<UpdatePiece> piece_table(pieces, device);
    const Table<ImageTile> tile_table(tiles, device);
    variant.tiles_on(device.memory)(options, step, format, piece_table.all(), tile_table.all(), {});
    device.runtime->synchronize(nullptr);
    weight.expect_same("weight", true);
    for (std::size_t i = 0; i < variant.states; ++i) {
      moments[i].expect_same("moment", options.moments == Moments::fp32);
      scales[i].expect_same("scales of a moment", true);
    }
    image.expect_same("image", false);
    if (testing::Test::HasFailure()) return;
  }
}

Options options_of(const char* type, Moments moments) {
  return {
      .type = type, .learning_rate = 0.01, .beta2 = 0.99, .weight_decay = 0.1, .moments = moments};
}

std::vector<std::string> codecs() {
  std::vector<std::string> names;
  for (const char* format : {"int8", "int4"}) {
    for (std::uint32_t block = kImageBlocks[0]; block <= kImageBlocks[1]; block *= 2) {
      names.push_back(std::string(format) + ":" + std::to_string(block));
    }
  }
  return names;
}

void compare_described(const ComputeDevice& device, const Options& options, const Case& given) {
  SCOPED_TRACE(testing::Message() << options.type << ", moments " << enum_name(options.moments)
                                  << ", " << given.codec << " of " << name_of(given.rounded) << ", "
                                  << given.n << " values in chunks of " << given.chunk << ", "
                                  << given.parts.size() << " parts");
  compare(device, options, given);
}

}  // namespace

void compare_every_codec_dtype_and_length(const ComputeDevice& device) {
  for (const std::string& codec : codecs()) {
    for (const Dtype rounded : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      for (const std::size_t n : {1UL, 31UL, 1000UL, 4096UL, 4100UL, 3 * 4096UL, 50257UL}) {
        for (const bool special : {false, true}) {
          compare_described(device, options_of("AdamW", Moments::fp32),
                            {codec, rounded, n, n, {{0, n, true}}, special});
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

void compare_every_optimizer_and_kind_of_moments_in_parts(const ComputeDevice& device) {
  unsigned seed = 1;
  for (const char* type : {"AdamW", "Adam"}) {
    for (const Moments moments : {Moments::fp32, Moments::bf16, Moments::int8}) {
      for (const std::string& codec : codecs()) {
        const std::size_t block = codec::Codec(codec::parse_codec(codec), Dtype::bf16).block();
        // Shards begin anywhere in a tensor that begins at a multiple of 64; with moments in 8 bits
        // at multiples of 64, too.
        for (const std::size_t multiple : {std::size_t{64}, std::size_t{8}, std::size_t{1}}) {
          if (moments == Moments::int8 && multiple != 64) continue;
          for (const std::size_t n : {20'003UL, 123'456UL}) {
            for (const std::size_t chunk : {n, 16 * block * 3}) {
              compare_described(device, options_of(type, moments),
                                {codec, Dtype::bf16, n, chunk, random_parts(n, multiple, seed++)});
              if (testing::Test::HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

void expect_tiles_of_optimizers_with_two_moments(MemoryKind memory) {
  for (const char* type : {"AdamW", "Adam"})
    EXPECT_NE(variant_of({.type = type}).tiles_on(memory), nullptr) << type;
  for (const char* type : {"Lion", "SGD"})
    EXPECT_EQ(variant_of({.type = type}).tiles_on(memory), nullptr) << type;
}

}  // namespace zeropp::optim
