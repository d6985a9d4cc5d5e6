#include "kernels/codec/spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/codec/format.hpp"
#include "lib/base/nearest.hpp"

namespace zeropp::codec {
namespace {

/// Text in quotes, as it may stand in a one-line message.
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

/// Refuses an integer format of a width that does not exist, and suggests the nearest width, not
/// the nearest spelling.
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

[[noreturn]] void refuse_block(std::string_view text, std::string_view digits,
                               const FormatInfo& info) {
  if (info.scale_bytes == 0) refuse(text, "format '{0}' takes no block; write '{0}'", info.name);
  refuse(text, "block {} is not a power of two from {} to {}", quoted(digits), info.minimum_block,
         info.maximum_block);
}

bool takes_block(const FormatInfo& info, std::size_t block) {
  return info.scale_bytes > 0 && std::has_single_bit(block) && block >= info.minimum_block &&
         block <= info.maximum_block;
}

std::size_t parse_block(std::string_view text, std::string_view digits, const FormatInfo& info) {
  std::size_t block = 0;
  const char* const end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), end, block);
  if (parsed != end || error != std::errc() || !takes_block(info, block)) {
    refuse_block(text, digits, info);
  }
  return block;
}

/// Text of a codec for messages: as the user wrote it, else its canonical name.
std::string shown(std::optional<std::string_view> text, const CodecSpec& spec) {
  return text ? std::string(*text) : to_string(spec);
}

const FormatInfo& info_of(const CodecSpec& spec, std::optional<std::string_view> text) {
  const FormatEntry* const entry = find_format(spec.format);
  if (entry == nullptr) refuse_format(shown(text, spec), spec.format);
  return entry->info;
}

/// Fills in the default block, checks the options and puts them in order.
void complete(CodecSpec& spec, const FormatInfo& info, std::optional<std::string_view> text) {
  if (spec.block == 0 && info.scale_bytes > 0) spec.block = info.default_block;
  for (auto option = spec.options.begin(); option != spec.options.end(); ++option) {
    if (std::ranges::find(info.options, *option) == info.options.end()) {
      refuse(shown(text, spec), "unknown option {}; the options of '{}' are: {}", quoted(*option),
             info.name,
             info.options.empty() ? "none" : fmt::format("{}", fmt::join(info.options, ", ")));
    }
    if (std::find(spec.options.begin(), option, *option) != option) {
      refuse(shown(text, spec), "option {} is given twice", quoted(*option));
    }
  }
  std::ranges::sort(spec.options);
  const auto given = [&](std::string_view option) {
    return std::ranges::find(spec.options, option) != spec.options.end();
  };
  for (const OptionConflict& conflict : info.conflicts) {
    if (!given(conflict.first) || !given(conflict.second)) continue;
    refuse(shown(text, spec), "options '{}' and '{}' exclude each other: {}", conflict.first,
           conflict.second, conflict.reason);
  }
}

}  // namespace

CodecSpec parse_codec(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('+'));
  const std::size_t colon = head.find(':');
  CodecSpec spec;
  spec.format = head.substr(0, colon);
  const FormatInfo& info = info_of(spec, text);
  if (colon != std::string_view::npos) spec.block = parse_block(text, head.substr(colon + 1), info);
  for (std::string_view rest = text.substr(head.size()); !rest.empty();) {
    const std::size_t next = std::min(rest.find('+', 1), rest.size());
    spec.options.emplace_back(rest.substr(1, next - 1));
    rest.remove_prefix(next);
  }
  complete(spec, info, text);
  return spec;
}

CodecSpec validated(CodecSpec spec) {
  const FormatInfo& info = info_of(spec, std::nullopt);
  if (spec.block != 0 && !takes_block(info, spec.block)) {
    refuse_block(to_string(spec), std::to_string(spec.block), info);
  }
  complete(spec, info, std::nullopt);
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
