// A JSON value as a message shows it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/text.hpp"

namespace zeropp::config {

/// Text of a value as far as a line has room; bytes that are no UTF-8 are replaced.
inline std::string shown_value(const nlohmann::json& value) {
  return shown(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace zeropp::config
