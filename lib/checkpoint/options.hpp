// Options of checkpoints, as plain values.
#pragma once

#include <cstddef>
#include <string>

namespace zeropp::checkpoint {

struct Options {
  std::string save;     ///< folder that checkpoints are written to; empty: none are
  std::string load;     ///< folder whose newest checkpoint the run resumes from; empty: none
  std::string weights;  ///< model.safetensors that a run begins with; empty: none
  bool gather_weights = false;  ///< a checkpoint holds one, too
  std::size_t interval = 0;     ///< steps between checkpoints; 0: only where the run ends
  std::size_t keep = 2;         ///< complete checkpoints that stay
  bool asynchronous = true;     ///< files are written while training continues
};

}  // namespace zeropp::checkpoint
