#include "apps/converge/codec_lists.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/codec/spec.hpp"
#include "lib/base/error.hpp"

namespace zeropp::converge {

namespace {

using nlohmann::json;

std::string canonical(const std::string& name, const std::string& where) {
  try {
    return codec::to_string(codec::parse_codec(name));
  } catch (const std::invalid_argument& error) {
    throw Error(ExitCode::usage, fmt::format("{}: {}", where, error.what()));
  }
}

std::vector<std::string> names_of(const json& list, const std::string& where) {
  if (list == "every") return every_codec();
  std::vector<std::string> names;
  if (list.is_array()) {
    for (const json& name : list) names.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  if (names.empty()) {
    throw Error(
        ExitCode::usage,
        fmt::format("{} is {}: it has to be \"every\" or an array of codecs", where, list.dump()));
  }
  return names;
}

}  // namespace

std::vector<std::string> every_codec() {
  std::vector<std::string> names;
  for (const codec::FormatInfo& format : codec::formats()) {
    const std::string plain = codec::to_string(codec::parse_codec(format.name));
    names.push_back(plain);
    for (const std::string_view option : format.options) {
      names.push_back(fmt::format("{}+{}", plain, option));
    }
  }
  return names;
}

std::vector<ListedCodec> weight_codecs(const json& list, const std::string& where) {
  std::vector<ListedCodec> choices;
  for (const std::string& name : names_of(list, where)) {
    const std::string codec = canonical(name, where);
    choices.push_back({codec,
                       {{"zero_optimization", {{"zero_quantized_weights", true}}},
                        {"zeropp", {{"weight_codec", codec}}}}});
  }
  return choices;
}

std::vector<ListedCodec> gradient_codecs(const json& list, const std::string& where) {
  std::vector<ListedCodec> choices;
  for (const std::string& name : names_of(list, where)) {
    const std::size_t slash = name.find('/');
    const std::string first = canonical(name.substr(0, slash), where);
    const std::string second =
        slash == std::string::npos ? first : canonical(name.substr(slash + 1), where);
    choices.push_back(
        {first == second ? first : fmt::format("{}/{}", first, second),
         {{"zero_optimization", {{"zero_quantized_gradients", true}}},
          {"zeropp", {{"gradient_codec_intra", first}, {"gradient_codec_inter", second}}}}});
  }
  return choices;
}

}  // namespace zeropp::converge
