// Changes files and looks at what a reader makes of them. flip_bits() is short unless
// ZEROPP_TAMPERINGS says how many bits to flip, with ZEROPP_TAMPERING_SEED as another seed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/sha256.hpp"

namespace zeropp::test {

enum class Outcome : std::uint8_t {
  detected,    ///< an Error of one line
  harmless,    ///< what was read is what was written
  undetected,  ///< something else was read
};

inline void PrintTo(Outcome outcome, std::ostream* stream) {
  *stream << (outcome == Outcome::detected   ? "detected"
              : outcome == Outcome::harmless ? "harmless"
                                             : "undetected");
}

/// Outcome of `read`, which says whether it has read what was written. Exceptions that are no Error
/// pass.
inline Outcome outcome_of(const std::function<bool()>& read) {
  try {
    return read() ? Outcome::harmless : Outcome::undetected;
  } catch (const Error& error) {
    if (std::string(error.what()).find('\n') == std::string::npos) return Outcome::detected;
    throw;
  }
}

struct Outcomes {
  std::uint64_t detected = 0;
  std::uint64_t harmless = 0;
  std::uint64_t undetected = 0;
  [[nodiscard]] std::uint64_t total() const { return detected + harmless + undetected; }
  void add(Outcome outcome) {
    ++(outcome == Outcome::detected   ? detected
       : outcome == Outcome::harmless ? harmless
                                      : undetected);
  }
};

inline std::uint64_t number_of_variable(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

inline void flip_bit(const std::filesystem::path& path, std::uint64_t bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(bit / 8);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ (1 << (bit % 8)));
  file.seekp(at);
  file.put(byte);
}

/// Flips one bit at a time of one of `files`, and back; as many of each file. Returns outcomes by
/// the files' names.
inline std::map<std::string, Outcomes> flip_bits(
    const std::vector<std::filesystem::path>& files,
    const std::function<Outcome(const std::filesystem::path&)>& outcome) {
  std::mt19937_64 random(number_of_variable("ZEROPP_TAMPERING_SEED", 1));
  const std::uint64_t flips = number_of_variable("ZEROPP_TAMPERINGS", 500);
  std::map<std::string, Outcomes> counts;
  for (std::uint64_t flip = 0; flip < flips; ++flip) {
    const std::filesystem::path& path = files[flip % files.size()];
    const std::uint64_t bit = random() % (8 * std::filesystem::file_size(path));
    flip_bit(path, bit);
    const Outcome found = outcome(path);
    flip_bit(path, bit);
    counts[path.filename().string()].add(found);
    if (found == Outcome::undetected) fmt::print("bit {} of {}\n", bit, path.string());
  }
  return counts;
}

/// A manifest with its right digest, as one would write it who means harm.
inline std::string digested(nlohmann::json manifest) {
  manifest.erase("sha256");
  manifest["sha256"] = sha256_hex(manifest.dump());
  return manifest.dump();
}

}  // namespace zeropp::test
