// Options of the token sources, as plain values.
#pragma once

#include <string>

namespace zeropp::data {

struct Options {
  std::string source =
      "markov";      ///< "markov" (built in, known entropy) or "text" (bytes of a file)
  std::string path;  ///< of "text"
  double held_out_fraction = 0.05;  ///< the end of the file, never trained on
};

}  // namespace zeropp::data
