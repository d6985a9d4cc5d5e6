// A host whose streams know how far each has waited for the others: a stream's position is the
// number of time marks set on it, and an event carries all positions that its stream has seen. The
// order of work on a GPU shows then where all work is done at once. One device a process at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/device/device.hpp"

namespace zeropp::test {

class StreamPositions {
 public:
  /// Streams and events of earlier devices are gone.
  static Device device() {
    streams().clear();
    events().clear();
    static const Runtime runtime = [] {
      Runtime made = host_runtime();
      made.make_stream = [](const char* name, StreamPriority) -> void* {
        return streams().emplace_back(std::make_unique<Stream>(Stream{name, {}})).get();
      };
      made.release_stream = [](void*) noexcept {};
      made.make_event = []() -> void* {
        return events().emplace_back(std::make_unique<Seen>()).get();
      };
      made.release_event = [](void*) noexcept {};
      made.record = [](void* event, void* stream) { *static_cast<Seen*>(event) = seen(stream); };
      made.wait = [](void* stream, void* event) {
        if (stream == nullptr) return;  // the host's
        for (const auto& [name, position] : *static_cast<const Seen*>(event)) {
          std::size_t& own = static_cast<Stream*>(stream)->seen[name];
          own = std::max(own, position);
        }
      };
      made.set_mark = [](void* mark, void* stream) {
        host_runtime().set_mark(mark, stream);
        if (stream != nullptr)
          ++static_cast<Stream*>(stream)->seen[static_cast<Stream*>(stream)->name];
      };
      return made;
    }();
    Device made = Device::host();
    made.runtime = &runtime;
    return made;
  }

  /// Position of the stream `other` that work enqueued on `stream` from now on begins after.
  static std::size_t waited(StreamHandle stream, const std::string& other) {
    return seen(stream.native)[other];
  }

 private:
  using Seen = std::map<std::string, std::size_t>;  ///< by stream: position
  struct Stream {
    std::string name;
    Seen seen;
  };

  static Seen seen(void* stream) {
    return stream == nullptr ? Seen{} : static_cast<const Stream*>(stream)->seen;
  }
  static std::vector<std::unique_ptr<Stream>>& streams() {
    static std::vector<std::unique_ptr<Stream>> all;
    return all;
  }
  static std::vector<std::unique_ptr<Seen>>& events() {
    static std::vector<std::unique_ptr<Seen>> all;
    return all;
  }
};

}  // namespace zeropp::test
