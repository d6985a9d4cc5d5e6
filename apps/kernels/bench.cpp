#include "apps/kernels/bench.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/kernels/operands.hpp"

namespace zeropp::kernels {

namespace {

std::size_t sets_for(const Work& work, std::size_t least) {
  constexpr double kMost = 4096;
  const double sets = std::ceil(static_cast<double>(least) / std::max(work.moved(), 1.0));
  return static_cast<std::size_t>(std::clamp(sets, 1.0, kMost));
}

}  // namespace

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
  measured.samples = kernels::measure(repetition_, device_, stream_, [&] {
    calls[turn](stream_.handle());
    turn = (turn + 1) % calls.size();
  });
  return measured;
}

}  // namespace zeropp::kernels
