#include "lib/trace/sinks/hdf5_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "lib/base/atomic_file.hpp"
#include "lib/base/error.hpp"
#include "lib/trace/sinks/digest.hpp"
#include "lib/trace/sinks/h5.hpp"
#include "lib/trace/sinks/h5_image.hpp"

namespace zeropp::trace {
namespace {

using h5::check;
using h5::Handle;

constexpr hsize_t chunk_rows = 4096;
constexpr std::size_t preflight_bytes = std::size_t{1} << 20U;

/// Values as HDF5 gets them: a type, and the bytes of `count` values of it.
struct Packed {
  Handle type;
  hsize_t count;
  std::vector<std::byte> bytes;
};

template <class Number>
Packed pack(const std::vector<Number>& values) {
  const hid_t type = std::is_same_v<Number, double> ? H5T_IEEE_F64LE : H5T_STD_U64LE;
  const auto bytes = std::as_bytes(std::span(values));
  return {Handle(check(H5Tcopy(type), "make", "a number type"), H5Tclose),
          values.size(),
          {bytes.begin(), bytes.end()}};
}

/// Text of fixed length, so that the checksum of the dataset covers it.
Packed pack(const std::vector<std::string>& values) {
  std::size_t width = 1;
  for (const auto& value : values) width = std::max(width, value.size());
  std::vector<std::byte> bytes(width * values.size(), std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(bytes.data() + i * width, values[i].data(), values[i].size());
  }
  return {h5::string_type(width), values.size(), std::move(bytes)};
}

Packed pack(const Attribute& attribute) {
  return std::visit([](const auto& value) { return pack(std::vector{value}); }, attribute.value);
}
Packed pack(const Column& column) {
  return std::visit([](const auto& values) { return pack(values); }, column.values);
}

void write_attribute(hid_t object, const Attribute& attribute) {
  const Packed packed = pack(attribute);
  const Handle space(check(H5Screate(H5S_SCALAR), "make", "a scalar"), H5Sclose);
  const Handle handle(check(H5Acreate2(object, attribute.name.c_str(), packed.type.id(), space.id(),
                                       H5P_DEFAULT, H5P_DEFAULT),
                            "create the attribute", attribute.name),
                      H5Aclose);
  check(H5Awrite(handle.id(), packed.type.id(), packed.bytes.data()), "write the attribute",
        attribute.name);
}

void write_column(hid_t group, const Column& column) {
  const Packed packed = pack(column);
  // A chunk holds at least one row, so an empty column needs room for one.
  const hsize_t room = std::max<hsize_t>(packed.count, 1);
  const hsize_t chunk = std::min(room, chunk_rows);
  const Handle space(check(H5Screate_simple(1, &packed.count, &room), "shape", column.name),
                     H5Sclose);
  const Handle layout(check(H5Pcreate(H5P_DATASET_CREATE), "lay out", column.name), H5Pclose);
  check(H5Pset_chunk(layout.id(), 1, &chunk), "chunk", column.name);
  check(H5Pset_fletcher32(layout.id()), "add a checksum to", column.name);
  const Handle dataset(check(H5Dcreate2(group, column.name.c_str(), packed.type.id(), space.id(),
                                        H5P_DEFAULT, layout.id(), H5P_DEFAULT),
                             "create the dataset", column.name),
                       H5Dclose);
  check(
      H5Dwrite(dataset.id(), packed.type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, packed.bytes.data()),
      "write the dataset", column.name);
  write_attribute(dataset.id(), {"units", column.units});
  write_attribute(dataset.id(), {"description", column.description});
}

void write_document(hid_t file, const Document& document) {
  for (const auto& attribute : document.attributes) write_attribute(file, attribute);
  for (const auto& group : document.groups) {
    const Handle handle(
        check(H5Gcreate2(file, group.name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
              "create the group", group.name),
        H5Gclose);
    for (const auto& attribute : group.attributes) write_attribute(handle.id(), attribute);
    for (const auto& column : group.columns) write_column(handle.id(), column);
  }
  write_attribute(file, {digest_name, digest_of(document)});
  write_attribute(file, {"complete", std::uint64_t{1}});
}

/// Throws when the data read back differs from the data written.
void compare(const Packed& expected, hid_t stored_type, hsize_t stored_count,
             const std::vector<std::byte>& stored, const std::string& name,
             const std::string& file) {
  if (check(H5Tequal(expected.type.id(), stored_type), "compare", name) == 0 ||
      expected.count != stored_count || expected.bytes != stored) {
    throw Error(ExitCode::io, fmt::format("{} does not hold what was written to {}: check the file "
                                          "system, or choose another --output",
                                          file, name));
  }
}

void verify_attribute(hid_t object, const Attribute& attribute, const std::string& file) {
  const Packed expected = pack(attribute);
  const Handle handle(
      check(H5Aopen(object, attribute.name.c_str(), H5P_DEFAULT), "read back", attribute.name),
      H5Aclose);
  const Handle type(check(H5Aget_type(handle.id()), "read back", attribute.name), H5Tclose);
  std::vector<std::byte> stored(H5Tget_size(type.id()));
  check(H5Aread(handle.id(), type.id(), stored.data()), "read back", attribute.name);
  compare(expected, type.id(), 1, stored, attribute.name, file);
}

void verify_column(hid_t group, const Column& column, const std::string& file) {
  const Packed expected = pack(column);
  const Handle dataset(
      check(H5Dopen2(group, column.name.c_str(), H5P_DEFAULT), "read back", column.name), H5Dclose);
  const Handle type(check(H5Dget_type(dataset.id()), "read back", column.name), H5Tclose);
  const Handle space(check(H5Dget_space(dataset.id()), "read back", column.name), H5Sclose);
  const hssize_t count = check(H5Sget_simple_extent_npoints(space.id()), "read back", column.name);
  std::vector<std::byte> stored(H5Tget_size(type.id()) * static_cast<std::size_t>(count));
  check(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, stored.data()), "read back",
        column.name);
  compare(expected, type.id(), static_cast<hsize_t>(count), stored, column.name, file);
  verify_attribute(dataset.id(), {"units", column.units}, file);
  verify_attribute(dataset.id(), {"description", column.description}, file);
}

/// Whether `path` is a trace that one of our programs wrote.
bool is_own_trace(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  std::optional<Handle> opened;
  try {
    opened.emplace(h5::open_to_read(path));
  } catch (const Error&) {
    return false;  // who cannot read it cannot know whose it is
  }
  const Handle& file = *opened;
  const Handle attribute(H5Aopen(file.id(), "schema", H5P_DEFAULT), H5Aclose);
  if (attribute.id() < 0) return false;
  const Handle type(H5Aget_type(attribute.id()), H5Tclose);
  const Packed expected = pack(Attribute{"schema", schema_name});
  if (type.id() < 0 || H5Tequal(type.id(), expected.type.id()) <= 0) return false;
  std::vector<std::byte> stored(expected.bytes.size());
  return H5Aread(attribute.id(), type.id(), stored.data()) >= 0 && stored == expected.bytes;
}

void refuse_foreign(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error)) &&
      !is_own_trace(path)) {
    throw Error(ExitCode::io, fmt::format("{} exists and is not a trace of ours: move it away, or "
                                          "choose another --output",
                                          path.string()));
  }
}

}  // namespace

void preflight_hdf5(const std::filesystem::path& path) {
  refuse_foreign(path);
  preflight_write(path, preflight_bytes);
}

void verify_hdf5(const Document& document, const std::filesystem::path& path) {
  const std::string name = path.string();
  const Handle file = h5::open_to_read(path);
  for (const auto& attribute : document.attributes) verify_attribute(file.id(), attribute, name);
  for (const auto& group : document.groups) {
    const Handle handle(
        check(H5Gopen2(file.id(), group.name.c_str(), H5P_DEFAULT), "read back", group.name),
        H5Gclose);
    for (const auto& attribute : group.attributes) verify_attribute(handle.id(), attribute, name);
    for (const auto& column : group.columns) verify_column(handle.id(), column, name);
  }
  verify_attribute(file.id(), {digest_name, digest_of(document)}, name);
  verify_attribute(file.id(), {"complete", std::uint64_t{1}}, name);
}

void write_hdf5(const Document& document, const std::filesystem::path& path) {
  h5::be_quiet();
  refuse_foreign(path);
  const auto image = h5::build_image(path.filename().string(),
                                     [&](hid_t file) { write_document(file, document); });
  write_atomically(path, image,
                   [&](const std::filesystem::path& partial) { verify_hdf5(document, partial); });
}

}  // namespace zeropp::trace
