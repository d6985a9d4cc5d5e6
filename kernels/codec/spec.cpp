#include "kernels/codec/spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/codec/registry.hpp"
#include "lib/base/nearest.hpp"

namespace zeropp::codec {
namespace {

/// As it may stand in a one-line message.
std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string shown(text.substr(0, longest));
  for (char& c : shown) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
  }
  return fmt::format("'{}{}'", shown, text.size() > longest ? "..." : "");
}

template <class... Args>
[[noreturn]] void refuse(std::string_view text, fmt::format_string<Args...> what, Args&&... args) {
  throw std::invalid_argument(
      fmt::format("codec {}: {}", quoted(text), fmt::format(what, std::forward<Args>(args)...)));
}

/// 9 of "int9"; nothing of other names.
std::optional<std::size_t> integer_bits(std::string_view format) {
  constexpr std::string_view prefix = "int";
  if (!format.starts_with(prefix)) return std::nullopt;
  const char* const end = format.data() + format.size();
  std::size_t bits = 0;
  const auto [rest, error] = std::from_chars(format.data() + prefix.size(), end, bits);
  return rest == end && error == std::errc() ? std::optional(bits) : std::nullopt;
}

/// An integer of a width that there is not: the nearest in bits, not in letters.
[[noreturn]] void refuse_integer(std::string_view text, std::size_t bits,
                                 const std::vector<std::string>& names) {
  std::vector<std::size_t> known;
  for (const std::string& name : names) {
    if (const auto width = integer_bits(name)) known.push_back(*width);
  }
  const auto [least, most] = std::ranges::minmax(known);
  refuse(
      text,
      "unknown format 'int{}': integers have {} to {} bits, the nearest known is 'int{}' (known: "
      "{})",
      bits, least, most, std::clamp(bits, least, most), fmt::join(names, ", "));
}

[[noreturn]] void refuse_format(std::string_view text, std::string_view format) {
  if (format.empty()) {
    refuse(text, "names no format; write FORMAT[:BLOCK][+OPTION...], for example int8:256");
  }
  std::vector<std::string> names;
  for (const FormatInfo& info : formats()) names.emplace_back(info.name);
  if (const auto bits = integer_bits(format)) refuse_integer(text, *bits, names);
  std::string lower(format.substr(0, 60));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  refuse(text, "unknown format {}, the nearest known is '{}' (known: {})", quoted(format),
         nearest(lower, names), fmt::join(names, ", "));
}

std::size_t parse_block(std::string_view text, std::string_view digits, const FormatInfo& info) {
  if (info.scale_bytes == 0) refuse(text, "format '{0}' takes no block; write '{0}'", info.name);
  std::size_t block = 0;
  const char* const end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), end, block);
  if (parsed != end || error != std::errc() || !std::has_single_bit(block) ||
      block < info.minimum_block || block > info.maximum_block) {
    refuse(text, "block {} is not a power of two from {} to {}", quoted(digits), info.minimum_block,
           info.maximum_block);
  }
  return block;
}

void add_option(std::string_view text, std::string_view option, const FormatInfo& info,
                CodecSpec& spec) {
  if (std::ranges::find(info.options, option) == info.options.end()) {
    refuse(text, "unknown option {}; the options of '{}' are: {}", quoted(option), info.name,
           info.options.empty() ? "none" : fmt::format("{}", fmt::join(info.options, ", ")));
  }
  if (std::ranges::find(spec.options, option) != spec.options.end()) {
    refuse(text, "option {} is given twice", quoted(option));
  }
  spec.options.emplace_back(option);
}

}  // namespace

CodecSpec parse_codec(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('+'));
  const std::size_t colon = head.find(':');
  const std::string_view format = head.substr(0, colon);
  const FormatEntry* const entry = find_format(format);
  if (entry == nullptr) refuse_format(text, format);
  const FormatInfo& info = entry->info;

  CodecSpec spec;
  spec.format = format;
  if (colon != std::string_view::npos) {
    spec.block = parse_block(text, head.substr(colon + 1), info);
  } else if (info.scale_bytes > 0) {
    spec.block = info.default_block;
  }
  for (std::string_view rest = text.substr(head.size()); !rest.empty();) {
    const std::size_t next = std::min(rest.find('+', 1), rest.size());
    add_option(text, rest.substr(1, next - 1), info, spec);
    rest.remove_prefix(next);
  }
  std::ranges::sort(spec.options);
  const auto given = [&](std::string_view option) {
    return std::ranges::find(spec.options, option) != spec.options.end();
  };
  for (const OptionConflict& conflict : info.conflicts) {
    if (!given(conflict.first) || !given(conflict.second)) continue;
    refuse(text, "options '{}' and '{}' exclude each other: {}", conflict.first, conflict.second,
           conflict.reason);
  }
  return spec;
}

std::string to_string(const CodecSpec& spec) {
  std::size_t block = spec.block;
  if (const FormatEntry* const entry = find_format(spec.format);
      block == 0 && entry != nullptr && entry->info.scale_bytes > 0) {
    block = entry->info.default_block;
  }
  std::string name = spec.format;
  if (block != 0) name += fmt::format(":{}", block);
  for (const std::string& option : spec.options) name += fmt::format("+{}", option);
  return name;
}

}  // namespace zeropp::codec
