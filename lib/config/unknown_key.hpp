// Unknown keys of a DeepSpeed configuration, and the keys that they may stand for. DeepSpeed
// ignores most unknown keys and trains without them. A key that resembles one that matters is
// therefore refused, and so is a key in the wrong section; any other unknown key is ignored.
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
