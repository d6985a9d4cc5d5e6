// The options of zpp_converge. They are keys of the matrix too; a flag overrides the file's.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::converge {

struct Options {
  std::size_t ranks_per_run = 0;  ///< of a team; 0: all ranks are one
  std::string backend;            ///< empty: as the matrix' base says
  std::string transport;
  std::string data_path;
};

/// Every option, bound to `options`, which outlives the table.
std::vector<config::Option> option_table(Options& options);

}  // namespace zeropp::converge
