// The options of zpp_converge. They are keys of the matrix too; a flag overrides the file's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::converge {

struct Options {
  std::size_t ranks_per_run = 0;  ///< of a team; 0: all ranks are one
  std::string backend;            ///< empty: as the matrix' base says
  std::string transport;
  /// Data of the settings whose source reads a file. With a source they are what the flags say, and
  /// nothing of what the matrix says; without one, what is given changes the matrix' data.
  std::string data_source;
  std::string data_path;
  std::size_t data_vocab_size = 0;
  double held_out_fraction = 0;
  std::vector<std::uint64_t> seeds;  ///< empty: as the matrix says
};

/// Every option, bound to `options`, which outlives the table.
std::vector<config::Option> option_table(Options& options);

}  // namespace zeropp::converge
