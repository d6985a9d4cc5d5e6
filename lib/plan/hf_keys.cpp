#include "lib/plan/hf_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "lib/base/error.hpp"

namespace zeropp::plan {

namespace {

constexpr double kLargestSize = std::numeric_limits<int>::max();
constexpr const char* kRemedy =
    "give a config.json of a decoder, or --num-layers, --hidden-size, --num-attention-heads, "
    "--seq-length and --vocab-size";

}  // namespace

bool HfKeys::has(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

bool HfKeys::is_null(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

std::size_t HfKeys::size(std::initializer_list<const char*> keys, std::size_t usual,
                         std::size_t derived) const {
  for (const char* key : keys) {
    const auto found = object_.find(key);
    if (found == object_.end() || (found->is_null() && derived == 0)) continue;
    if (found->is_null()) return derived;
    return whole(*found, key, 1);
  }
  if (usual > 0) return usual;
  throw Error(ExitCode::usage,
              fmt::format("{}: {} is missing: {}", name_, fmt::join(keys, " or "), kRemedy));
}

std::size_t HfKeys::count(std::initializer_list<const char*> keys, std::size_t otherwise) const {
  for (const char* key : keys) {
    if (!has(key)) continue;
    const nlohmann::json& value = object_.at(key);
    return whole(value.is_array() && !value.empty() ? value.front() : value, key, 0);
  }
  return otherwise;
}

std::size_t HfKeys::whole(const nlohmann::json& value, const char* key, double least) const {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= least && number <= kLargestSize) || number != std::floor(number)) {
    throw Error(ExitCode::usage,
                fmt::format("{}: {} must be a whole number from {:.0f} to {:.0f}: {}", name_, key,
                            least, kLargestSize, kRemedy));
  }
  return static_cast<std::size_t>(number);
}

bool HfKeys::is(const char* key, bool otherwise) const {
  const auto found = object_.find(key);
  if (found == object_.end()) return otherwise;
  if (found->is_boolean()) return found->get<bool>();
  if (found->is_number()) return found->get<double>() != 0;
  return found->is_string() ? !found->get_ref<const std::string&>().empty() : !found->empty();
}

std::string HfKeys::text(const char* key) const {
  return has(key) && object_.at(key).is_string() ? object_.at(key).get<std::string>() : "";
}

}  // namespace zeropp::plan
