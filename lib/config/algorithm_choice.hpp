// Which collective algorithms carry weights and gradients: decides `auto`, by rules or by the
// table of a sweep, and refuses what an algorithm cannot do.
#pragma once

#include <vector>

#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::config {

/// Of a configuration whose back end and transport are chosen. `given` says which options the user
/// set. Reads the file zeropp.algorithm_table. Throws Error(usage). Also completes and checks what
/// depends on the algorithms: hops of error feedback, codecs by step and unit
/// (resolve_codec_choice()), pipeline, rail lanes.
void choose_algorithms(TrainConfig& config, const std::vector<Option>& given,
                       const Machine& machine);

/// For messages: why an algorithm or a partition needs nodes of equal size.
inline constexpr const char* kUnequalNodes =
    "needs nodes with equal numbers of ranks: start the same number on each, or declare nodes with "
    "zeropp.node_size (--node-size)";

}  // namespace zeropp::config
