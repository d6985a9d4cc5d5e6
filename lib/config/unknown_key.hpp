// What somebody may have meant by a key of a DeepSpeed configuration that is unknown. DeepSpeed
// ignores most such keys and trains without them. So a key that comes near to one that matters is
// refused, and so is one that stands in the wrong section; any other is ignored.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

/// Every path that a file may have: of `options`, and for the trainer's options those of
/// DeepSpeed's keys and of other names too.
std::vector<std::string> known_paths(const std::vector<Option>& options);

/// The entry of `known` that an unknown path looks like; empty: none.
std::string alike_known(const std::string& path, const std::vector<std::string>& known);

/// Throws Error(usage) where the unknown key `path` has a `value` that is meant for a key that
/// matters: it has to be spelled otherwise, or moved.
void check_unknown(const std::string& path, const nlohmann::json& value,
                   const std::vector<Option>& options);

}  // namespace zeropp::config
