// Rules that every source of tokens keeps, whatever bytes it was made from.
#pragma once

#include "lib/data/token_source.hpp"
#include "tests/support/fuzz_target.hpp"

namespace zeropp::test {

/// Reads all tokens; each is in the vocabulary.
inline void read_all(const data::TokenSource& source) {
  for (const data::Part part : {data::Part::train, data::Part::held_out}) {
    std::vector<std::int32_t> tokens(source.tokens(part));
    source.read(part, 0, tokens);
    for (const std::int32_t token : tokens) {
      if (token < 0 || static_cast<std::size_t>(token) >= source.vocab_size()) {
        fuzz_failure("a token is not in the vocabulary");
      }
    }
  }
}

}  // namespace zeropp::test
