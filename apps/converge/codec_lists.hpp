// Settings that differ in a codec only, from one entry of the matrix: a list of codecs, or "every".
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zeropp::converge {

/// A codec of a list, and what it changes in the trainer's configuration.
struct ListedCodec {
  std::string name;  ///< "int4:128+had32"; of gradients also "int8:128/int4:128+had32"
  nlohmann::json config;
};

/// Every registered format with its default block: as it is, and with each of its options alone.
std::vector<std::string> every_codec();

/// Codecs of qwZ: each of `list`, an array or "every". Throws Error(usage), beginning with `where`.
std::vector<ListedCodec> weight_codecs(const nlohmann::json& list, const std::string& where);

/// Codecs of qgZ: each of `list`, as FIRST/SECOND, or one codec on both hops.
std::vector<ListedCodec> gradient_codecs(const nlohmann::json& list, const std::string& where);

}  // namespace zeropp::converge
