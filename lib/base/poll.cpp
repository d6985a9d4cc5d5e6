#include "lib/base/poll.hpp"

#include <thread>

namespace zeropp {

void pause_after(Seconds waited) {
  constexpr Seconds kShort{0.02};  // a sleep lasts twice what is asked: it would show in times
  if (waited < kShort) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace zeropp
