#include "apps/converge/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/base/text.hpp"

namespace zeropp::converge {

using nlohmann::json;

Fields::Fields(const json& object, std::string where, const std::vector<std::string>& known)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw Error(ExitCode::usage,
                fmt::format("{} is {}: it has to be an object", where_, object.dump()));
  }
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string name = shown(key);
    throw Error(ExitCode::usage, fmt::format("{}: unknown key {} (nearest known: {})", where_, name,
                                             nearest(name, known)));
  }
}

void Fields::refuse(const char* key, const std::string& what) const {
  throw Error(ExitCode::usage, fmt::format("{}: {} {}", where_, key, what));
}

const json& Fields::at(const char* key) const {
  if (!has(key)) refuse(key, "is missing: give it");
  return object_[key];
}

std::string Fields::text(const char* key) const {
  const json& value = at(key);
  if (!value.is_string() || value.get<std::string>().empty()) {
    refuse(key, fmt::format("is {}: it has to be a text", value.dump()));
  }
  return value.get<std::string>();
}

const json& Fields::object(const char* key) const {
  const json& value = at(key);
  if (!value.is_object()) refuse(key, fmt::format("is {}: it has to be an object", value.dump()));
  return value;
}

const json& Fields::array(const char* key) const {
  const json& value = at(key);
  if (!value.is_array() || value.empty()) {
    refuse(key, fmt::format("is {}: it has to be an array, not empty", value.dump()));
  }
  return value;
}

double Fields::number(const char* key) const {
  const json& value = at(key);
  if (!value.is_number() || value.get<double>() < 0) {
    refuse(key, fmt::format("is {}: it has to be a number, at least 0", value.dump()));
  }
  return value.get<double>();
}

std::uint64_t Fields::whole(const char* key) const {
  const json& value = at(key);
  if (!value.is_number_unsigned()) {
    refuse(key, fmt::format("is {}: it has to be a whole number, at least 0", value.dump()));
  }
  return value.get<std::uint64_t>();
}

std::vector<std::uint64_t> Fields::wholes(const char* key) const {
  std::vector<std::uint64_t> values;
  for (const json& value : array(key)) {
    if (!value.is_number_unsigned()) {
      refuse(key, fmt::format("has {}: it has to hold whole numbers, at least 0", value.dump()));
    }
    values.push_back(value.get<std::uint64_t>());
    if (std::ranges::count(values, values.back()) > 1) {
      refuse(key, fmt::format("has {} twice: leave one out", values.back()));
    }
  }
  return values;
}

}  // namespace zeropp::converge
