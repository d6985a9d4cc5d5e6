// Rates between nodes as text: in Gbit/s, as links are sold where the cluster says what share of
// that they reach, and otherwise as they were measured.
#pragma once

#include <span>
#include <string>

#include "lib/plan/break_even.hpp"
#include "lib/plan/cluster.hpp"

namespace zeropp::plan_app {

/// Bytes/s that links carry, in Gbit/s as they are sold.
std::string gbit_as_sold(double rate, const plan::Cluster& cluster);

/// " as sold", or nothing where rates are those that were measured.
std::string_view as_sold(const plan::Cluster& cluster);

/// Text that says where it pays: "never", "always", "1400", or several as "1400, 1800 to 2000".
/// `times`: what is told, as a multiple of one link.
std::string pays_text(std::span<const plan::Rates> pays, double times,
                      const plan::Cluster& cluster);
/// Text that says with one number where it pays, of a node's links together: "never", "always", or
/// of pays_text() the first range, which begins at the slowest link: where speed-ups are about
/// those asked for over many rates, further ones are chance.
std::string pays_below_text(std::span<const plan::Rates> pays, const plan::Cluster& cluster);

}  // namespace zeropp::plan_app
