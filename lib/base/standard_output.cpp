#include "lib/base/standard_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/error.hpp"

namespace zeropp::standard_output {
namespace {

int first_error = 0;

/// Waits until a descriptor that does not block takes bytes again: programs that start others leave
/// pipes in that state.
void wait_for_room() {
  pollfd item{STDOUT_FILENO, POLLOUT, 0};
  (void)::poll(&item, 1, -1);
}

}  // namespace

void claim_descriptors() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(standard, F_GETFD) >= 0 || errno != EBADF) continue;
    // Open for the other direction: its use fails with EBADF, as that of a closed one does.
    const int flags = standard == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    (void)::open("/dev/null", flags);  // the lowest number that is free: this one
  }
}

void write(std::string_view text) {
  while (!text.empty() && first_error == 0) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      wait_for_room();
    } else if (errno != EINTR) {
      first_error = errno;
    }
  }
}

void require_written() {
  const int error = std::exchange(first_error, 0);
  if (error == 0) return;
  throw Error(ExitCode::io,
              fmt::format("cannot write to standard output: {}; what is missing there is lost: "
                          "free space, or send it elsewhere, and start again",
                          error == EBADF ? "it is closed" : std::strerror(error)));
}

}  // namespace zeropp::standard_output
