// The options that say where a program runs and what moves its bytes, for the tables of all
// programs that have them: one flag, one wording, one range; and what is decided where they are
// left open.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "lib/comm/options.hpp"
#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::config {

/// Options of the back end. Each function binds its option to `field`, which outlives it. `scope`:
/// what the keys of the table begin with, "zeropp." of a training configuration; empty where a
/// program has no configuration file.
Option backend_option(std::optional<Backend>& field, const std::string& scope = "");
Option transport_option(std::optional<comm::Transport>& field, const std::string& scope = "");
Option copy_engines_option(std::optional<comm::CopyEngines>& field, const std::string& scope = "");
Option rail_lanes_option(std::size_t& field, const std::string& scope = "");
Option node_size_option(std::size_t& field, const std::string& scope = "");
/// A thread each: more are no use to anyone.
inline constexpr std::size_t kMostVirtualRanks = 1024;
Option virtual_ranks_option(std::size_t& field, const std::string& scope = "");
/// Option that is without effect where `backend`, which outlives the option, is the host.
Option gpu_sampling_option(double& field, const std::optional<Backend>& backend,
                           const std::string& scope = "");

/// Decides `auto` in `backend` and `transport`. `transport_option`: what messages call the latter.
/// `runs_on_gpus`: whether GPUs are taken where nothing is said. Throws Error(usage) for a pair
/// that does not exist, Error(environment) where GPUs are asked for that are not there.
void choose_back_end(std::optional<Backend>& backend, std::optional<comm::Transport>& transport,
                     const Machine& machine, const char* transport_option,
                     bool runs_on_gpus = true);

/// Decides `lanes` where they are 0, of a program whose groups are made at every level. Throws
/// Error(usage) for lanes that would have no effect.
void choose_rail_lanes(std::size_t& lanes, comm::Transport transport, const Machine& machine);

}  // namespace zeropp::config
