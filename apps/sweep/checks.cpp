#include "apps/sweep/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace zeropp::sweep {

namespace {

/// Standard errors that chance may move a slope by: a sweep fits thousands.
constexpr double kChance = 6;

float element(ConstView view, std::size_t at) {
  return with_type(view.dtype, [&]<class T>(T*) { return to_float(view.as<T>()[at]); });
}

/// Counter of values that should be finite, or not, as `expected` is, and are not so. It goes block
/// by block: a block that holds one which is not may be poisoned as a whole.
struct Finiteness {
  std::size_t block;
  std::uint64_t wrong = 0;
  std::string first = {};
  std::size_t first_at = std::numeric_limits<std::size_t>::max();

  void add(ConstView got, std::size_t index, const std::vector<double>& expected) {
    for (std::size_t begin = 0; begin < got.count; begin += block) {
      const std::size_t end = std::min(got.count, begin + block);
      bool poisoned = false;
      for (std::size_t i = begin; i < end; ++i) poisoned |= !std::isfinite(expected[i]);
      for (std::size_t i = begin; i < end; ++i) {
        const float value = element(got, i);
        const bool finite = std::isfinite(expected[i]);
        if (finite ? poisoned || std::isfinite(value) : !std::isfinite(value)) continue;
        if (wrong++ > 0) continue;
        first_at = index + i;
        first = fmt::format("index {}: got {}, wanted {}", first_at, value,
                            finite ? "a finite value" : "a NaN or an infinity");
      }
    }
  }

  void merge(const Finiteness& other) {
    wrong += other.wrong;
    if (other.first_at >= first_at) return;
    first = other.first;
    first_at = other.first_at;
  }
};

}  // namespace

Checks::Checks(const SweepContext& sweep, const Collective& collective, const Shape& shape,
               const Variant& variant, const Data& data, Operation& operation, std::string label,
               std::vector<Finding>& findings)
    : sweep_(sweep),
      collective_(collective),
      shape_(shape),
      variant_(variant),
      data_(data),
      operation_(operation),
      label_(std::move(label)),
      findings_(findings) {}

std::string Checks::compare(std::string_view run, double sign, Measurement& m) {
  std::string finding;
  std::array<std::uint64_t, 1> wrong{0};
  std::array<double, 1> largest{0};
  Moments moments;
  for (const Slot& slot : operation_.slots()) {
    if (is_known(slot, sign)) {
      largest[0] = std::max(largest[0], known_error_);
      moments = known_moments_;
      continue;
    }
    std::vector<Comparison> by_worker(sweep_.workers.count(), Comparison(sign));
    operation_.for_each_piece(slot, [&](std::size_t worker, ConstView got, std::size_t index,
                                        std::size_t part, std::size_t first) {
      by_worker[worker].add(got, index,
                            collective_.expected(shape_, variant_, data_, part, first, got.count));
    });
    Comparison& comparison = by_worker.front();
    for (std::size_t i = 1; i < by_worker.size(); ++i) comparison.merge(by_worker[i]);
    wrong[0] += comparison.wrong();
    largest[0] = std::max(largest[0], comparison.largest_error());
    moments = comparison.moments();
    if (comparison.wrong() == 0) keep(slot, sign, comparison);
    if (comparison.wrong() > 0 && finding.empty()) finding = comparison.describe();
  }
  sweep_.context.control().all_reduce_sum(wrong);
  sweep_.context.control().all_reduce_max(largest);
  m.nwrong = m.nwrong.value_or(0) + wrong[0];
  m.max_error = std::isnan(m.max_error) ? largest[0] : std::max(m.max_error, largest[0]);
  report(run, finding);
  const std::string bias = judge_slope(run, moments, m);
  return wrong[0] == 0 ? bias : std::string();
}

std::string Checks::judge_slope(std::string_view run, const Moments& moments,
                                Measurement& m) const {
  // Contract 5.
  const double tolerance = codec::Codec(variant_.codec, shape_.dtype).slope_tolerance();
  const std::array<double, 3> own{moments.slope(), tolerance + kChance * moments.slope_error(),
                                  moments.count};
  const std::vector<double> all = sweep_.context.control().all_gather(own);
  std::string problem;
  for (std::size_t i = 0; i < all.size(); i += own.size()) {
    if (all[i + 2] == 0) continue;  // has no elements
    const double deviation = std::abs(all[i] - 1);
    if (std::isnan(m.slope) || !(deviation <= std::abs(m.slope - 1))) m.slope = all[i];
    if (deviation <= all[i + 1] || !problem.empty()) continue;
    problem = fmt::format("the {} result of rank {} has the slope {:.4f}, not 1 within {:.4f}", run,
                          i / own.size(), all[i], all[i + 1]);
  }
  return problem;
}

void Checks::compare_non_finite(Measurement& m) {
  if (shape_.count == 0) return;
  const std::size_t stride = std::min(collective_.part_stride(shape_), operation_.memory().filled);
  const Data planted = data_.with({.rank = shape_.members[static_cast<std::size_t>(shape_.root)],
                                   .stride = stride,
                                   .nan_at = std::min<std::size_t>(stride - 1, 37),
                                   .infinity_at = std::min<std::size_t>(stride - 1, 1000)});
  operation_.send(planted, 1);
  operation_.run_alone();
  const Variant exact{variant_.algorithm, {}, variant_.depth};
  std::vector<Finiteness> by_worker(sweep_.workers.count(),
                                    Finiteness{codec::Codec(variant_.codec, shape_.dtype).block()});
  operation_.for_each_piece(operation_.slots().front(), [&](std::size_t worker, ConstView got,
                                                            std::size_t index, std::size_t part,
                                                            std::size_t first) {
    // The planted values lie in the first piece of a part.
    by_worker[worker].add(
        got, index,
        first > 0 ? std::vector<double>(got.count, 0.0)
                  : collective_.expected(shape_, exact, planted, part, first, got.count).values);
  });
  Finiteness& finiteness = by_worker.front();
  for (std::size_t i = 1; i < by_worker.size(); ++i) finiteness.merge(by_worker[i]);
  std::array<std::uint64_t, 1> wrong{finiteness.wrong};
  sweep_.context.control().all_reduce_sum(wrong);
  m.nwrong = m.nwrong.value_or(0) + wrong[0];
  report("non-finite", finiteness.first);
}

bool Checks::is_known(const Slot& slot, double sign) {
  if (known_.empty()) return false;
  std::atomic<bool> same = true;
  operation_.for_each_piece(
      slot, [&](std::size_t, ConstView got, std::size_t index, std::size_t, std::size_t) {
        with_type(got.dtype, [&]<class T>(T*) {
          const T* const now = got.as<T>();
          const T* const then = reinterpret_cast<const T*>(known_.data()) + index;
          const float turn = sign == known_sign_ ? 1.0F : -1.0F;
          std::size_t differing = 0;  // no early end: the loop vectorizes
          for (std::size_t i = 0; i < got.count; ++i) {
            differing += to_float(now[i]) == turn * to_float(then[i]) ? 0U : 1U;
          }
          if (differing > 0) same = false;
        });
      });
  return same;
}

void Checks::keep(const Slot& slot, double sign, const Comparison& comparison) {
  if (!known_.empty()) return;
  const Memory& memory = operation_.memory();
  known_.resize(memory.result_bytes());
  known_sign_ = sign;
  known_error_ = comparison.largest_error();
  known_moments_ = comparison.moments();
  operation_.for_each_piece(slot, [&](std::size_t, ConstView got, std::size_t index, std::size_t,
                                      std::size_t) {
    const auto* const bytes = static_cast<const std::byte*>(got.data);
    std::copy(bytes, bytes + got.bytes(),
              known_.begin() + static_cast<std::ptrdiff_t>(index * size_of(memory.result_dtype)));
  });
}

void Checks::report(std::string_view run, const std::string& finding) const {
  const std::string own =
      finding.empty()
          ? finding
          : fmt::format("{} {}: rank {} ({} run), {}", label_,
                        operation_.mode() == Mode::out_of_place ? "out of place" : "in place",
                        sweep_.context.control().rank(), run, finding);
  const std::vector<std::string> all = sweep_.context.control().gather(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) findings_.push_back({rank, all[rank]});
  }
}

}  // namespace zeropp::sweep
