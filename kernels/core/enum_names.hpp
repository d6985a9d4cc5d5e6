// Names of the values of enums, which options, files and messages say: text is parsed where it is
// read, and all later code compares values. An enum whose values count from 0 has names where its
// own namespace defines them, in the order of the values:
//
//   enum class Color : std::uint8_t { red, green };
//   constexpr auto enum_names(Color) { return name_table("red", "green"); }
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

#include "kernels/core/dtype.hpp"
#include "kernels/core/stream.hpp"

namespace zeropp {

/// Table of names that an enum's enum_names() returns.
template <class... Texts>
constexpr std::array<std::string_view, sizeof...(Texts)> name_table(Texts... texts) {
  return {texts...};
}

constexpr auto enum_names(Dtype) { return name_table("fp32", "bf16", "fp16"); }
constexpr auto enum_names(Backend) { return name_table("host", "cuda"); }

template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && requires(Enum value) {
  enum_names(value);
};

template <NamedEnum Enum>
constexpr std::string_view enum_name(Enum value) {
  return enum_names(value)[static_cast<std::size_t>(value)];
}

/// Value that `text` names; nothing for a text that names none.
template <NamedEnum Enum>
constexpr std::optional<Enum> parse_enum(std::string_view text) {
  const auto known = enum_names(Enum{});
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace zeropp
