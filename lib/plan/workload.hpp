// A run whose time is asked for: its configuration, schedule and partition, as the engine has them.
#pragma once

#include <cstddef>

#include "lib/comm/topology.hpp"
#include "lib/config/train_config.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::plan {

/// A run whose time is asked for. Refers to the objects that it is made of.
struct Workload {
  const config::TrainConfig& config;  ///< resolved
  const comm::Topology& topology;     ///< uniform
  const zero::ScheduleInput& input;
  const zero::CodecTable& codecs;
  const zero::CodecChoice& choice;  ///< of the codecs, what is in force
  std::size_t vocab_size;
};

}  // namespace zeropp::plan
