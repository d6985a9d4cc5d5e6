// Options of the token sources, as plain values.
#pragma once

#include <cstddef>
#include <string>

namespace zeropp::data {

struct Options {
  std::string source = "markov";    ///< an entry of the table in lib/data/token_source.cpp
  std::string path;                 ///< where reads_file(); of Megatron-LM without .bin and .idx
  std::size_t vocab_size = 0;       ///< where reads_ids(): they are below
  double held_out_fraction = 0.05;  ///< the end of the file, never trained on
};

/// Whether a token is a byte of a text as it is: elsewhere it stands for any number of bytes, or
/// for none.
inline bool tokens_are_bytes(const Options& options) { return options.source == "text"; }

/// Whether the source has ids of a tokenizer, which the file does not name.
inline bool reads_ids(const Options& options) {
  return options.source == "llmc" || options.source == "megatron";
}
inline bool reads_file(const Options& options) {
  return tokens_are_bytes(options) || reads_ids(options);
}

}  // namespace zeropp::data
