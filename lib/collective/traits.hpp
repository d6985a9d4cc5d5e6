// Traits of a collective algorithm: what it can and cannot do. Its file says it once; whatever
// chooses among algorithms without running them (the configuration, the sweep, zpp_info) reads it
// here.
#pragma once

#include <string>

namespace zeropp::collective {

struct Traits {
  bool hierarchical = false;  ///< needs nodes of equal size, and runs on all ranks
  bool any_codec = true;      ///< false: `none` only
  bool modelled = false;  ///< the vendor's route: its bytes are those of a ring, not those counted
  bool deterministic = true;  ///< the same bits in every run
  bool one_chunk = false;     ///< runs in one chunk, whatever the depth of the pipeline
  bool to_everyone = false;   ///< sends pieces of one size to everyone, inside nodes at least
  bool in_place = false;      ///< an all-gather that needs no images of what is not encoded
  bool feedback =
      false;  ///< a reduction with hops whose errors can be fed back (error_feedback.hpp)
};

/// An algorithm that can be asked for, by the name that users write.
struct Algorithm {
  std::string name;
  Traits traits{};
};

}  // namespace zeropp::collective
