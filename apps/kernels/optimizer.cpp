// The end of a step on flat arrays of parameters: AdamW with moments of every kind and the 16-bit
// weights that follow, or with the wire image of the new weights; the norm of the gradients, and
// their accumulation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/kernels/codec_checks.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/base/checked.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/device/table.hpp"
#include "lib/zero/plan/weight_image_memory.hpp"

namespace zeropp::kernels {

namespace {

using optim::Moments;
using optim::NormArray;
using optim::NormPiece;
using optim::UpdatePiece;

constexpr std::size_t kLooks = 4096;
constexpr float kMean = 0.125F;

double real(std::size_t count) { return static_cast<double>(count); }

/// The parameters before the update.
struct State {
  explicit State(const Source& source)
      : gradient(source.normals(1, Dtype::fp32)),
        weight(source.normals(2, Dtype::fp32, 0.02F)),
        m(source.normals(3, Dtype::fp32, 0.1F)),
        v(source.magnitudes(4, Dtype::fp32, 0.01F)) {}
  Values gradient, weight, m, v;
};

optim::Options options(Moments moments) {
  return {.type = "AdamW", .weight_decay = 0.1, .moments = moments};
}
constexpr std::uint64_t kStep = 10;

enum AdamWArray : std::size_t { kGradient, kWeight, kM, kV, kMScales, kVScales, kNarrow, kImage };
constexpr Moments kEveryKind[] = {Moments::fp32, Moments::bf16, Moments::int8};

/// How moments are kept, in a row's name.
std::string kept_as(Moments moments) { return fmt::format("moments={}", enum_name(moments)); }

/// A moment before the update, as it is kept, and what is kept of it after.
class KeptMoment {
 public:
  KeptMoment(Values values, Moments kind, bool is_signed, std::size_t n)
      : values_(std::move(values)), kind_(kind), is_signed_(is_signed), n_(n) {}

  /// Elements of the array: codes lie in it two a word of 16 bits.
  [[nodiscard]] Array array(std::string_view name) const {
    const bool codes = kind_ == Moments::int8;
    return {name, codes ? (n_ + 1) / 2 : n_, kind_ == Moments::fp32 ? Dtype::fp32 : Dtype::bf16,
            [*this](View memory, std::size_t) { keep(static_cast<std::byte*>(memory.data), {}); }};
  }
  [[nodiscard]] Array scales(std::string_view name) const {
    return {name, optim::moment_scales(kind_, n_), Dtype::fp32,
            [*this](View memory, std::size_t) { keep({}, memory.as<float>()); }};
  }
  [[nodiscard]] float before(std::size_t i) const {
    const Block block(*this, i / optim::kMomentBlock);
    std::vector<float> wide(block.wide.size());
    optim::widen_moments(kind_, is_signed_, wide.size(), block.values.data(), block.scales.data(),
                         wide.data());
    return wide[i % optim::kMomentBlock];
  }
  /// Checks element i, and how far rounding may have moved it.
  void check(Verdict& verdict, const Result& got, const Result& scales, std::size_t i,
             double wanted, double tolerance) const {
    if (kind_ != Moments::int8) {
      const double rounded = kind_ == Moments::bf16 ? std::abs(wanted) / 128 : 0;
      verdict.close(got, i, wanted, tolerance + rounded);
      return;
    }
    const float scale = scales[i / optim::kMomentBlock];
    float value = 0;
    optim::widen_moments(kind_, is_signed_, 1, got.bytes() + i, &scale, &value);
    constexpr double kWidest = 0.0071;  // half of the widest distance of two values, or 1 to -1
    if (std::abs(value - wanted) <= tolerance + kWidest * static_cast<double>(scale)) return;
    verdict.fail(std::string(got.name()) + "[" + std::to_string(i) + "] is " +
                 std::to_string(value) + ", wanted " + std::to_string(wanted));
  }

 private:
  struct Block {
    Block(const KeptMoment& of, std::size_t index)
        : wide(std::min(optim::kMomentBlock, of.n_ - index * optim::kMomentBlock)),
          values(wide.size() * sizeof(float)),
          scales(1) {
      for (std::size_t i = 0; i < wide.size(); ++i) {
        wide[i] = of.values_(index * optim::kMomentBlock + i);
      }
      optim::keep_moments(of.kind_, of.is_signed_, wide.size(), wide.data(), values.data(),
                          scales.data());
    }
    std::vector<float> wide;
    std::vector<std::byte> values;
    std::vector<float> scales;
  };

  void keep(std::byte* values, float* scales) const {
    const std::size_t size = optim::moment_element_bytes(kind_);
    for (std::size_t first = 0; first < n_; first += optim::kMomentBlock) {
      const Block block(*this, first / optim::kMomentBlock);
      if (values != nullptr) {
        std::copy_n(block.values.begin(), block.wide.size() * size, values + first * size);
      }
      if (scales != nullptr) scales[first / optim::kMomentBlock] = block.scales.front();
    }
  }

  Values values_;
  Moments kind_;
  bool is_signed_;
  std::size_t n_;
};

/// The moments of a problem.
struct AdamWMoments {
  AdamWMoments(const State& state, Moments kind, std::size_t n)
      : m(state.m, kind, true, n), v(state.v, kind, false, n) {}
  KeptMoment m, v;
};

std::vector<UpdatePiece> pieces_of(const Set& set, Dtype narrow, Moments moments) {
  std::vector<UpdatePiece> pieces;
  optim::for_each_piece(
      set[kWeight].count, optim::kUpdatePiece, [&](std::size_t first, std::size_t count) {
        const auto part = [&](AdamWArray array) {
          return set[array].part(first, count).template as<float>();
        };
        const auto moment = [&](AdamWArray array) {
          return static_cast<std::byte*>(set[array].data) +
                 first * optim::moment_element_bytes(moments);
        };
        const auto scale = [&](AdamWArray array) {
          return set[array].part(first / optim::kMomentBlock, 0).template as<float>();
        };
        const bool follows = narrow != Dtype::fp32;
        pieces.push_back({.gradient = part(kGradient),
                          .weight = part(kWeight),
                          .state = {moment(kM), moment(kV)},
                          .narrow = follows ? set[kNarrow].part(first, count).data : nullptr,
                          .count = static_cast<std::uint32_t>(count),
                          .decay = true,
                          .scale = {scale(kMScales), scale(kVScales)},
                          .number = first});
      });
  return pieces;
}

Call bind_adamw(const Set& set, const ComputeDevice& device, Dtype narrow, Moments moments) {
  const auto table = std::make_shared<Table<UpdatePiece>>(pieces_of(set, narrow, moments), device);
  return [table, narrow, given = options(moments),
          update = optim::variant_of(options(moments)).on(device.memory)](StreamHandle stream) {
    update(given, {kStep, {.mean = kMean, .clip = 1.0F}}, narrow, table->all(), stream);
  };
}

/// Checks a step of AdamW in fp64 (Loshchilov and Hutter, arXiv 1711.05101).
std::string check_adamw(const State& before, const AdamWMoments& kept, std::size_t n, Dtype narrow,
                        Moments moments, const Results& results) {
  Verdict verdict;
  const optim::Options o = options(moments);
  const double bias1 = 1 - std::pow(o.beta1, real(kStep));
  const double bias2 = 1 - std::pow(o.beta2, real(kStep));
  const Result weight = results[kWeight];
  const Result m = results[kM];
  const Result v = results[kV];
  const Result m_scales = results[kMScales];
  const Result v_scales = results[kVScales];
  const Result narrowed = results[kNarrow];
  for (const Result* result : {&weight, &m_scales, &v_scales, &narrowed}) verdict.written(*result);
  for (const std::size_t i : some_of(n, kLooks)) {
    constexpr double kTolerance = 1e-5;
    const double g = static_cast<double>(before.gradient(i)) * kMean;
    const double wanted_m = o.beta1 * static_cast<double>(kept.m.before(i)) + (1 - o.beta1) * g;
    const double wanted_v = o.beta2 * static_cast<double>(kept.v.before(i)) + (1 - o.beta2) * g * g;
    const double step = wanted_m / bias1 / (std::sqrt(wanted_v / bias2) + o.epsilon);
    const double wanted =
        before.weight(i) * (1 - o.learning_rate * o.weight_decay) - o.learning_rate * step;
    kept.m.check(verdict, m, m_scales, i, wanted_m, kTolerance * (std::abs(wanted_m) + 0.01));
    kept.v.check(verdict, v, v_scales, i, wanted_v, kTolerance * (std::abs(wanted_v) + 1e-4));
    verdict.close(weight, i, wanted, kTolerance * (std::abs(wanted) + 0.01));
    if (narrow == Dtype::fp32) continue;
    verdict.close(narrowed, i, wanted, rounding(wanted, narrow) + 1e-6);
  }
  return verdict.text();
}

Problem adamw_of(std::size_t n, Dtype narrow, Moments moments, const Source& source) {
  constexpr double kOperations = 16;
  const State state(source);
  const AdamWMoments kept(state, moments, n);
  const double narrowed = narrow == Dtype::fp32 ? 0.0 : 2.0;
  const double moved = real(optim::Kept(2, moments).bytes(n));  // in either direction
  return {.work = {.read = 8 * real(n) + moved,
                   .written = (4 + narrowed) * real(n) + moved,
                   .operations = kOperations * real(n)},
          .arrays = {{"gradient", n, Dtype::fp32, filled_with(state.gradient)},
                     {"weight", n, Dtype::fp32, filled_with(state.weight)},
                     kept.m.array("m"),
                     kept.v.array("v"),
                     kept.m.scales("scales of m"),
                     kept.v.scales("scales of v"),
                     {"narrow weight", narrow == Dtype::fp32 ? 0 : n, narrow}},
          .bind = [=](const Set& set, const ComputeDevice& device,
                      StreamHandle) { return bind_adamw(set, device, narrow, moments); },
          .check =
              [=](const Results& results) {
                return check_adamw(state, kept, n, narrow, moments, results);
              }};
}

constexpr optim::Step kImageStep{kStep, {.mean = kMean, .clip = 1.0F}};

/// A step of AdamW and then the codec: two kernels.
Call bind_update_then_encode(const Set& set, const ComputeDevice& device,
                             const codec::CodecSpec& spec, Dtype rounded, Moments moments) {
  const Call update = bind_adamw(set, device, Dtype::fp32, moments);
  return [&set, update,
          codec = codec::Codec(spec, rounded, device.backend).rounding()](StreamHandle stream) {
    update(stream);
    const std::size_t n = set[kWeight].count;
    codec.encode(set[kWeight], collective::padded_layout(n, codec.block()),
                 {static_cast<std::byte*>(set[kImage].data), codec.wire_bytes(n)}, stream);
  };
}

/// An update and the image of its weights, by one kernel.
Call bind_update_image(const Set& set, const ComputeDevice& device, const codec::CodecSpec& spec,
                       Dtype rounded, Moments moments) {
  const std::vector<UpdatePiece> pieces = pieces_of(set, Dtype::fp32, moments);
  const codec::Codec codec(spec, rounded);
  const optim::ImageFormat format = *zero::image_format(spec, rounded);
  const std::size_t n = set[kWeight].count;
  const std::size_t blocks = ceil_div(n, codec.block());
  auto* const codes = static_cast<std::byte*>(set[kImage].data);
  std::byte* const scales = codes + codec.scale_offset(n);
  std::byte* const end = scales + blocks * codec.scale_bytes();
  std::vector<optim::ImageTile> tiles;
  optim::for_each_piece(n, optim::kImageTile, [&](std::size_t first, std::size_t count) {
    tiles.push_back({.weight = set[kWeight].part(first, count).as<float>(),
                     .codes = codes + first * format.bits / 8,
                     .scales = scales + first / codec.block() * codec.scale_bytes(),
                     .first = static_cast<std::uint32_t>(tiles.size()),
                     .pieces = 1,
                     .values = static_cast<std::uint32_t>(count),
                     .padding = static_cast<std::uint32_t>(
                         first + count < n ? 0 : codes + codec.wire_bytes(n) - end)});
  });
  static_assert(optim::kImageTile == optim::kUpdatePiece, "a piece a tile");
  const auto piece_table = std::make_shared<Table<UpdatePiece>>(pieces, device);
  const auto tile_table = std::make_shared<Table<optim::ImageTile>>(tiles, device);
  return
      [=, given = options(moments),
       update = optim::variant_of(options(moments)).tiles_on(device.memory)](StreamHandle stream) {
        update(given, kImageStep, format, piece_table->all(), tile_table->all(), stream);
      };
}

/// Checks that the image is, to the byte, that of the weights that are there.
std::string check_image(const codec::CodecSpec& spec, Dtype rounded, std::size_t n,
                        const Results& results) {
  const codec::Codec host = codec::Codec(spec, rounded).rounding();
  const Result weight = results[kWeight];
  const Buffer wanted(host.wire_bytes(n), MemoryKind::host);
  host.encode(weight.view(), collective::padded_layout(n, host.block()),
              {wanted.data(), host.wire_bytes(n)}, {});
  Verdict verdict;
  verdict.same_bytes(results[kImage], wanted.span());
  return verdict.text();
}

/// Both ways declare what one pass moves, so that their rates compare as their times do.
Problem adamw_image_of(std::size_t n, const codec::CodecSpec& spec, Dtype rounded, bool in_one_pass,
                       Moments moments, const Source& source) {
  Problem problem = adamw_of(n, Dtype::fp32, moments, source);
  const codec::Codec codec(spec, rounded);
  problem.work.written += real(codec.wire_bytes(n));
  problem.work.operations += encode_operations(codec) * real(n);
  problem.arrays.push_back({"image", codec.wire_bytes(n) / sizeof(float)});
  problem.bind = [=](const Set& set, const ComputeDevice& device, StreamHandle) {
    return in_one_pass ? bind_update_image(set, device, spec, rounded, moments)
                       : bind_update_then_encode(set, device, spec, rounded, moments);
  };
  problem.check = [=, check_weights = problem.check](const Results& results) {
    const std::string found = check_weights(results);
    return found.empty() ? check_image(spec, rounded, n, results) : found;
  };
  return problem;
}

/// fp32 elements of memory for so many doubles.
constexpr std::size_t doubles(std::size_t count) { return 2 * count; }

Call bind_norm(const Set& set, const ComputeDevice& device) {
  const std::size_t n = set[0].count;
  auto* const sum = reinterpret_cast<double*>(set[1].data);
  double* const scratch = sum + 1;
  std::vector<NormPiece> pieces;
  optim::for_each_piece(n, optim::kNormPiece, [&](std::size_t first, std::size_t count) {
    pieces.push_back({set[0].part(first, count).as<float>(), scratch + optim::norm_blocks(first),
                      static_cast<std::uint32_t>(count)});
  });
  const std::vector<NormArray> arrays{{scratch, optim::norm_blocks(n), sum}};
  const auto piece_table = std::make_shared<Table<NormPiece>>(pieces, device);
  const auto array_table = std::make_shared<Table<NormArray>>(arrays, device);
  return [piece_table, array_table, ops = device.optim](StreamHandle stream) {
    ops->sum_of_squares(kMean, piece_table->all(), array_table->all(), stream);
  };
}

Problem norm_of(std::size_t n, const Source& source) {
  const Values gradient = source.normals(1, Dtype::fp32);
  const std::size_t blocks = optim::norm_blocks(n);
  return {.work = {.read = 4 * real(n), .written = 8 * real(blocks), .operations = 3 * real(n)},
          .arrays = {{"gradient", n, Dtype::fp32, filled_with(gradient)},
                     {"sums", doubles(1 + optim::norm_scratch(n))}},
          .bind = [](const Set& set, const ComputeDevice& device,
                     StreamHandle) { return bind_norm(set, device); },
          .check =
              [=](const Results& results) {
                const Result sums = results[1];
                double wanted = 0;
                for (std::size_t i = 0; i < n; ++i) {
                  const double value = kMean * gradient(i);
                  wanted += value * value;
                }
                const double got = *reinterpret_cast<const double*>(sums.bytes());
                Verdict verdict;
                if (!(std::abs(got - wanted) <= 1e-6 * wanted)) {
                  verdict.fail("the sum of squares is " + std::to_string(got) + ", wanted " +
                               std::to_string(wanted));
                }
                return verdict.text();
              }};
}

Problem add_of(std::size_t n, const Source& source) {
  const Values added = source.normals(1, Dtype::fp32);
  const Values before = source.normals(2, Dtype::fp32);
  return {.work = {.read = 8 * real(n), .written = 4 * real(n), .operations = real(n)},
          .arrays = {{"source", n, Dtype::fp32, filled_with(added)},
                     {"sum", n, Dtype::fp32, filled_with(before)}},
          .bind = [](const Set& set, const ComputeDevice& device, StreamHandle) -> Call {
            return [&set, ops = device.optim](StreamHandle stream) {
              ops->add(set[0].count, set[0].as<float>(), set[1].as<float>(), stream);
            };
          },
          .check =
              [=](const Results& results) {
                Verdict verdict;
                const Result got = results[1];
                verdict.written(got);
                for (const std::size_t i : some_of(n, kLooks)) {
                  const double wanted = static_cast<double>(before(i)) + added(i);
                  verdict.close(got, i, wanted, 1e-6 * (std::abs(before(i)) + std::abs(added(i))));
                }
                return verdict.text();
              }};
}

std::vector<Case> updates(const Choice& choice) {
  std::vector<Case> cases;
  for (const Dtype narrow : choice.dtypes) {
    for (const Moments moments : kEveryKind) {
      cases.push_back({std::string(adamw.name), moments == Moments::fp32 ? "-" : kept_as(moments),
                       std::string(name_of(narrow)), std::to_string(choice.values),
                       [n = choice.values, narrow, moments, source = choice.source](
                           const ComputeDevice&) { return adamw_of(n, narrow, moments, source); }});
    }
  }
  return cases;
}

/// Rows of the codecs that an update can write images in, with the dtypes that weights are rounded
/// to: by two kernels and by one.
std::vector<Case> updates_with_image(const Choice& choice) {
  std::vector<Case> cases;
  for (const codec::CodecSpec& spec : choice.codecs) {
    for (const Dtype rounded : choice.dtypes) {
      if (!zero::image_format(spec, rounded)) continue;
      for (const Moments moments : kEveryKind) {
        for (const bool in_one_pass : {false, true}) {
          const std::string image = fmt::format("{}:{}", in_one_pass ? "one-kernel" : "two-kernels",
                                                codec::to_string(spec));
          cases.push_back(
              {std::string(adamw_encode.name),
               moments == Moments::fp32 ? image : fmt::format("{},{}", image, kept_as(moments)),
               std::string(name_of(rounded)), std::to_string(choice.values),
               [=, n = choice.values, source = choice.source](const ComputeDevice&) {
                 return adamw_image_of(n, spec, rounded, in_one_pass, moments, source);
               }});
        }
      }
    }
  }
  return cases;
}

/// A kernel that has fp32 only.
template <Problem (*Make)(std::size_t, const Source&)>
std::vector<Case> in_fp32(const Kernel& kernel, const Choice& choice) {
  return {{std::string(kernel.name), "-", "fp32", std::to_string(choice.values),
           [n = choice.values, source = choice.source](const ComputeDevice&) {
             return Make(n, source);
           }}};
}

}  // namespace

const Kernel adamw{
    "adamw",
    "AdamW on fp32 master weights, with moments in fp32, bf16 and 8 bits and weights of the dtype "
    "that follow",
    updates};
const Kernel adamw_encode{
    "adamw_encode",
    "AdamW, with moments of every kind, and the wire image of the new weights, rounded to the "
    "dtype: a kernel for each or, on a GPU, one for both; the bytes are those of one pass",
    updates_with_image};
const Kernel gradient_norm{
    "gradient_norm", "the sum of squares of fp32 gradients, in fp64",
    [](const Choice& choice) { return in_fp32<norm_of>(gradient_norm, choice); }};
const Kernel add{"add", "fp32 gradients added to their sum",
                 [](const Choice& choice) { return in_fp32<add_of>(add, choice); }};

}  // namespace zeropp::kernels
