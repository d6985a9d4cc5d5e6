// Request of a plan: zpp_plan_options as the library understands them, names parsed, what is left
// out filled in, what would have no effect refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/codec/spec.hpp"
#include "kernels/core/dtype.hpp"
#include "lib/c/zeropp.h"
#include "lib/collective/error_feedback.hpp"
#include "lib/comm/topology.hpp"

namespace zeropp::c {

enum class Operation : std::uint8_t { all_gather, reduce_scatter, all_reduce };
const char* name_of(Operation operation);

struct PlanRequest {
  Operation operation{};
  std::size_t count = 0;
  Dtype input{};
  Dtype output{};
  codec::CodecSpec codec;
  codec::CodecSpec codec_between_nodes;
  std::string algorithm;  ///< "auto" was decided
  float scale = 1;
  std::uint64_t seed = 0;
  std::optional<collective::FeedbackOptions> feedback;
  std::size_t reset_period = 0;

  /// Line for ranks to compare: two requests are alike where these lines are.
  [[nodiscard]] std::string line() const;
};

/// Throws Error(usage).
PlanRequest read_request(Operation operation, const zpp_plan_options& options,
                         const comm::Topology& topology, zpp_transport transport);

/// Throw Error(usage). `function`: of the interface, which was given them.
codec::CodecSpec codec_of(const char* text, const char* function);
Dtype dtype_of(zpp_dtype dtype, const char* function);

}  // namespace zeropp::c
