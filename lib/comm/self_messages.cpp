#include "lib/comm/self_messages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/error.hpp"

namespace zeropp::comm {

std::vector<std::pair<Send, Receive>> self_messages(std::span<const Send> sends,
                                                    std::span<const Receive> receives, int self) {
  std::vector<std::pair<Send, Receive>> pairs;
  auto receive = receives.begin();
  for (const Send& send : sends) {
    if (send.peer != self) continue;
    receive = std::find_if(receive, receives.end(),
                           [&](const Receive& candidate) { return candidate.peer == self; });
    if (receive == receives.end() || receive->bytes != send.bytes) {
      throw Error(ExitCode::environment,
                  fmt::format("{} bytes to the own rank have no receive of that size", send.bytes));
    }
    if (send.bytes > 0) pairs.emplace_back(send, *receive);
    ++receive;
  }
  return pairs;
}

}  // namespace zeropp::comm
