// Plan of a collective: which parts, in which codec, in how many chunks. Values, but for the state
// of error feedback, which only a run has.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/codec/spec.hpp"
#include "kernels/core/dtype.hpp"
#include "lib/collective/feedback_options.hpp"

namespace zeropp::collective {

class ErrorFeedback;

/// The strided parts of a sharded buffer: part r begins at r * stride (elements) and has `count`
/// elements. stride == count for a dense buffer; larger when the parts are the same sub-range of
/// every rank's shard.
struct Parts {
  std::size_t count = 0;
  std::size_t stride = 0;
  static Parts dense(std::size_t count) { return {count, count}; }
};

/// Purpose of a run, which is copied into its trace row.
struct Label {
  std::string purpose;
  std::string phase;
};

/// Error feedback of a plan. `errors`: the state of this plan and of others of the same parts that
/// run in its place (error_feedback.hpp), which outlives it; null where nothing runs.
struct Feedback {
  FeedbackOptions options;
  ErrorFeedback* errors = nullptr;
};

struct AllGatherPlan {
  Parts parts;
  Dtype memory = Dtype::fp32;  ///< dtype that `part` has or is rounded to; `none` sends this dtype
  codec::CodecSpec codec{};
  std::size_t depth = 1;  ///< pipeline chunks; 1: none
  Label label;
  /// Error feedback, as of a reduce-scatter: of what encoding the own part loses, its hop 2. For
  /// algorithms with the trait `any_codec`.
  std::optional<Feedback> feedback{};
  Dtype result = memory;  ///< dtype of `full`
  /// Decoded values are added to the contents of `full` (kernels/core/copy_maths.hpp).
  bool adds = false;
};

struct ReduceScatterPlan {
  Parts parts;
  Dtype memory = Dtype::fp32;  ///< dtype of `full`
  /// Dtype that `none` sends and that logical bytes are counted in: gradients may lie in memory as
  /// fp32 and travel as bf16. Codecs are bound with it: Codec(spec, plain).
  Dtype plain = Dtype::fp32;
  codec::CodecSpec
      codec_first{};  ///< the only codec of one-hop algorithms; inside the node for 2-hop
  codec::CodecSpec codec_second{};  ///< across nodes for 2-hop; ignored elsewhere
  std::size_t depth = 1;
  Label label;
  std::optional<Feedback> feedback{};  ///< for algorithms with the trait `feedback`
  int only_hop = 1;  ///< number (1 or 2) by which `feedback` calls the single hop of `1-hop`
};

}  // namespace zeropp::collective
