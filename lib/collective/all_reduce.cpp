#include "lib/collective/all_reduce.hpp"

#include <algorithm>
#include <utility>

#include "lib/collective/chunks.hpp"
#include "lib/collective/require.hpp"

namespace zeropp::collective {

AllReduce::AllReduce(std::unique_ptr<ReduceScatter> reduce_scatter,
                     std::unique_ptr<AllGather> all_gather, std::size_t count)
    : reduce_scatter_(std::move(reduce_scatter)),
      all_gather_(std::move(all_gather)),
      count_(count) {}

std::size_t AllReduce::sum_bytes() const {
  WorkspacePlan space;
  space.reserve(count_ * sizeof(float));
  return space.bytes();
}

std::size_t AllReduce::workspace_bytes() const {
  // The halves run one after the other: they share the workspace after the sums.
  return sum_bytes() + std::max(reduce_scatter_->workspace_bytes(), all_gather_->workspace_bytes());
}

comm::Bytes AllReduce::volume() const {
  comm::Bytes sum = reduce_scatter_->volume();
  sum += all_gather_->volume();
  return sum;
}

void AllReduce::start(ConstView full, View out, const Run& run) {
  require_workspace(run.workspace.size(), workspace_bytes());
  sum_ = {run.workspace.data(), count_, Dtype::fp32, full.kind};
  out_ = out;
  run_ = run;
  run_.workspace = run.workspace.subspan(sum_bytes());
  reduce_scatter_->start(full, sum_, run_);
}

void AllReduce::finish(StreamHandle stream) {
  reduce_scatter_->finish(stream);
  run_.stream = stream;
  all_gather_->start(sum_, out_, run_);
  all_gather_->finish(stream);
}

}  // namespace zeropp::collective
