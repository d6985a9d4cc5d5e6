// Plan of a collective: which parts, in which codec, in how many chunks. Values, but for the state
// of error feedback, which only a run has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/codec/spec.hpp"
#include "kernels/core/dtype.hpp"

namespace zeropp::collective {

/// Storage of errors: as they are, or in the codec int8:256.
enum class ErrorStorage : std::uint8_t { fp32, int8 };

struct FeedbackOptions {
  float beta = 0;     ///< decay, in [0, 1); 0: classical error feedback
  bool intra = true;  ///< in the first hop, and the only one of algorithms with one
  bool inter = true;  ///< in the second hop, across nodes
  ErrorStorage storage = ErrorStorage::fp32;

  /// `hop`: 1 or 2.
  [[nodiscard]] bool in(int hop) const { return hop == 1 ? intra : inter; }
};

/// Bytes, in closed form, that both copies of the errors of one hop take on a rank: they are
/// `parts` wire images of `count` values each, in fp32 or int8:256.
std::size_t error_bytes(ErrorStorage storage, std::size_t parts, std::size_t count);

/// Bytes, in closed form, that these errors take of the workspace of a run, as rows in fp32, where
/// they are rounded.
std::size_t error_scratch_bytes(ErrorStorage storage, std::size_t parts, std::size_t count);

class ErrorFeedback;

/// The strided parts of a sharded buffer: part r begins at r * stride (elements) and has `count`
/// elements. stride == count for a dense buffer; larger when the parts are the same sub-range of
/// every rank's shard.
struct Parts {
  std::size_t count = 0;
  std::size_t stride = 0;
  static Parts dense(std::size_t count) { return {count, count}; }
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
  std::string purpose{};  ///< of its runs, in the trace
  /// Error feedback, as of a reduce-scatter: of what encoding the own part loses, its hop 2. For
  /// algorithms with the trait `any_codec`.
  std::optional<Feedback> feedback{};
  Dtype result = memory;  ///< dtype of `full`
  /// Decoded values are added to the contents of `full` (kernels/core/copy_maths.hpp).
  bool adds = false;
};

/// All-gather of how 16-bit parts differ from their copies, without loss (kernels/codec/exact.hpp).
struct ExactGatherPlan {
  std::size_t count = 0;  ///< values of a part
  Dtype dtype = Dtype::bf16;
  std::string purpose{};  ///< of its runs, in the trace
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
  std::string purpose{};               ///< of its runs, in the trace
  std::optional<Feedback> feedback{};  ///< for algorithms with the trait `feedback`
  int only_hop = 1;  ///< number (1 or 2) by which `feedback` calls the single hop of `1-hop`
};

}  // namespace zeropp::collective
