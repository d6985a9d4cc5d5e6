#include "lib/app/interrupt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

namespace zeropp::app {
namespace {

constexpr std::array<int, 3> kHandled{SIGUSR1, SIGTERM, SIGINT};  ///< what counts more comes later

/// Flags that say of each signal whether it came: handlers that interrupt each other write nothing
/// that the other does.
std::array<volatile std::sig_atomic_t, kHandled.size()> received{};

std::size_t place_of(int signal) {
  return static_cast<std::size_t>(std::ranges::find(kHandled, signal) - kHandled.begin());
}

extern "C" void remember(int signal) { received[place_of(signal)] = 1; }

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  for (const int signal : kHandled) sigaction(signal, &action, nullptr);
}

int more_pressing(int a, int b) {
  if (a == 0 || b == 0) return a == 0 ? b : a;
  return place_of(a) < place_of(b) ? b : a;
}

int interrupted() {
  for (std::size_t place = kHandled.size(); place-- > 0;) {
    if (received[place] != 0) return kHandled.at(place);
  }
  return 0;
}

int agreed_interrupt(comm::Control& control) {
  const std::array<double, 1> own{static_cast<double>(interrupted())};
  int agreed = 0;
  for (const double one : control.all_gather(own)) {
    agreed = more_pressing(agreed, static_cast<int>(one));
  }
  return agreed;
}

const char* name_of_interrupt(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGUSR1";
  }
}

comm::AgreedError nothing_kept(int signal, const std::string& where) {
  return {signal == SIGINT ? ExitCode::interrupted : ExitCode::requeue,
          fmt::format("interrupted by {} at {}: nothing was written; start again to run it whole",
                      name_of_interrupt(signal), where),
          0};
}

}  // namespace zeropp::app
