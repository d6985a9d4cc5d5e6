#include "lib/trace/sinks/h5_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/trace/sinks/h5.hpp"

namespace zeropp::trace {

namespace {

using h5::check;
using h5::Handle;

constexpr std::size_t kMostBytes = std::size_t{1} << 28U;  ///< of a column
using Values = decltype(Column::values);

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ExitCode::usage,
              fmt::format("{}: {}: give a trace that a program of zeropp wrote", file, why));
}

/// Reads `count` values of the stored type by `read(type, memory)`; nothing for other kinds.
template <class Read>
std::optional<Values> values_of(hid_t stored, std::size_t count, const std::string& file,
                                const Read& read) {
  const H5T_class_t kind = H5Tget_class(stored);
  const std::size_t width = kind == H5T_STRING ? H5Tget_size(stored) : sizeof(double);
  if (count > kMostBytes / std::max<std::size_t>(width, 1)) {
    refuse(file, "more values than a trace has");
  }
  if (kind == H5T_INTEGER) {
    std::vector<std::uint64_t> numbers(count);
    read(H5T_NATIVE_UINT64, numbers.data());
    return numbers;
  }
  if (kind == H5T_FLOAT) {
    std::vector<double> numbers(count);
    read(H5T_NATIVE_DOUBLE, numbers.data());
    return numbers;
  }
  if (kind != H5T_STRING || H5Tis_variable_str(stored) != 0) return std::nullopt;
  std::string memory(width * count, '\0');
  read(stored, memory.data());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = memory.substr(i * width, width);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

Column read_column(hid_t group, const std::string& name, const std::string& file) {
  const Handle dataset(check(H5Dopen2(group, name.c_str(), H5P_DEFAULT), "open", name), H5Dclose);
  const Handle type(check(H5Dget_type(dataset.id()), "read", name), H5Tclose);
  const Handle space(check(H5Dget_space(dataset.id()), "read", name), H5Sclose);
  if (H5Sget_simple_extent_ndims(space.id()) != 1) refuse(file, name + " is no column");
  const auto count =
      static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space.id()), "read", name));
  auto values = values_of(type.id(), count, file, [&](hid_t as, void* memory) {
    check(H5Dread(dataset.id(), as, H5S_ALL, H5S_ALL, H5P_DEFAULT, memory), "read", name);
  });
  if (!values) refuse(file, name + " is neither numbers nor text");
  return {name, "", "", std::move(*values)};
}

bool has_link(hid_t group, const std::string& name) {
  return check(H5Lexists(group, name.c_str(), H5P_DEFAULT), "look for", name) > 0;
}

std::optional<Attribute> read_attribute(hid_t object, const std::string& name,
                                        const std::string& file) {
  if (check(H5Aexists(object, name.c_str()), "look for", name) == 0) return std::nullopt;
  const Handle attribute(check(H5Aopen(object, name.c_str(), H5P_DEFAULT), "open", name), H5Aclose);
  const Handle type(check(H5Aget_type(attribute.id()), "read", name), H5Tclose);
  const Handle space(check(H5Aget_space(attribute.id()), "read", name), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.id()) != 1) return std::nullopt;
  const auto values = values_of(type.id(), 1, file, [&](hid_t as, void* memory) {
    check(H5Aread(attribute.id(), as, memory), "read", name);
  });
  if (!values) return std::nullopt;
  return std::visit([&](const auto& all) { return Attribute{name, all.front()}; }, *values);
}

bool is_complete(const Document& document) {
  const auto has = [&](const char* name, const auto& value) {
    for (const Attribute& attribute : document.attributes) {
      if (attribute.name == name) return attribute.value == decltype(attribute.value)(value);
    }
    return false;
  };
  return has("schema", std::string(schema_name)) && has("complete", std::uint64_t{1});
}

}  // namespace

bool is_hdf5(const std::filesystem::path& path) {
  constexpr std::array<char, 8> kSignature{'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  std::array<char, 8> begin{};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), begin.size()) && begin == kSignature;
}

Document read_hdf5(const std::filesystem::path& path, const Selection& wanted) {
  const std::string name = path.string();
  const Handle file = h5::open_to_read(path);
  Document document;
  const auto read = [&](const std::string& attribute) {
    if (auto found = read_attribute(file.id(), attribute, name)) {
      document.attributes.push_back(std::move(*found));
    }
  };
  read("schema");
  read("complete");
  if (!is_complete(document)) refuse(name, "no complete trace");
  for (const std::string& each : wanted.attributes) read(each);
  for (const auto& [group, columns] : wanted.groups) {
    if (!has_link(file.id(), group)) continue;
    const Handle handle(check(H5Gopen2(file.id(), group.c_str(), H5P_DEFAULT), "open", group),
                        H5Gclose);
    Group made{group, {}, {}};
    for (const std::string& column : columns) {
      if (!has_link(handle.id(), column)) continue;
      made.columns.push_back(read_column(handle.id(), column, name));
      if (made.columns.back().size() != made.columns.front().size()) {
        refuse(name, "columns of /" + group + " differ in length");
      }
    }
    document.groups.push_back(std::move(made));
  }
  return document;
}

}  // namespace zeropp::trace
