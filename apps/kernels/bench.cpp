#include "apps/kernels/bench.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "apps/kernels/operands.hpp"

namespace zeropp::kernels {

namespace {

/// The largest "32768K" of the files `size`; 0 where there are none.
std::size_t listed_cache() {
  std::size_t largest = 0;
  std::error_code absent;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu0/cache", absent)) {
    std::ifstream file(entry.path() / "size");
    std::size_t number = 0;
    char unit = 0;
    if (!(file >> number >> unit)) continue;
    largest = std::max(largest, number << (unit == 'M' ? 20U : 10U));
  }
  return largest;
}

std::size_t sets_for(const Work& work, std::size_t least) {
  constexpr double kMost = 4096;
  const double sets = std::ceil(static_cast<double>(least) / std::max(work.moved(), 1.0));
  return static_cast<std::size_t>(std::clamp(sets, 1.0, kMost));
}

double seconds_on_gpu(const Stream& stream, std::size_t runs, const std::function<void()>& run) {
  Mark begin;
  Mark end;
  run();
  stream.set(begin);
  for (std::size_t i = 0; i < runs; ++i) run();
  stream.set(end);
  stream.synchronize();
  return end.seconds_since(begin);
}

}  // namespace

std::size_t cache_bytes(const Device& device, int gpu) {
  if (device.backend == Backend::cuda) {
    return visible_gpus().at(static_cast<std::size_t>(gpu)).l2_cache;
  }
  if (const std::size_t listed = listed_cache(); listed > 0) return listed;
  constexpr std::size_t kUnknown = std::size_t{64} << 20U;
  const long known = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return known > 0 ? static_cast<std::size_t>(known) : kUnknown;
}

Samples Bench::time(const std::function<void()>& run) const {
  const bench::Cycle cycle = [&](std::size_t runs) {
    return device_.backend == Backend::host ? bench::seconds_of(stream_, runs, run)
                                            : seconds_on_gpu(stream_, runs, run);
  };
  return bench::take_samples(repetition_, nullptr, bench::warm_up(repetition_, nullptr, cycle),
                             cycle);
}

Measured Bench::measure(const Problem& problem) const {
  const Operands operands(problem.arrays, sets_for(problem.work, least_), device_, stream_);
  std::vector<Call> calls;
  calls.reserve(operands.sets().size());
  for (const Set& set : operands.sets()) {
    calls.push_back(problem.bind(set, device_, stream_.handle()));
  }
  Measured measured;
  measured.sets = calls.size();
  calls.front()(stream_.handle());
  stream_.synchronize();
  measured.wrong = problem.check(Results(operands));
  if (!measured.wrong.empty()) return measured;
  std::size_t turn = 0;
  measured.samples = time([&] {
    calls[turn](stream_.handle());
    turn = (turn + 1) % calls.size();
  });
  return measured;
}

}  // namespace zeropp::kernels
