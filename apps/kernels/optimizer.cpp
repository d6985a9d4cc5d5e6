// The end of a step on flat arrays of parameters: AdamW with the 16-bit weights that follow, the
// norm of the gradients, and their accumulation.
#include <cmath>
#include <memory>

#include "apps/kernels/codec_checks.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"
#include "kernels/optim/registry.hpp"
#include "lib/device/table.hpp"

namespace zeropp::kernels {

namespace {

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

optim::Options options() { return {.type = "AdamW", .weight_decay = 0.1}; }
constexpr std::uint64_t kStep = 10;

enum AdamWArray : std::size_t { kGradient, kWeight, kM, kV, kNarrow };

Call bind_adamw(const Set& set, const ComputeDevice& device, Dtype narrow) {
  std::vector<UpdatePiece> pieces;
  optim::for_each_piece(
      set[kWeight].count, optim::kUpdatePiece, [&](std::size_t first, std::size_t count) {
        const auto part = [&](AdamWArray array) {
          return set[array].part(first, count).template as<float>();
        };
        const bool follows = narrow != Dtype::fp32;
        pieces.push_back({part(kGradient),
                          part(kWeight),
                          {part(kM), part(kV)},
                          follows ? set[kNarrow].part(first, count).data : nullptr,
                          static_cast<std::uint32_t>(count),
                          true});
      });
  const auto table = std::make_shared<Table<UpdatePiece>>(pieces, device);
  return [table, narrow, given = options(),
          update = optim::variant_of(options()).on(device.memory)](StreamHandle stream) {
    update(given, {kStep, {.mean = kMean, .clip = 1.0F}}, narrow, table->all(), stream);
  };
}

/// Checks a step of AdamW in fp64 (Loshchilov and Hutter, arXiv 1711.05101).
std::string check_adamw(const State& before, std::size_t n, Dtype narrow, const Results& results) {
  Verdict verdict;
  const optim::Options o = options();
  const double bias1 = 1 - std::pow(o.beta1, real(kStep));
  const double bias2 = 1 - std::pow(o.beta2, real(kStep));
  const Result weight = results[kWeight];
  const Result m = results[kM];
  const Result v = results[kV];
  const Result narrowed = results[kNarrow];
  for (const Result* result : {&weight, &m, &v, &narrowed}) verdict.written(*result);
  for (const std::size_t i : some_of(n, kLooks)) {
    constexpr double kTolerance = 1e-5;
    const double g = static_cast<double>(before.gradient(i)) * kMean;
    const double wanted_m = o.beta1 * static_cast<double>(before.m(i)) + (1 - o.beta1) * g;
    const double wanted_v = o.beta2 * static_cast<double>(before.v(i)) + (1 - o.beta2) * g * g;
    const double step = wanted_m / bias1 / (std::sqrt(wanted_v / bias2) + o.epsilon);
    const double wanted =
        before.weight(i) * (1 - o.learning_rate * o.weight_decay) - o.learning_rate * step;
    verdict.close(m, i, wanted_m, kTolerance * (std::abs(wanted_m) + 0.01));
    verdict.close(v, i, wanted_v, kTolerance * (std::abs(wanted_v) + 1e-4));
    verdict.close(weight, i, wanted, kTolerance * (std::abs(wanted) + 0.01));
    if (narrow == Dtype::fp32) continue;
    verdict.close(narrowed, i, wanted, rounding(wanted, narrow) + 1e-6);
  }
  return verdict.text();
}

Problem adamw_of(std::size_t n, Dtype narrow, const Source& source) {
  constexpr double kOperations = 16;
  const State state(source);
  const double narrowed = narrow == Dtype::fp32 ? 0.0 : 2.0;
  return {.work = {.read = 16 * real(n),
                   .written = (12 + narrowed) * real(n),
                   .operations = kOperations * real(n)},
          .arrays = {{"gradient", n, Dtype::fp32, filled_with(state.gradient)},
                     {"weight", n, Dtype::fp32, filled_with(state.weight)},
                     {"m", n, Dtype::fp32, filled_with(state.m)},
                     {"v", n, Dtype::fp32, filled_with(state.v)},
                     {"narrow weight", narrow == Dtype::fp32 ? 0 : n, narrow}},
          .bind = [narrow](const Set& set, const ComputeDevice& device,
                           StreamHandle) { return bind_adamw(set, device, narrow); },
          .check = [=](const Results& results) { return check_adamw(state, n, narrow, results); }};
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
  cases.reserve(choice.dtypes.size());
  for (const Dtype narrow : choice.dtypes) {
    cases.push_back({std::string(adamw.name), "-", std::string(name_of(narrow)),
                     std::to_string(choice.values),
                     [n = choice.values, narrow, source = choice.source](const ComputeDevice&) {
                       return adamw_of(n, narrow, source);
                     }});
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

const Kernel adamw{"adamw", "AdamW on fp32 master weights, with weights of the dtype that follow",
                   updates};
const Kernel gradient_norm{
    "gradient_norm", "the sum of squares of fp32 gradients, in fp64",
    [](const Choice& choice) { return in_fp32<norm_of>(gradient_norm, choice); }};
const Kernel add{"add", "fp32 gradients added to their sum",
                 [](const Choice& choice) { return in_fp32<add_of>(add, choice); }};

}  // namespace zeropp::kernels
