#include "lib/c/plan_request.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "lib/base/error.hpp"
#include "lib/c/error_guard.hpp"
#include "lib/collective/collective.hpp"

namespace zeropp::c {

namespace {

/// Largest count of one rank's part: it keeps products of sizes in range (lib/collective/draws.hpp
/// has as many numbers).
constexpr std::size_t kMostElements = std::size_t{1} << 40U;

template <class... Words>
[[noreturn]] void refuse(Operation operation, fmt::format_string<Words...> text, Words&&... words) {
  throw Error(ExitCode::usage, fmt::format("{}: {}", name_of(operation),
                                           fmt::format(text, std::forward<Words>(words)...)));
}

/// A collective in two levels saves traffic between nodes. Sums that are accumulated in fp32, and
/// counted bytes, are promised of both: so `auto` takes none of the vendor's.
const char* chosen(Operation operation, const comm::Topology& topology) {
  const bool levels = topology.node_count > 1 && topology.ranks_per_node > 1;
  if (operation == Operation::all_gather) return levels ? "two-level" : "direct";
  return levels ? "2-hop" : "1-hop";
}

collective::Traits traits_of(Operation operation, const std::string& algorithm) {
  return operation == Operation::all_gather ? collective::find_all_gather(algorithm).traits
                                            : collective::find_reduce_scatter(algorithm).traits;
}

collective::FeedbackOptions feedback_of(Operation operation, const zpp_error_feedback& given) {
  if (!(given.beta >= 0 && given.beta < 1)) {
    refuse(operation, "error feedback: beta {} is not in [0, 1): give 0 for the classical one",
           given.beta);
  }
  return {.beta = static_cast<float>(given.beta),
          .storage = given.store_int8 != 0 ? collective::ErrorStorage::int8
                                           : collective::ErrorStorage::fp32};
}

/// Reads the options that only reductions have.
void read_reduction(PlanRequest& request, const zpp_plan_options& options,
                    const collective::Traits& traits) {
  const Operation operation = request.operation;
  request.scale = static_cast<float>(options.scale);
  if (!std::isfinite(request.scale) || request.scale == 0) {
    refuse(operation,
           "a scale of {} leaves nothing of the sums: give 1 for sums, 1 / size for means",
           options.scale);
  }
  if (options.codec_between_nodes != nullptr) {
    request.codec_between_nodes = codec_of(options.codec_between_nodes, name_of(operation));
    if (!traits.hierarchical && request.codec_between_nodes != request.codec) {
      refuse(operation,
             "codec_between_nodes '{}' has no effect with algorithm '{}', which has one hop: leave "
             "it out, or choose 2-hop",
             options.codec_between_nodes, request.algorithm);
    }
  }
  if (options.error_feedback == nullptr) return;
  if (request.codec == codec::CodecSpec{} && request.codec_between_nodes == codec::CodecSpec{}) {
    refuse(operation, "error feedback has no effect with codec 'none': leave it out");
  }
  request.feedback = feedback_of(operation, *options.error_feedback);
  request.reset_period = options.error_feedback->reset_period;
}

void refuse_options_of_reductions(const zpp_plan_options& options) {
  if (options.codec_between_nodes != nullptr || options.error_feedback != nullptr) {
    refuse(Operation::all_gather,
           "codec_between_nodes and error_feedback are of reductions: give NULL");
  }
}

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_gather:
      return "zpp_plan_all_gather";
    case Operation::reduce_scatter:
      return "zpp_plan_reduce_scatter";
    case Operation::all_reduce:
      break;
  }
  return "zpp_plan_all_reduce";
}

codec::CodecSpec codec_of(const char* text, const char* function) {
  require_given(text, function, "codec");
  try {
    return codec::parse_codec(text);
  } catch (const std::invalid_argument& error) {
    throw Error(ExitCode::usage, fmt::format("{}: {}", function, error.what()));
  }
}

Dtype dtype_of(zpp_dtype dtype, const char* function) {
  switch (dtype) {
    case ZPP_FP32:
      return Dtype::fp32;
    case ZPP_BF16:
      return Dtype::bf16;
    case ZPP_FP16:
      return Dtype::fp16;
  }
  throw Error(ExitCode::usage, fmt::format("{}: unknown dtype {}: give ZPP_FP32, ZPP_BF16 or "
                                           "ZPP_FP16",
                                           function, static_cast<int>(dtype)));
}

PlanRequest read_request(Operation operation, const zpp_plan_options& options,
                         const comm::Topology& topology, zpp_transport transport) {
  const char* const function = name_of(operation);
  require_struct_size(options.struct_size, sizeof(zpp_plan_options), function, "zpp_plan_options");
  PlanRequest request;
  request.operation = operation;
  request.count = options.count;
  request.seed = options.seed;
  if (options.count > kMostElements) {
    refuse(operation, "count {} is too large: give at most {}", options.count, kMostElements);
  }
  request.input = dtype_of(options.input, function);
  request.output = dtype_of(options.output, function);
  request.codec = codec_of(options.codec, function);
  request.codec_between_nodes = request.codec;
  request.algorithm = options.algorithm == nullptr ? "auto" : options.algorithm;
  if (request.algorithm == "auto") request.algorithm = chosen(operation, topology);
  const collective::Traits traits = traits_of(operation, request.algorithm);
  if (traits.modelled && transport == ZPP_CALLBACKS) {
    refuse(operation,
           "algorithm '{}' is the vendor's, which callbacks do not have: choose another, or "
           "ZPP_NCCL",
           request.algorithm);
  }
  if (operation == Operation::all_gather) {
    refuse_options_of_reductions(options);
  } else {
    read_reduction(request, options, traits);
  }
  return request;
}

std::string PlanRequest::line() const {
  const std::string errors =
      feedback ? fmt::format(", error feedback of beta {}, reset {}, storage {}", feedback->beta,
                             reset_period, static_cast<int>(feedback->storage))
               : "";
  return fmt::format("{} of {} {} to {}, codecs {} and {}, {}, scale {}, seed {}{}",
                     name_of(operation), count, zeropp::name_of(input), zeropp::name_of(output),
                     codec::to_string(codec), codec::to_string(codec_between_nodes), algorithm,
                     scale, seed, errors);
}

}  // namespace zeropp::c
