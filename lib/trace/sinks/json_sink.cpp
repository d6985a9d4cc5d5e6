#include "lib/trace/sinks/json_sink.hpp"

#include <span>
#include <string>

#include "lib/base/atomic_file.hpp"

namespace zeropp::trace {
namespace {

nlohmann::json value_of(const Attribute& attribute) {
  return std::visit([](const auto& value) { return nlohmann::json(value); }, attribute.value);
}

}  // namespace

nlohmann::json to_json(const Document& document) {
  auto result = nlohmann::json::object();
  auto units = nlohmann::json::object();
  for (const auto& attribute : document.attributes) {
    result[attribute.name] = value_of(attribute);
    if (attribute.name == "config_json") {
      result["config"] = nlohmann::json::parse(std::get<std::string>(attribute.value));
    }
  }
  for (const auto& group : document.groups) {
    const std::string name = group.name == "units" ? "parameter_units" : group.name;
    auto& entry = result[name] = nlohmann::json::object();
    for (const auto& attribute : group.attributes) entry[attribute.name] = value_of(attribute);
    for (const auto& column : group.columns) {
      entry[column.name] =
          std::visit([](const auto& values) { return nlohmann::json(values); }, column.values);
      if (!column.units.empty()) units[name][column.name] = column.units;
    }
  }
  result["units"] = std::move(units);
  return result;
}

void write_json(const nlohmann::json& value, const std::filesystem::path& path, int indent) {
  // Host names and command lines may hold any bytes: those that are not UTF-8 are replaced.
  const std::string text =
      value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace zeropp::trace
