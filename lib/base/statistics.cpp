#include "lib/base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace zeropp {

namespace {

/// Linear between the two neighbours, the minimum at share 0 and the maximum at 1.
double quantile(const std::vector<double>& ordered, double share) {
  const double place = share * static_cast<double>(ordered.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ordered.size() - 1);
  return ordered[below] + (place - static_cast<double>(below)) * (ordered[above] - ordered[below]);
}

/// The largest k whose k-th smallest and k-th largest of n hold the median with 95 %; at least 1.
std::size_t rank_of_interval(std::size_t n) {
  const auto count = static_cast<double>(n);
  const auto probability = [&](std::size_t k) {  // of exactly k samples below the median
    const auto below = static_cast<double>(k);
    return std::exp(std::lgamma(count + 1) - std::lgamma(below + 1) -
                    std::lgamma(count - below + 1) - count * std::numbers::ln2);
  };
  std::size_t rank = 1;
  double tail = probability(0);
  while (rank < n) {
    tail += probability(rank);
    if (2 * tail > 0.05) break;
    ++rank;
  }
  return rank;
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) throw std::invalid_argument("statistics of no samples");
  std::ranges::sort(samples);
  const std::size_t n = samples.size();
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(n);
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  Summary summary;
  summary.median = quantile(samples, 0.5);
  const std::size_t rank = rank_of_interval(n);
  summary.low = samples[rank - 1];
  summary.high = samples[n - rank];
  summary.p95 = quantile(samples, 0.95);
  summary.p99 = quantile(samples, 0.99);
  if (n > 1 && mean > 0) summary.variation = std::sqrt(squares / static_cast<double>(n - 1)) / mean;
  return summary;
}

double median(std::vector<double> samples) {
  if (samples.empty()) throw std::invalid_argument("median of no samples");
  std::ranges::sort(samples);
  return quantile(samples, 0.5);
}

bool is_within(const Summary& summary, std::size_t samples, double share) {
  return samples >= kFewestForInterval &&
         std::max(summary.high - summary.median, summary.median - summary.low) <=
             share * summary.median;
}

}  // namespace zeropp
