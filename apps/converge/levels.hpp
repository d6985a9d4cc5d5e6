// Levels, by which settings are judged: each trains, and looks at the setting in its own way.
//   quadratic  the distance to a closed-form trajectory against the bound that the codecs promise
//   markov     held-out loss on a source of known entropy
//   text       held-out loss on the bytes of a text
//   contract   parameters of runs that should not differ (checks.hpp)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeropp::converge {

inline constexpr std::string_view kQuadratic = "quadratic";
inline constexpr std::string_view kContract = "contract";

inline std::vector<std::string> level_names() {
  return {std::string(kQuadratic), "markov", "text", std::string(kContract)};
}

/// Whether the runs of a level are judged by how their held-out losses differ.
inline bool compares_held_out_loss(std::string_view level) {
  return level != kQuadratic && level != kContract;
}

}  // namespace zeropp::converge
