// Another value for any option of the table, for tests that try them all.
#pragma once

#include <nlohmann/json.hpp>
#include <variant>

#include "lib/config/option.hpp"

namespace zeropp::test {

/// A legal value that is not the default.
inline nlohmann::json another(const config::Option& option) {
  const auto value = config::value_of(option);
  if (value.is_boolean()) return !value.get<bool>();
  if (option.path == "zero_optimization.stage") return 1;
  if (option.path == "zeropp.adaptive_bits.maximum_bits") return 7;
  if (option.path == "zeropp.codec_schedule") {
    return {{{"from_step", 3}, {"weight_codec", "int8:512"}}};
  }
  if (value.is_number_float()) return value.get<double>() / 2 + 0.125;
  if (value.is_number()) return value.get<std::size_t>() + 3;
  if (std::holds_alternative<codec::CodecSpec*>(option.field)) return "int8:512";
  const auto& choices = config::choices_of(option);
  return choices.empty() ? nlohmann::json("another") : nlohmann::json(choices.back());
}

}  // namespace zeropp::test
