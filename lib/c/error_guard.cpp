#include "lib/c/error_guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace zeropp::c {

namespace {

thread_local std::string last_line;

zpp_status keep(zpp_status status, const char* line) noexcept {
  try {
    last_line = line;
    std::ranges::replace(last_line, '\n', ' ');  // an error is one line
  } catch (...) {
    last_line.clear();
  }
  return status;
}

zpp_status status_of(ExitCode code) {
  if (code == ExitCode::usage) return ZPP_USAGE;
  return code == ExitCode::environment ? ZPP_ENVIRONMENT : ZPP_FAILED;
}

}  // namespace

zpp_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(status_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return keep(ZPP_ENVIRONMENT, "out of memory: use smaller buckets, or more ranks");
  } catch (const std::invalid_argument& error) {
    return keep(ZPP_USAGE, error.what());
  } catch (const std::exception& error) {
    return keep(ZPP_FAILED, error.what());
  } catch (...) {
    return keep(ZPP_FAILED, "unexpected: something that is no exception was thrown");
  }
}

const char* last_error() noexcept { return last_line.c_str(); }

void require_given(const void* pointer, const char* function, const char* what) {
  if (pointer != nullptr) return;
  throw Error(ExitCode::usage, fmt::format("{}: {} is NULL: give its address", function, what));
}

void require_struct_size(std::size_t given, std::size_t known, const char* function,
                         const char* name) {
  if (given == known) return;
  throw Error(
      ExitCode::usage,
      fmt::format("{}: {}.struct_size is {}, this library has {}: set it to sizeof({}), and "
                  "compile against the zeropp.h of the library that is loaded",
                  function, name, given, known, name));
}

}  // namespace zeropp::c
