// The options of zpp_fabric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/enum_names.hpp"
#include "lib/comm/options.hpp"
#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::fabric {

/// How a pair of ranks is measured: by messages from one to the other, or by the all-reduce of MPI
/// or NCCL between the two.
enum class PairTest : std::uint8_t { exchange, all_reduce };
constexpr auto enum_names(PairTest) { return name_table("exchange", "all_reduce"); }

struct Options {
  std::size_t node_size = 0;
  std::optional<Backend> backend = {};  ///< empty: `auto`, which resolve() decides
  std::optional<comm::Transport> transport = {};
  std::size_t rail_lanes = 0;
  double gpu_sampling = 1;
  std::size_t message_bytes = 0;
  PairTest pairs = PairTest::exchange;
  double threshold = 0.25;
  double seconds = 300;
  std::string good_hosts;  ///< file that gets them; empty: none
};

/// Every option, bound to `options`, which outlives the table.
std::vector<config::Option> option_table(Options& options);

/// Decides `auto` and the size of messages, and refuses what does not exist or would have no
/// effect, with the reason. Throws Error(usage), or Error(environment) where GPUs are asked for
/// that are not there. The same on every rank.
void resolve(Options& options, const std::vector<config::Option>& given,
             const config::Machine& machine);

}  // namespace zeropp::fabric
