// Choice of the collective algorithms that carry weights and gradients: decides `auto` by rules,
// and refuses what an algorithm cannot do.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Chooses the algorithms of a configuration whose back end and transport are chosen. `given` says
/// which options the user set. Throws Error(usage).
/// Completes and checks, too, what depends on the algorithms: hops of error feedback, codecs by
/// step and unit (resolve_codec_choice()), pipeline, rail lanes.
void choose_algorithms(TrainConfig& config, const std::vector<Option>& given,
                       const Machine& machine);

/// Reason, for messages, why an algorithm or a partition needs nodes of equal size.
inline constexpr const char* kUnequalNodes =
    "needs nodes with equal numbers of ranks: start the same number on each, or declare nodes with "
    "zeropp.node_size (--node-size)";

}  // namespace zeropp::config
