#include "apps/sweep/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/core/half.hpp"

namespace zeropp::sweep {

namespace {

constexpr std::size_t kKept = 4096;

std::uint32_t memory_bits(float value) { return bits_of(value); }
std::uint32_t memory_bits(Bf16 value) { return value.bits; }
std::uint32_t memory_bits(Fp16 value) { return value.bits; }

/// Error that a result adds to the bound of the fp32 value that it was rounded from: half an ulp of
/// a value of `dtype`, and the rounding of subnormals.
double rounding(Dtype dtype, double value) {
  switch (dtype) {
    case Dtype::bf16:
      return std::abs(value) * 0x1p-8;
    case Dtype::fp16:
      return std::abs(value) * 0x1p-11 + 0x1p-25;
    case Dtype::fp32:
      break;
  }
  return 0;
}

}  // namespace

double Moments::slope_error() const {
  return count > 1 && squares > 0 ? std::sqrt(residuals / (count - 1) / squares) : 0.0;
}

Moments& Moments::operator+=(const Moments& other) {
  products += other.products;
  squares += other.squares;
  residuals += other.residuals;
  count += other.count;
  return *this;
}

void Comparison::add(ConstView got, std::size_t index, const Expected& expected) {
  dtype_ = got.dtype;
  with_type(got.dtype, [&]<class T>(T*) {
    const T* const values = got.as<T>();
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      const float value = to_float(values[i]);
      const double wanted = sign_ * expected.values[i];
      const double error = std::abs(value - wanted);
      double bound = 0;
      if (!expected.bound.empty()) {
        bound = expected.bound[i] + rounding(got.dtype, std::abs(wanted) + expected.bound[i]);
        if (bound > 0 && error > largest_error_ * bound) largest_error_ = error / bound;
      }
      moments_.products += wanted * value;
      moments_.squares += wanted * wanted;
      moments_.residuals += error * error;
      if (error <= bound) continue;  // not of NaN
      ++wrong_;
      if (kept_.size() < kKept) {
        kept_.push_back({index + i, value, memory_bits(values[i]), wanted, bound});
      }
    }
  });
  moments_.count += static_cast<double>(expected.values.size());
}

void Comparison::merge(const Comparison& other) {
  wrong_ += other.wrong_;
  largest_error_ = std::max(largest_error_, other.largest_error_);
  moments_ += other.moments_;
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  std::ranges::sort(kept_, {}, &Element::index);
  if (kept_.size() > kKept) kept_.resize(kKept);
}

template <class Rule>
bool Comparison::all(Rule&& rule) const {
  return std::ranges::all_of(kept_, rule);
}

double Comparison::scale() const {
  double products = 0;
  double squares = 0;
  for (const Element& element : kept_) {
    products += element.wanted * element.got;
    squares += element.wanted * element.wanted;
  }
  return squares > 0 ? products / squares : 0.0;
}

std::string Comparison::kind() const {
  const std::uint32_t poison = dtype_ == Dtype::fp32 ? 0xA5A5A5A5U : 0xA5A5U;
  if (all([&](const Element& e) { return e.bits == poison; })) return "never written";
  if (all([](const Element& e) { return !std::isfinite(e.got); })) return "not finite";
  if (wrong_ == 1) {
    const Element& e = kept_.front();
    const auto wanted_bits = with_type(dtype_, [&]<class T>(T*) {
      return memory_bits(saturating_cast<T>(static_cast<float>(e.wanted)));
    });
    const std::uint32_t differing = e.bits ^ wanted_bits;
    if (e.bound == 0 && std::popcount(differing) == 1) {
      return fmt::format("one element, bit {} flipped", std::countr_zero(differing));
    }
    return "one element";
  }
  if (all([](const Element& e) { return e.got == 0; })) return "zeros";
  if (all([](const Element& e) { return std::abs(e.got + e.wanted) <= e.bound; })) {
    return "stale: what the run before had to give";
  }
  const double factor = scale();
  if (std::abs(factor) > 1e-6 && all([&](const Element& e) {
        return std::abs(e.got - factor * e.wanted) <=
               1.5 * std::abs(factor) * e.bound + 1e-3 * std::abs(factor * e.wanted);
      })) {
    return fmt::format("scaled by {:.4g}", factor);
  }
  return "other values";
}

std::string Comparison::describe() const {
  const Element& first = kept_.front();
  return fmt::format(
      "index {}: got {:.9g}, wanted {:.9g}{}; {} wrong: {}", first.index, first.got, first.wanted,
      first.bound > 0 ? fmt::format(" +- {:.3g}", first.bound) : std::string(), wrong_, kind());
}

}  // namespace zeropp::sweep
