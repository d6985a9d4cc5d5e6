#include "lib/bench/timing.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/statistics.hpp"

namespace zeropp::bench {

namespace {

double largest(comm::Control* ranks, double own) {
  std::array<double, 1> value{own};
  if (ranks != nullptr) ranks->all_reduce_max(value);
  return value[0];
}

std::vector<double> of_all(comm::Control* ranks, double own) {
  if (ranks == nullptr) return {own};
  return ranks->all_gather(std::array<double, 1>{own});
}

bool is_enough(const Repetition& repetition, const Samples& samples, double elapsed) {
  const std::size_t done = samples.seconds.size();
  if (repetition.cycles > 0) return done >= repetition.cycles;
  if (done < repetition.fewest_cycles) return false;
  return elapsed >= repetition.seconds ||
         (done >= repetition.known_after &&
          is_within(summarize(samples.slowest()), done, kPrecision));
}

}  // namespace

double seconds_of(const Stream& stream, std::size_t count, const std::function<void()>& run) {
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < count; ++i) run();
  stream.synchronize();
  return seconds_since(begin);
}

std::vector<double> Samples::slowest() const {
  std::vector<double> slowest;
  slowest.reserve(seconds.size());
  for (const auto& ranks : seconds) slowest.push_back(std::ranges::max(ranks));
  return slowest;
}

std::size_t warm_up(const Repetition& repetition, comm::Control* ranks, const Cycle& cycle) {
  if (repetition.cycles > 0 && repetition.iterations > 0) {
    if (repetition.warmups > 0) (void)cycle(repetition.warmups);
    return repetition.iterations;
  }
  // One iteration runs even where none was asked for: its time says how many a cycle has.
  double one = 0;
  double all = 0;
  for (std::size_t done = 0; done == 0 || (done < repetition.warmups && all < repetition.seconds);
       ++done) {
    one = largest(ranks, cycle(1));
    all += one;
  }
  if (repetition.iterations > 0) return repetition.iterations;
  const double wanted = std::ceil(kCycleSeconds / std::max(one, 1e-9));
  return static_cast<std::size_t>(
      std::clamp(wanted, 1.0, static_cast<double>(repetition.most_iterations)));
}

Samples take_samples(const Repetition& repetition, comm::Control* ranks, std::size_t iterations,
                     const Cycle& cycle) {
  Samples samples{.iterations = iterations, .seconds = {}};
  const auto operations = static_cast<double>(iterations * repetition.operations);
  const auto begin = Clock::now();
  do {
    samples.seconds.push_back(of_all(ranks, cycle(iterations) / operations));
  } while (!is_enough(repetition, samples,
                      repetition.cycles > 0 ? 0 : largest(ranks, seconds_since(begin))));
  return samples;
}

}  // namespace zeropp::bench
