// A host one of whose streams, by its name, works as late as it may: what is enqueued there is done
// when another stream waits for it, and all others work at once. A wait that is missing then shows
// in results. One device a process at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/device/device.hpp"

namespace zeropp::test {

class LateRuntime {
 public:
  /// Streams and events of earlier devices are gone.
  static Device device(const std::string& late_stream) {
    late_name() = late_stream;
    late_work().clear();
    events().clear();
    static const Runtime runtime = [] {
      Runtime made = host_runtime();
      made.make_stream = [](const char* name, StreamPriority) -> void* {
        return name == late_name() ? &late_work() : nullptr;
      };
      made.copy = [](std::byte* to, const std::byte* from, std::size_t bytes, void* stream) {
        enqueue(stream, [=] { std::memcpy(to, from, bytes); });
      };
      made.make_event = []() -> void* {
        return events().emplace_back(std::make_unique<EventState>()).get();
      };
      made.record = [](void* event, void* stream) {
        auto* const state = static_cast<EventState*>(event);
        const std::uint64_t number = ++state->recorded;
        enqueue(stream, [=] { state->reached = number; });
      };
      // A wait is for what is recorded now, as on a GPU: later it may be another point.
      made.wait = [](void* stream, void* event) {
        const auto* const state = static_cast<const EventState*>(event);
        const std::uint64_t number = state->recorded;
        if (stream != nullptr) return;  // others have always come there
        while (state->reached < number) do_next();
      };
      return made;
    }();
    Device made = Device::host();
    made.runtime = &runtime;
    return made;
  }

  /// Does the work that nobody waited for.
  static void finish() {
    while (!late_work().empty()) do_next();
  }

 private:
  using Work = std::function<void()>;
  struct EventState {
    std::uint64_t recorded = 0;
    std::uint64_t reached = 0;
  };

  static std::string& late_name() {
    static std::string name;
    return name;
  }
  static std::deque<Work>& late_work() {
    static std::deque<Work> work;
    return work;
  }
  static std::vector<std::unique_ptr<EventState>>& events() {
    static std::vector<std::unique_ptr<EventState>> all;
    return all;
  }
  static void enqueue(void* stream, Work work) {
    if (stream == nullptr) {
      work();
    } else {
      late_work().push_back(std::move(work));
    }
  }
  static void do_next() {
    const Work work = std::move(late_work().front());
    late_work().pop_front();
    work();
  }
};

}  // namespace zeropp::test
