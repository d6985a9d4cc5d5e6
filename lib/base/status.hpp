// Exceptions of a piece of work as one Error: for those who have to tell other ranks, or to end the
// program.
#pragma once

#include <optional>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp {

/// The exception that is being caught, as an Error; called inside a catch block. Out of memory, a
/// thread that does not start, and whatever else is no Error have the code environment.
Error current_error();

/// The Error that `work` throws, if it throws.
template <class Work>
std::optional<Error> status_of(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (...) {
    return current_error();
  }
  return std::nullopt;
}

}  // namespace zeropp
