// Options of error feedback and the memory that it takes, without its state (error_feedback.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace zeropp::collective
