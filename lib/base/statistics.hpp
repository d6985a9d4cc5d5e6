// Statistics of repeated times: the rules of validation's sample_statistics.py. The interval of
// the median is that of the order statistics: whatever the distribution, the median lies between
// the k-th smallest and the k-th largest of n samples with probability 1 - 2 P(Binomial(n, 1/2) <
// k). Source: Hoefler and Belli, SC'15, rules 5 and 8.
#pragma once

#include <cstddef>
#include <vector>

namespace zeropp {

/// Summary of samples, in their unit. `low` to `high`: the median with 95 %; up to 5 samples cannot
/// reach that: then it is their whole range. `variation`: standard deviation (n - 1) over the mean;
/// 0 of one sample.
struct Summary {
  double median = 0;
  double low = 0;
  double high = 0;
  double p95 = 0;
  double p99 = 0;
  double variation = 0;
};

/// Summary of at least one sample; throws std::invalid_argument for none.
Summary summarize(std::vector<double> samples);

/// Median of at least one sample: of an even number the mean of the two in the middle. Throws
/// std::invalid_argument for none.
double median(std::vector<double> samples);

/// The fewest samples whose range holds the median in 95 of 100 cases.
inline constexpr std::size_t kFewestForInterval = 6;

/// The median is known well enough when its 95 % interval lies within this share of it.
inline constexpr double kPrecision = 0.01;

/// Whether the interval is known and reaches at most `share` of the median to either side.
bool is_within(const Summary& summary, std::size_t samples, double share);

}  // namespace zeropp
