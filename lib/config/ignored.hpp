// Keys of a configuration file that a program does without, in one line for all of them.
#pragma once

#include <string>
#include <vector>

namespace zeropp::config {

struct Ignored {
  std::string key = {};
  std::string why = {};  ///< half a sentence

  bool operator==(const Ignored&) const = default;
};

/// "ignored: A, B (why); C (why)": keys with one reason stand together, in the order in which the
/// reasons come first. Empty where `keys` is.
std::string ignored_line(const std::vector<Ignored>& keys);

}  // namespace zeropp::config
