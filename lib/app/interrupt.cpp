#include "lib/app/interrupt.hpp"

#include <fmt/format.h>

#include <array>
#include <csignal>

namespace zeropp::app {
namespace {

volatile std::sig_atomic_t signal_received = 0;

extern "C" void remember(int signal) { signal_received = signal; }

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

int interrupted() { return signal_received; }

void stop_if_interrupted(comm::Control& control, const std::string& where) {
  std::array<double, 1> signal{static_cast<double>(interrupted())};
  control.all_reduce_max(signal);
  if (signal[0] == 0) return;
  throw comm::AgreedError(
      ExitCode::interrupted,
      fmt::format("interrupted by {} at {}: nothing was written; start again to run it whole",
                  static_cast<int>(signal[0]) == SIGINT ? "SIGINT" : "SIGTERM", where),
      0);
}

}  // namespace zeropp::app
