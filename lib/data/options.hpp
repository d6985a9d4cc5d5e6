// Options of the token sources, as plain values.
#pragma once

#include <string>

namespace zeropp::data {

struct Options {
  std::string source = "markov";    ///< an entry of the table in lib/data/token_source.cpp
  std::string path;                 ///< where reads_file()
  double held_out_fraction = 0.05;  ///< the end of the file, never trained on
};

inline bool reads_file(const Options& options) { return options.source == "text"; }

}  // namespace zeropp::data
