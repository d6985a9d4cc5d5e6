#include "lib/config/option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "lib/base/error.hpp"
#include "lib/base/text.hpp"
#include "lib/config/other_names.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {
namespace {

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

[[noreturn]] void fail(const std::string& where, const std::string& why) {
  throw Error(ExitCode::usage, where + ": " + why);
}

[[noreturn]] void wrong(const Option& option, const std::string& where, const std::string& got) {
  fail(where, "must be " + describe_values(option) + ", not " + got);
}

template <class Number>
bool inside(const Range& range, Number value) {
  const auto number = static_cast<double>(value);
  return (range.minimum_excluded ? number > range.minimum : number >= range.minimum) &&
         (range.maximum_excluded ? number < range.maximum : number <= range.maximum);
}

/// A JSON number as an integer type: 500000000 and 5e8 alike; nothing when it is not whole or does
/// not fit.
template <class Integer>
std::optional<Integer> whole(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::in_range<Integer>(number)) return static_cast<Integer>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (std::in_range<Integer>(number)) return static_cast<Integer>(number);
  } else if (value.is_number_float()) {
    const auto number = value.get<double>();
    // 2^digits is exact in a double, unlike the largest integer.
    const double limit = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
    const double least = std::is_signed_v<Integer> ? -limit : 0.0;
    if (std::trunc(number) == number && number >= least && number < limit) {
      return static_cast<Integer>(number);
    }
  }
  return std::nullopt;
}

/// "64M" -> 67108864; the text itself where it ends in no K, M or G (of either case).
std::string without_suffix(const std::string& text) {
  constexpr std::string_view suffixes = "KMGkmg";
  if (text.empty() || suffixes.find(text.back()) == std::string_view::npos) return text;
  const std::size_t power = suffixes.find(text.back()) % 3 + 1;
  const char* end = text.data() + text.size() - 1;
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number)) return text;
  return fmt::format("{:.0f}", std::floor(std::ldexp(number, static_cast<int>(10 * power))));
}

/// "1M" of "1MB" and "1MiB"; empty for what is no such size.
std::string without_bytes(const std::string& text) {
  for (const std::string_view unit : {"iB", "B", "ib", "b"}) {
    if (!text.ends_with(unit)) continue;
    const std::string size = text.substr(0, text.size() - unit.size());
    return without_suffix(size) == size ? "" : size;
  }
  return "";
}

/// Whether a JSON document can hold the text.
bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

/// A flag's text as the JSON value that the option's type expects.
nlohmann::json json_of(const Option& option, const std::string& text, const std::string& where) {
  if (!is_utf8(text)) {
    fail(where, fmt::format("{} is not UTF-8, as the configuration is, which has it: rename it",
                            shown_value(text)));
  }
  if (takes_text(option)) return text;
  if (std::holds_alternative<Structured>(option.field)) {
    auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) wrong(option, where, "\"" + text + "\"");
    return value;
  }
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  std::uint64_t integer = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, integer);
      error == std::errc() && stop == end) {
    return integer;
  }
  std::int64_t negative = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, negative);
      error == std::errc() && stop == end) {
    return negative;
  }
  double number = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && stop == end && std::isfinite(number)) {
    return number;
  }
  const std::string size = option.binary_suffix ? without_bytes(text) : "";
  wrong(option, where, "\"" + text + "\"" + (size.empty() ? "" : ": write " + size));
}

/// Puts back what the field holds now.
std::function<void()> undo_of(const Field& field) {
  return std::visit(Overloaded{
                        [](const Structured& structured) -> std::function<void()> {
                          return [structured, value = structured.value()] {
                            structured.set(value, "");
                          };
                        },
                        [](const EnumField& choice) -> std::function<void()> {
                          return [choice, name = choice.name()] { choice.set(name); };
                        },
                        [](auto* member) -> std::function<void()> {
                          return [member, value = *member] { *member = value; };
                        },
                    },
                    field);
}

}  // namespace

void set_from_json(Option& option, const nlohmann::json& value, const std::string& where) {
  if (!option.undo) option.undo = undo_of(option.field);
  option.is_automatic = option.automatic && value == "auto";
  if (option.is_automatic) return;
  const auto integer = [&](auto* field) {
    const auto number = whole<std::remove_pointer_t<decltype(field)>>(value);
    if (!number || !inside(option.range, *number)) wrong(option, where, shown_value(value));
    *field = *number;
  };
  const auto chosen = [&] {
    if (!value.is_string()) wrong(option, where, shown_value(value));
    auto text = value.get<std::string>();
    const auto& choices = choices_of(option);
    if (option.any_case) {
      const auto same = std::ranges::find(choices, lower(text), lower);
      if (same != choices.end()) return *same;
    }
    if (!choices.empty() && std::ranges::find(choices, text) == choices.end()) {
      wrong(option, where, shown_value(value) + hint_for_value(option, text));
    }
    return text;
  };
  std::visit(Overloaded{
                 [&](bool* field) {
                   if (!value.is_boolean()) wrong(option, where, shown_value(value));
                   *field = value.get<bool>();
                 },
                 [&](int* field) { integer(field); },
                 [&](std::size_t* field) { integer(field); },
                 [&](double* field) {
                   if (!value.is_number()) wrong(option, where, shown_value(value));
                   const auto number = value.get<double>();
                   if (!std::isfinite(number) || !inside(option.range, number)) {
                     wrong(option, where, shown_value(value));
                   }
                   *field = number;
                 },
                 [&](std::string* field) { *field = chosen(); },
                 [&](const EnumField& field) { field.set(chosen()); },
                 [&](codec::CodecSpec* field) {
                   if (!value.is_string()) wrong(option, where, shown_value(value));
                   try {
                     *field = codec::parse_codec(value.get<std::string>());
                   } catch (const std::invalid_argument& error) {
                     fail(where, error.what());
                   }
                 },
                 [&](const Structured& field) { field.set(value, where); },
             },
             option.field);
  option.given = true;
}

void set_from_text(Option& option, const std::string& text, const std::string& where) {
  const std::string size = option.bytes_suffix ? without_bytes(text) : "";
  const std::string& number = size.empty() ? text : size;
  set_from_json(option,
                json_of(option, option.binary_suffix ? without_suffix(number) : number, where),
                where);
  option.key.clear();
}

nlohmann::json value_of(const Option& option) {
  return std::visit(
      Overloaded{
          [](const codec::CodecSpec* field) { return nlohmann::json(codec::to_string(*field)); },
          [](const EnumField& field) { return nlohmann::json(field.name()); },
          [](const Structured& field) { return field.value(); },
          [](const auto* field) { return nlohmann::json(*field); },
      },
      option.field);
}

const std::vector<std::string>& choices_of(const Option& option) {
  const auto* const choice = std::get_if<EnumField>(&option.field);
  return choice != nullptr && option.choices.empty() ? choice->names() : option.choices;
}

std::string describe_values(const Option& option) {
  const std::vector<std::string>& choices = choices_of(option);
  if (!choices.empty()) {
    return choices.size() == 1 ? choices.front()
                               : fmt::format("one of {}", fmt::join(choices, ", "));
  }
  std::string text =
      std::visit(Overloaded{
                     [](bool*) { return std::string("true or false"); },
                     [](int*) { return std::string("a whole number"); },
                     [](std::size_t*) { return std::string("a whole number"); },
                     [](double*) { return std::string("a finite number"); },
                     [](std::string*) { return std::string("text"); },
                     [](codec::CodecSpec*) { return std::string("a codec, FORMAT[:BLOCK]"); },
                     [](const EnumField&) { return std::string("a name"); },
                     [](const Structured& field) { return field.description; },
                 },
                 option.field);
  if (!option.unit.empty()) text += " in " + option.unit;
  const Range& range = option.range;
  const bool lower = std::isfinite(range.minimum);
  const bool upper = std::isfinite(range.maximum);
  if (lower) {
    text += fmt::format("{} {}",
                        range.minimum_excluded ? " above"
                        : upper                ? " from"
                                               : " of at least",
                        range.minimum);
  }
  if (upper)
    text += fmt::format(" {} {}", range.maximum_excluded ? "to below" : "to", range.maximum);
  if (option.binary_suffix) text += "; K, M, G: times 1024, 1024^2, 1024^3";
  return text;
}

bool is_given(const std::vector<Option>& options, std::string_view path) {
  return std::any_of(options.begin(), options.end(),
                     [&](const Option& option) { return option.path == path && option.given; });
}

const Option& option_at(const std::vector<Option>& options, std::string_view path) {
  const auto found = std::ranges::find(options, path, &Option::path);
  if (found == options.end()) throw std::logic_error("no option " + std::string(path));
  return *found;
}

Option& option_at(std::vector<Option>& options, std::string_view path) {
  return const_cast<Option&>(option_at(std::as_const(options), path));
}

std::vector<std::string> paths_of(const std::vector<Option>& options) {
  std::vector<std::string> paths;
  paths.reserve(options.size());
  for (const auto& option : options) paths.push_back(option.path);
  return paths;
}

bool takes_text(const Option& option) {
  return std::holds_alternative<std::string*>(option.field) ||
         std::holds_alternative<EnumField>(option.field) ||
         std::holds_alternative<codec::CodecSpec*>(option.field);
}

bool is_boolean(const Option& option) { return std::holds_alternative<bool*>(option.field); }

std::string negative_flag(const Option& option) { return "--no-" + option.flag.substr(2); }

std::vector<std::string> flags_of(const std::vector<Option>& options) {
  std::vector<std::string> flags;
  for (const auto& option : options) {
    flags.push_back(option.flag);
    if (!option.letter.empty()) flags.push_back(option.letter);
    for (const std::string& other : option.other_flags) flags.push_back(other);
    if (is_boolean(option)) flags.push_back(negative_flag(option));
  }
  return flags;
}

}  // namespace zeropp::config
