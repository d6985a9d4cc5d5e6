// Text of a refused configuration.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/base/error.hpp"

namespace zeropp::test {

/// The message, of one line, of the Error with `code` that `body` throws.
template <class Body>
std::string refusal(Body&& body, ExitCode code = ExitCode::usage) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

}  // namespace zeropp::test
