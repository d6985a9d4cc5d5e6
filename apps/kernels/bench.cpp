#include "apps/kernels/bench.hpp"

#include <vector>

#include "apps/kernels/operands.hpp"

namespace zeropp::kernels {

Measured Bench::measure(const Problem& problem) const {
  const Operands operands(problem.arrays, least_, device_, stream_);
  std::vector<Call> calls;
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
