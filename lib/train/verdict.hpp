// What makes a finished run valid: bytes as predicted, in every step, and numbers that are finite.
#pragma once

#include <optional>
#include <string>

#include "lib/trace/recorder.hpp"

namespace zeropp::train {

/// The first step that did not send what the closed form says, as a reason; nothing where all did.
/// A vendor's route counts as predicted. Bytes of `recorder` are sums over ranks.
std::optional<std::string> wrong_bytes(const trace::Recorder& recorder);

/// The first loss that is not finite, or that training ended in a skipped step, as a reason.
std::optional<std::string> divergence(const trace::Recorder& recorder);

}  // namespace zeropp::train
