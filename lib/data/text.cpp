#include "lib/data/text.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "lib/data/data_file.hpp"

namespace zeropp::data {

namespace {

std::vector<std::uint8_t> read_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    refuse_file(path, "does not exist: check the path, or use the built-in source 'markov'");
  }
  if (!std::filesystem::is_regular_file(status)) {
    refuse_file(path, "is not a regular file: give a text file");
  }
  const auto size = std::filesystem::file_size(path, error);
  if (error)
    refuse_file(path,
                fmt::format("cannot be measured ({}): check its permissions", error.message()));
  if (size == 0) refuse_file(path, "is empty: give a file with text");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_file(path, "cannot be opened: check its permissions");
  std::vector<std::uint8_t> bytes(size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(file.gcount()) != size || file.peek() != EOF) {
    refuse_file(
        path,
        fmt::format("has another size than the {} bytes it had when opened: let nobody write to "
                    "it, and start again",
                    size));
  }
  return bytes;
}

}  // namespace

Text::Text(std::string path, double held_out_fraction)
    : path_(std::move(path)), bytes_(read_file(path_), held_out_fraction) {}

}  // namespace zeropp::data
