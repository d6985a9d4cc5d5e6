// Decides the back end of a program and what moves its bytes, where that was left open.
#pragma once

#include <optional>

#include "lib/comm/options.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::config {

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
