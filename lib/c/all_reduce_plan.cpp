#include "lib/c/all_reduce_plan.hpp"

#include <algorithm>
#include <string>

#include "lib/base/checked.hpp"
#include "lib/collective/chunks.hpp"

namespace zeropp::c {

namespace {

/// The gather after a reduce-scatter.
std::string gather_after(const std::string& algorithm) {
  if (collective::find_reduce_scatter(algorithm).traits.hierarchical) return "two-level";
  return algorithm == "flat" ? "flat" : "direct";
}

/// The gather takes sums in fp32: without a codec they travel as what they become.
codec::CodecSpec gather_codec(const PlanRequest& request) {
  if (request.codec != codec::CodecSpec{} || request.output == Dtype::fp32) return request.codec;
  return {std::string(zeropp::name_of(request.output)), 0, {}};
}

}  // namespace

AllReducePlan::AllReducePlan(zpp_comm& comm, const PlanRequest& request)
    : Plan(comm, request, {request.count, request.count}),
      part_(ceil_div(request_.count, ranks())),
      reduction_(context(), request_, part_),
      gather_(collective::plan_all_gather(gather_after(request_.algorithm), context(),
                                          {.parts = collective::Parts::dense(part_),
                                           .memory = Dtype::fp32,
                                           .codec = gather_codec(request_),
                                           .purpose = "c",
                                           .result = request_.output})),
      layout_(lay_out()) {}

AllReducePlan::Layout AllReducePlan::lay_out() const {
  collective::WorkspacePlan space;
  Layout layout;
  layout.sum = space.reserve(part_ * sizeof(float));
  if (is_padded()) {
    layout.padded =
        space.reserve(whole() * std::max(size_of(request_.input), size_of(request_.output)));
  }
  // The halves run one after the other: they share the rest of the workspace.
  layout.rest = space.reserve(std::max(reduction_.workspace_bytes(), gather_->workspace_bytes()));
  layout.bytes = space.bytes();
  return layout;
}

View AllReducePlan::padded(Dtype dtype) const {
  return workspace_.view(whole(), dtype, layout_.padded);
}

ConstView AllReducePlan::with_zeros(ConstView in, StreamHandle stream) const {
  const View full = padded(in.dtype);
  comm_.device.memory_ops->copy(in, full.part(0, in.count), stream);
  comm_.device.memory_ops->clear(full.part(in.count, full.count - in.count), stream);
  return full;
}

void AllReducePlan::execute(ConstView in, View out, StreamHandle stream) {
  if (in.count == 0) return;
  const View sum = workspace_.view(part_, Dtype::fp32, layout_.sum);
  const auto rest = workspace_.span().subspan(layout_.rest);
  reduction_.run(is_padded() ? with_zeros(in, stream) : in, sum, rest, stream, key(), call());
  const View full = is_padded() ? padded(out.dtype) : out;
  gather_->start(sum, full, {rest, stream, key()});
  gather_->finish(stream);
  if (is_padded()) comm_.device.memory_ops->copy(View(full.part(0, out.count)), out, stream);
}

comm::Bytes AllReducePlan::volume() const {
  comm::Bytes sum = reduction_.volume();
  sum += gather_->volume();
  return sum;
}

}  // namespace zeropp::c
