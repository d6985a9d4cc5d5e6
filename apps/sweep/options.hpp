// The options of zpp_sweep: nccl-tests' letters with their meaning, and own long flags. Defaults
// are nccl-tests' where docs/operators/sweep.md names no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sweep/bench.hpp"
#include "apps/sweep/collective.hpp"
#include "lib/comm/options.hpp"
#include "lib/config/groups.hpp"
#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::sweep {

/// Options as the user gave them.
struct Options {
  std::size_t minimum_bytes = std::size_t{32} << 20U;
  std::size_t maximum_bytes = std::size_t{32} << 20U;
  std::size_t step_bytes = std::size_t{1} << 20U;
  std::size_t step_factor = 1;
  std::size_t iterations = 0;
  std::size_t warmup_iterations = 5;
  std::size_t aggregated_iterations = 1;
  std::size_t run_cycles = 0;
  std::size_t validation = 1;
  std::size_t check_maximum_bytes = 0;
  std::string operation = "sum";
  std::string datatype = "float";
  std::string root = "0";
  std::size_t blocking = 0;
  std::size_t graph = 0;
  std::size_t average = 3;
  std::size_t report_cputime = 0;
  std::size_t per_iteration_timing = 0;
  std::size_t per_iteration_skip = 0;
  std::size_t gpus = 1;
  std::size_t threads = 1;

  std::string collective = "all";
  std::string codec = "none";
  std::string algorithm = "auto";
  std::string group = "world";
  std::size_t node_size = 0;
  /// Choices that resolve() makes where they are empty (`auto`).
  std::optional<Backend> backend = {};
  std::optional<comm::Transport> transport = {};
  std::optional<comm::CopyEngines> copy_engines = {};
  std::size_t rail_lanes = 0;
  std::size_t pipeline_depth = 1;
  std::size_t seed = 1;
  double maximum_seconds = 0.2;
  double link_peak = 0;
  double gpu_sampling = 1;
};

/// Every option, bound to `options`, which outlives the table.
std::vector<config::Option> option_table(Options& options);

/// Groups of the options, for --help.
const std::vector<config::OptionGroup>& option_groups();

/// A group of ranks that collectives run on.
enum class GroupKind : std::uint8_t { world, node, rail };
constexpr auto enum_names(GroupKind) { return name_table("world", "node", "rail"); }

/// Choice of the algorithms that run, of those that there are.
struct AlgorithmChoice {
  enum class Kind : std::uint8_t { automatic, all, named };
  Kind kind = Kind::automatic;
  std::vector<std::string> names;  ///< where they are named
};

/// Settings of the run, resolved from the options.
struct Settings {
  std::vector<std::size_t> sizes;
  std::vector<const Collective*> collectives;
  std::vector<codec::CodecSpec> codecs;
  AlgorithmChoice algorithms;
  std::size_t pipeline_depth = 1;
  std::vector<GroupKind> groups;
  std::vector<Dtype> dtypes;
  std::vector<int> roots;  ///< in the group; empty: all of its ranks
  BenchOptions bench;
  bool levels = false;   ///< several nodes of several ranks
  bool uniform = false;  ///< nodes have equal numbers of ranks
};

/// Sizes from `minimum` to `maximum` bytes: times `factor` where it is above 1, else plus `step`.
std::vector<std::size_t> sizes(std::size_t minimum, std::size_t maximum, std::size_t step,
                               std::size_t factor);

/// Variants of one collective that run on one group: of the codecs and algorithms that were asked
/// for, the pairs that exist. An algorithm of levels needs the world and equal nodes.
std::vector<Variant> variants(const Settings& settings, const Collective& collective,
                              GroupKind group);

/// Decides `auto` in `options`, and refuses what does not exist or would have no effect, with the
/// reason. `table`: the collectives that there are. Throws Error(usage), or Error(environment)
/// where GPUs are asked for that are not there. The same on every rank.
Settings resolve(Options& options, const std::vector<config::Option>& given,
                 const config::Machine& machine, const std::vector<const Collective*>& table);

/// nccl-tests' name of a dtype: "float", "half", "bfloat16".
std::string type_name(Dtype dtype);

}  // namespace zeropp::sweep
