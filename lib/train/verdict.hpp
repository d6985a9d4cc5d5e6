// Verdict on a finished run, which is valid when bytes are as predicted in every step, and numbers
// are finite.
#pragma once

#include <optional>
#include <string>

#include "lib/trace/recorder.hpp"

namespace zeropp::train {

/// The first step that did not send what the closed form says, as a reason; nothing where all did.
/// A vendor's route counts as predicted. Bytes of `recorder` are sums over ranks.
std::optional<std::string> wrong_bytes(const trace::Recorder& recorder);

/// The first loss that is not finite, or that training ended in a skipped step, gave up, or has no
/// step that was not skipped, as a reason.
std::optional<std::string> divergence(const trace::Recorder& recorder);

}  // namespace zeropp::train
