#include "apps/kernels/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/core/counter_rng.hpp"

namespace zeropp::kernels {

void Verdict::written(const Result& result, std::size_t rows, std::size_t columns,
                      std::size_t stride) {
  if (!good()) return;
  with_type(result.view().dtype, [&]<class T>(T*) {
    const T* const values = result.view().as<T>();
    for (std::size_t row = 0; row < rows; ++row) {
      const T* const begin = values + row * stride;
      const T* const found = std::find_if(
          begin, begin + columns, [](T value) { return is_nan_bits(bits_of(to_float(value))); });
      if (found == begin + columns) continue;
      text_ = fmt::format("{}[{}] was not written, or is nan", result.name(), found - values);
      return;
    }
  });
}

void Verdict::close(const Result& result, std::size_t i, double wanted, double tolerance) {
  const double got = result[i];
  if (!good() || std::abs(got - wanted) <= tolerance) return;
  text_ = fmt::format("{}[{}] is {:.7g}, wanted {:.7g} +- {:.2g}", result.name(), i, got, wanted,
                      tolerance);
}

void Verdict::same_bytes(const Result& result, std::span<const std::byte> wanted) {
  if (!good()) return;
  const std::span<const std::byte> got(result.bytes(), result.view().bytes());
  const auto [at, other] = std::ranges::mismatch(got, wanted);
  if (at == got.end() && other == wanted.end()) return;
  text_ = fmt::format("{} differs from the host's from byte {} of {} on", result.name(),
                      at - got.begin(), got.size());
}

void Verdict::fail(std::string finding) {
  if (good()) text_ = std::move(finding);
}

std::vector<std::size_t> some_of(std::size_t n, std::size_t count) {
  if (n == 0) return {};
  std::vector<std::size_t> places{0, n - 1};
  for (std::size_t i = 0; i < count; ++i) {
    const Random4 random = philox4x32(n, i, 0);
    places.push_back((std::uint64_t{random.word[0]} << 32U | random.word[1]) % n);
  }
  std::ranges::sort(places);
  const auto rest = std::ranges::unique(places);
  places.erase(rest.begin(), rest.end());
  return places;
}

}  // namespace zeropp::kernels
