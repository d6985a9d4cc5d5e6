// The matrix of runs that one JSON file describes (inputs/convergence/README.md): a base
// configuration, levels and settings that change it, seeds, and checks between settings. Pure
// functions of the file; nothing here knows the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/converge/options.hpp"

namespace zeropp::converge {

// The JSON library checks its values when they are moved, by asserts.
struct Setting {          // NOLINT(bugprone-exception-escape)
  std::string name;       ///< unique in the matrix, as a file's name as well (file_stem())
  std::string level;      ///< levels.hpp
  std::string baseline;   ///< name of the setting that it is compared with; empty: none
  nlohmann::json config;  ///< of the trainer: the base, changed by the level, by the setting
  std::vector<std::uint64_t> seeds;
  std::size_t ranks = 0;  ///< of a team that take part; 0: all
};

/// Check of two settings of the level contract: their runs of equal seed are compared.
struct Check {
  std::string name;  ///< "hpz", "stages", "rerun", "backend", "world_size"
  std::string first;
  std::string second;
  double limit = 0;  ///< of the relative difference of losses; 0: the parameters are identical
};

struct Matrix {
  std::vector<Setting> settings;
  std::vector<Check> checks;
};

/// The name of a setting as part of a file's name: letters, digits, '-', and '_' for others.
std::string file_stem(const std::string& name);

/// `document` without the options' keys; `file` stands for it in messages. `options` change the
/// base. Throws Error(usage): unknown keys with the nearest known one, wrong types, names that are
/// not unique or not there.
Matrix read_matrix(const nlohmann::json& document, const std::string& file, const Options& options);

}  // namespace zeropp::converge
