// Collection of what every rank recorded, into what the trace holds.
#pragma once

#include "lib/app/app.hpp"
#include "lib/config/train_config.hpp"
#include "lib/data/token_source.hpp"
#include "lib/trace/trace_data.hpp"
#include "lib/train/session.hpp"

namespace zeropp::train_app {

/// Sums counters and bytes over ranks, takes the largest times, and decides the verdict.
/// Collective; complete on rank 0, whose verdict all ranks get.
trace::TraceData collect(const config::TrainConfig& config, const app::Context& context,
                         train::Session& session, const data::TokenSource& source);

}  // namespace zeropp::train_app
