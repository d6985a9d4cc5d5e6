// Standard output of a program. Text goes to the descriptor at once, without a buffer that could be
// lost. An error of a write does not end the run: the result of hours is a file, which is still to
// come. The first error is kept, and the frame of the program (lib/app/run.cpp) ends with it. One
// thread prints.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace zeropp::standard_output {

/// Takes the numbers of standard descriptors that are closed, so that no file gets one of them and
/// with it what is printed. Printing to one that was closed fails. Call it before any file is
/// opened.
void claim_descriptors();

/// Writes all of `text`, waiting for a reader that is slow; keeps the error where it cannot.
void write(std::string_view text);

template <class... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  write(fmt::format(format, std::forward<Values>(values)...));
}

/// Throws Error(io) where a text could not be written since the last call of this.
void require_written();

}  // namespace zeropp::standard_output
