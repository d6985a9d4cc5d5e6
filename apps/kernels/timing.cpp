#include "apps/kernels/timing.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/base/statistics.hpp"

namespace zeropp::kernels {

namespace {

using Clock = std::chrono::steady_clock;
using Run = std::function<void()>;

constexpr double kSampleSeconds = 1e-3;
constexpr std::size_t kMostRuns = 10'000;
constexpr std::size_t kWarmUps = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Keeps the time of each repetition, and prints nothing.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& reported) override {
    for (const Run& run : reported) {
      if (run.run_type != Run::RT_Iteration) continue;
      seconds.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }
  std::vector<double> seconds;
};

std::vector<double> sample_host(std::size_t runs, std::size_t samples, const Stream&,
                                const Run& run) {
  benchmark::RegisterBenchmark("kernel",
                               [&](benchmark::State& state) {
                                 for (auto _ : state) {
                                   run();
                                   benchmark::ClobberMemory();
                                 }
                               })
      ->Iterations(static_cast<benchmark::IterationCount>(runs))
      ->Repetitions(static_cast<int>(samples))
      ->UseRealTime();
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector, "all");
  benchmark::ClearRegisteredBenchmarks();
  return collector.seconds;
}

std::vector<double> sample_gpu(std::size_t runs, std::size_t samples, const Stream& stream,
                               const Run& run) {
  std::vector<double> seconds;
  Mark begin;
  Mark end;
  for (std::size_t i = 0; i < samples; ++i) {
    run();
    stream.set(begin);
    for (std::size_t k = 0; k < runs; ++k) run();
    stream.set(end);
    stream.synchronize();
    seconds.push_back(end.seconds_since(begin) / static_cast<double>(runs));
  }
  return seconds;
}

/// Seconds of the last run.
template <class Sample>
double warm_up(const Repetition& repetition, const Sample& sample) {
  const auto begin = Clock::now();
  double last = 0;
  for (std::size_t i = 0; i < kWarmUps; ++i) {
    last = sample(1, 1).back();
    if (seconds_since(begin) > repetition.seconds) break;
  }
  return last;
}

bool is_enough(const Repetition& repetition, const std::vector<double>& seconds, double elapsed) {
  if (repetition.samples > 0) return seconds.size() >= repetition.samples;
  if (seconds.size() < kFewestSamples) return false;
  return elapsed >= repetition.seconds ||
         (seconds.size() >= kUsualSamples &&
          is_within(summarize(seconds), seconds.size(), kPrecision));
}

}  // namespace

Samples measure(const Repetition& repetition, const Device& device, const Stream& stream,
                const Run& run) {
  const auto taken_by = device.backend == Backend::host ? sample_host : sample_gpu;
  const auto sample = [&](std::size_t runs, std::size_t samples) {
    return taken_by(runs, samples, stream, run);
  };
  const double one = warm_up(repetition, sample);
  Samples result;
  const double wanted = std::ceil(kSampleSeconds / std::max(one, 1e-9));
  result.runs = std::clamp(static_cast<std::size_t>(wanted), std::size_t{1}, kMostRuns);
  const std::size_t together = repetition.samples > 0 ? repetition.samples : kFewestSamples;
  const auto begin = Clock::now();
  do {
    const std::vector<double> more = sample(result.runs, together);
    result.seconds.insert(result.seconds.end(), more.begin(), more.end());
  } while (!is_enough(repetition, result.seconds, seconds_since(begin)));
  return result;
}

}  // namespace zeropp::kernels
