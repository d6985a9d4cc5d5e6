// Runs a command where there are as many GPUs as it needs; elsewhere says so and exits with 77,
// before any launcher or interpreter was started. usage: needs_gpus COUNT COMMAND [WORD...]
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "tests/support/gpu.hpp"

int main(int argc, char** argv) {
  using namespace zeropp;
  const std::string_view count = argc > 2 ? argv[1] : "";
  std::size_t needed = 0;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), needed);
  if (error != std::errc{} || end != count.data() + count.size()) {
    std::fprintf(stderr, "usage: needs_gpus COUNT COMMAND [WORD...]\n");
    return 2;
  }
  if (const std::string reason = test::lacking_gpus(needed); !reason.empty()) {
    test::print_skipped(reason);
    return test::kSkipped;
  }
  execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 2;
}
