#include "lib/base/status.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <system_error>

namespace zeropp {

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ExitCode::environment, "out of memory: use a smaller model or batch, or more ranks"};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      return {ExitCode::environment, fmt::format("unexpected: {}", error.what())};
    }
    return {ExitCode::environment,
            fmt::format("a thread cannot be started: {}; raise the limit of processes (ulimit -u), "
                        "or start fewer ranks a machine",
                        error.what())};
  } catch (const std::exception& error) {
    return {ExitCode::environment, fmt::format("unexpected: {}", error.what())};
  } catch (...) {
    return {ExitCode::environment, "unexpected: something that is no exception was thrown"};
  }
}

}  // namespace zeropp
