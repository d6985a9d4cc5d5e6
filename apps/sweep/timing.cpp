#include "apps/sweep/timing.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "lib/base/statistics.hpp"
#include "lib/device/graph.hpp"

namespace zeropp::sweep {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Cycle {
 public:
  Cycle(const Repetition& repetition, comm::Control& control, const Stream& stream,
        const std::function<void()>& restore, const std::function<void()>& operate)
      : repetition_(repetition),
        control_(control),
        stream_(stream),
        restore_(restore),
        operate_(operate) {}

  /// Seconds of one operation here.
  double run(std::size_t iterations) const {
    const bool apart = restore_ || repetition_.blocking == Blocking::line_up;
    const double all = apart ? one_by_one(iterations) : in_a_row(iterations);
    return all / static_cast<double>(iterations * repetition_.aggregated);
  }

 private:
  [[nodiscard]] double in_a_row(std::size_t iterations) const {
    control_.barrier();
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < iterations; ++i) operate();
    stream_.synchronize();
    return seconds_since(begin);
  }

  [[nodiscard]] double one_by_one(std::size_t iterations) const {
    double sum = 0;
    for (std::size_t i = 0; i < iterations; ++i) {
      if (restore_) restore_();
      stream_.synchronize();
      control_.barrier();
      const auto begin = Clock::now();
      operate();
      stream_.synchronize();
      sum += seconds_since(begin);
    }
    return sum;
  }

  void operate() const {
    operate_();
    if (repetition_.blocking == Blocking::none || repetition_.blocking == Blocking::line_up) return;
    stream_.synchronize();
    if (repetition_.blocking == Blocking::wait_and_barrier) control_.barrier();
  }

  const Repetition& repetition_;
  comm::Control& control_;
  const Stream& stream_;
  const std::function<void()>& restore_;
  const std::function<void()>& operate_;
};

/// Returns the seconds of the last iteration, largest over ranks. Where the number of cycles is
/// free, iterations end when their time is up as well: one runs even where none was asked for.
double warm_up(const Cycle& cycle, const Repetition& repetition, comm::Control& control) {
  if (repetition.cycles > 0 && repetition.iterations > 0) {
    if (repetition.warmups > 0) (void)cycle.run(repetition.warmups);
    return 0;
  }
  double all = 0;
  for (std::size_t done = 1;; ++done) {
    std::array<double, 1> slowest{cycle.run(1) * static_cast<double>(repetition.aggregated)};
    control.all_reduce_max(slowest);
    all += slowest[0];
    if (done >= repetition.warmups || all >= repetition.seconds) return slowest[0];
  }
}

}  // namespace

std::vector<double> Samples::slowest() const {
  std::vector<double> largest;
  largest.reserve(seconds.size());
  for (const auto& ranks : seconds) largest.push_back(std::ranges::max(ranks));
  return largest;
}

Samples measure(const Repetition& repetition, comm::Control& control, const Stream& stream,
                const std::function<void()>& restore, const std::function<void()>& operate) {
  const Cycle single(repetition, control, stream, restore, operate);
  const double one = warm_up(single, repetition, control);
  Samples samples;
  samples.iterations = repetition.iterations;
  if (samples.iterations == 0) {
    const double wanted = kCycleSeconds / std::max(one, 1e-9);
    samples.iterations = static_cast<std::size_t>(std::clamp(std::ceil(wanted), 1.0, 1000.0));
  }
  // A graph holds the iterations of a cycle, or one where each gets its input back.
  const std::size_t kept = restore ? 1 : samples.iterations;
  const std::size_t launches = repetition.graph_launches * samples.iterations / kept;
  Graph graph;
  if (launches > 0) {
    graph = Graph(stream, [&] {
      for (std::size_t i = 0; i < kept; ++i) operate();
    });
    samples.iterations *= repetition.graph_launches;
    graph.launch(stream);  // the first launch uploads it
    stream.synchronize();
  }
  const std::function<void()> launch = [&] { graph.launch(stream); };
  const Cycle replayed(repetition, control, stream, restore, launch);
  const auto run_cycle = [&] {
    return launches > 0 ? replayed.run(launches) / static_cast<double>(kept)
                        : single.run(samples.iterations);
  };
  const auto begin = Clock::now();
  for (;;) {
    const std::array<double, 1> own{run_cycle()};
    samples.seconds.push_back(control.all_gather(own));
    const std::size_t done = samples.seconds.size();
    if (repetition.cycles > 0) {
      if (done == repetition.cycles) return samples;
      continue;
    }
    std::array<double, 1> elapsed{seconds_since(begin)};
    control.all_reduce_max(elapsed);
    if (done < kFewestCycles) continue;
    if (elapsed[0] >= repetition.seconds ||
        is_within(summarize(samples.slowest()), done, kPrecision)) {
      return samples;
    }
  }
}

}  // namespace zeropp::sweep
