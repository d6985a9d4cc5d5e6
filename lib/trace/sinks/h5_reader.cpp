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

/// `count` values of the stored type, read by `read(type, memory)`; nothing for other kinds.
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

std::vector<std::string> names_in(hid_t group, const std::string& file) {
  H5G_info_t info;
  check(H5Gget_info(group, &info), "list", file);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    std::array<char, 256> name{};
    check(H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(),
                             H5P_DEFAULT),
          "list", file);
    names.emplace_back(name.data());
  }
  return names;
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

std::vector<Attribute> read_attributes(hid_t object, const std::string& file) {
  struct Reading {
    const std::string& file;
    std::vector<Attribute> attributes;
    std::optional<Error> problem;
  } reading{file, {}, {}};
  const auto read = [](hid_t owner, const char* name, const H5A_info_t*, void* data) -> herr_t {
    auto& into = *static_cast<Reading*>(data);
    try {  // HDF5 is C: nothing is thrown through it
      const Handle attribute(check(H5Aopen(owner, name, H5P_DEFAULT), "open", name), H5Aclose);
      const Handle type(check(H5Aget_type(attribute.id()), "read", name), H5Tclose);
      const Handle space(check(H5Aget_space(attribute.id()), "read", name), H5Sclose);
      if (H5Sget_simple_extent_npoints(space.id()) != 1) return 0;
      const auto values = values_of(type.id(), 1, into.file, [&](hid_t as, void* memory) {
        check(H5Aread(attribute.id(), as, memory), "read", name);
      });
      if (!values) return 0;
      std::visit([&](const auto& all) { into.attributes.push_back({name, all.front()}); }, *values);
      return 0;
    } catch (const Error& error) {
      into.problem = error;
      return -1;
    }
  };
  hsize_t begin = 0;
  const herr_t done = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &begin, read, &reading);
  if (reading.problem) throw Error(*reading.problem);
  check(done, "read the attributes of", file);
  return std::move(reading.attributes);
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

Document read_hdf5(const std::filesystem::path& path, const std::vector<std::string>& groups) {
  h5::be_quiet();
  const std::string name = path.string();
  const Handle file(check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open", name),
                    H5Fclose);
  Document document;
  document.attributes = read_attributes(file.id(), name);
  if (!is_complete(document)) refuse(name, "no complete trace");
  for (const std::string& each : groups) {
    if (H5Lexists(file.id(), each.c_str(), H5P_DEFAULT) <= 0) continue;
    const Handle handle(check(H5Gopen2(file.id(), each.c_str(), H5P_DEFAULT), "open", each),
                        H5Gclose);
    Group group{each, read_attributes(handle.id(), name), {}};
    for (const std::string& column : names_in(handle.id(), name)) {
      group.columns.push_back(read_column(handle.id(), column, name));
      if (group.columns.back().size() != group.columns.front().size()) {
        refuse(name, "columns of /" + each + " differ in length");
      }
    }
    document.groups.push_back(std::move(group));
  }
  return document;
}

}  // namespace zeropp::trace
