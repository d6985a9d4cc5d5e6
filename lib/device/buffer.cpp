#include "lib/device/buffer.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"

namespace zeropp {

namespace {
constexpr std::size_t kAlignment = 256;
}

Buffer::Buffer(std::size_t bytes, MemoryKind kind) : bytes_(bytes), kind_(kind) {
  if (kind != MemoryKind::host) {
    throw Error(ExitCode::environment,
                "this build has no device memory: configure with -DZEROPP_ENABLE_CUDA=ON");
  }
  if (bytes == 0) return;
  auto* pointer =
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes, kAlignment)));
  if (pointer == nullptr) {
    throw Error(ExitCode::environment,
                "no memory for " + std::to_string(bytes) +
                    " bytes: use fewer ranks on this host or a smaller model");
  }
  memory_ = {pointer, Free{kind}};
}

void Buffer::Free::operator()(std::byte* pointer) const noexcept { std::free(pointer); }

Buffer Buffer::zeros(std::size_t count, Dtype dtype, MemoryKind kind) {
  Buffer buffer(count * size_of(dtype), kind);
  if (buffer.bytes() > 0) std::memset(buffer.data(), 0, buffer.bytes());
  return buffer;
}

}  // namespace zeropp
