// Rows of collectives of one rank -> rows of the whole job.
#pragma once

#include <deque>
#include <vector>

#include "lib/comm/control.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::app {

/// Sums bytes over ranks and takes the largest times; `calls` stays that of one rank. Rows
/// that never ran are left out. Collective.
/// All ranks have to hold the same rows in the same order with as many calls: where they do not,
/// all throw AgreedError(check_failed) that names a rank and a row.
std::vector<trace::CollectiveRow> sum_over_ranks(const std::deque<trace::CollectiveRow>& rows,
                                                 comm::Control& control);

}  // namespace zeropp::app
