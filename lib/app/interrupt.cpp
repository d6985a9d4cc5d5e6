#include "lib/app/interrupt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

namespace zeropp::app {
namespace {

constexpr std::array<int, 3> kHandled{SIGUSR1, SIGTERM, SIGINT};  ///< what counts more comes later

volatile std::sig_atomic_t signal_received = 0;

extern "C" void remember(int signal) { signal_received = signal; }

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  for (const int signal : kHandled) sigaction(signal, &action, nullptr);
}

int interrupted() { return signal_received; }

int agreed_interrupt(comm::Control& control) {
  const int own = interrupted();
  const auto place = std::ranges::find(kHandled, own);
  std::array<double, 1> weight{
      place == kHandled.end() ? 0.0 : 1.0 + static_cast<double>(place - kHandled.begin())};
  control.all_reduce_max(weight);
  return weight[0] == 0 ? 0 : kHandled.at(static_cast<std::size_t>(weight[0]) - 1);
}

const char* name_of_interrupt(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    default: return "SIGUSR1";
  }
}

comm::AgreedError nothing_kept(int signal, const std::string& where) {
  return {
      signal == SIGINT ? ExitCode::interrupted : ExitCode::requeue,
      fmt::format("interrupted by {} at {}: nothing was written; start again to run it whole",
                  name_of_interrupt(signal), where),
      0};
}

}  // namespace zeropp::app
