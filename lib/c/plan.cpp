#include "lib/c/plan.hpp"

#include "kernels/core/counter_rng.hpp"
#include "lib/base/error.hpp"

namespace zeropp::c {

void Plan::allocate() { workspace_ = comm_.groups.make_memory(workspace_needed()); }

void Plan::register_workspace() {
  registered_ = comm_.groups.register_memory(workspace_, comm_.control);
}

std::uint64_t Plan::key() const { return derived_key(request_.seed, call(), 0); }

void Plan::run(const void* in, void* out, StreamHandle stream) {
  ++calls_;
  if ((in == nullptr && sizes_.in > 0) || (out == nullptr && sizes_.out > 0)) {
    throw Error(ExitCode::usage, "zpp_run: in or out is NULL: give memory of the plan's sizes");
  }
  if (in_bytes() > 0 && out_bytes() > 0) {
    check_overlap(static_cast<const std::byte*>(in), static_cast<const std::byte*>(out));
  }
  const MemoryKind kind = comm_.device.memory;
  execute({in, sizes_.in, request_.input, kind}, {out, sizes_.out, request_.output, kind}, stream);
  ++runs_;
}

zpp_traffic Plan::traffic() const {
  comm::Bytes sent;
  for (const trace::CollectiveRow& row : recorder_.collectives) {
    sent += {.intra = row.wire_bytes_intra, .inter = row.wire_bytes_inter};
  }
  const comm::Bytes once = volume();
  return {.runs = runs_,
          .sent_inside_nodes = sent.intra,
          .sent_between_nodes = sent.inter,
          .predicted_inside_nodes = runs_ * once.intra,
          .predicted_between_nodes = runs_ * once.inter,
          .workspace_bytes = workspace_.bytes() + feedback_bytes(),
          .algorithm = request_.algorithm.c_str()};
}

}  // namespace zeropp::c
