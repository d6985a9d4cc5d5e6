// A trace, or any result, as a JSON file: the same names and digits as in HDF5. Units stand in an
// object of their own; what is not finite is null. Throws Error(io).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/trace/document.hpp"

namespace zeropp::trace {

/// {"schema", ..., "env": {...}, "steps": {"loss": [...], ...}, "units": {"steps": {"loss":
/// "nats per token"}}}: root attributes, groups, units. The configuration is an object, the
/// group `units` of the file is named `parameter_units`.
nlohmann::json to_json(const Document& document);

/// In one line, or with `indent` spaces a level where people edit the file. Complete under its
/// final name or not there at all.
void write_json(const nlohmann::json& value, const std::filesystem::path& path, int indent = -1);

}  // namespace zeropp::trace
