// A group of ranks that moves bytes, and the vendor's own collectives. It knows nothing of codecs
// or shapes: lib/collective composes. Operations start non-blocking and complete in Work::wait():
// MPI completes its requests there (funneled, no progress thread); NCCL makes the stream wait for
// an event. All ranks of a group start operations in the same order. Memory handed to an operation
// belongs to it until wait() returns. Counting: `sent` grows by the bytes of every message to
// another rank, by link class, when it is started.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/stream.hpp"
#include "lib/comm/native_call.hpp"
#include "lib/comm/shape.hpp"
#include "lib/comm/topology.hpp"
#include "lib/comm/traffic.hpp"

namespace zeropp::comm {

struct Send {
  const std::byte* data;
  std::size_t bytes;
  int peer;  ///< rank in the group
};
struct Receive {
  std::byte* data;
  std::size_t bytes;
  int peer;  ///< rank in the group
};

/// An operation in flight. Destroying one that was not waited for is a programming error
/// (terminates).
class Work {
 public:
  virtual ~Work() = default;
  /// Completes the operation with respect to `stream`, which need not be the one that it was
  /// started on: what is enqueued there from now on finds it done. Throws Error(environment).
  virtual void wait(StreamHandle stream) = 0;
};

/// Memory that a group's ranks may write into; until it is destroyed, which is before the memory is
/// freed and before the communicator is.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  virtual ~RegisteredMemory() = default;
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
};

/// A group, as one of its ranks sees it.
struct Membership {
  std::string name;  ///< "world", "node", "rail", "secondary", "shard" or "replica": as in traces
  int rank = 0;
  std::vector<LinkClass> links;  ///< to every rank of the group
};

class Communicator {
 public:
  explicit Communicator(Membership member) : member_(std::move(member)) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] const Membership& member() const { return member_; }
  [[nodiscard]] const std::string& name() const { return member_.name; }
  [[nodiscard]] int rank() const { return member_.rank; }
  [[nodiscard]] int size() const { return static_cast<int>(member_.links.size()); }
  [[nodiscard]] LinkClass link_to(int peer) const {
    return member_.links.at(static_cast<std::size_t>(peer));
  }
  /// Shape of the group, which closed forms of collectives are made of.
  [[nodiscard]] GroupShape shape() const;

  /// Starts all sends and receives as one operation. Messages between one pair of ranks match in
  /// order. Messages to the own rank are allowed (copied, not counted). Zero bytes: no message.
  [[nodiscard]] virtual std::unique_ptr<Work> exchange(std::span<const Send> sends,
                                                       std::span<const Receive> receives,
                                                       StreamHandle stream, Bytes& sent) = 0;

  /// An all-to-all of equal pieces, which a communicator may carry otherwise than exchange(); bytes
  /// are counted alike. Piece p of `out`, `bytes` long, lies p * `bytes` after the first and goes
  /// to rank p; piece p of `in` comes from rank p. The own piece is copied.
  [[nodiscard]] virtual std::unique_ptr<Work> exchange_equal(const std::byte* out, std::byte* in,
                                                             std::size_t bytes, StreamHandle stream,
                                                             Bytes& sent);
  /// An all-gather whose own piece lies in `pieces` already, at rank() * `stride`: it goes to every
  /// other rank, and theirs come to their places. Carried and counted as exchange_equal() is.
  [[nodiscard]] virtual std::unique_ptr<Work> all_gather_in_place(std::byte* pieces,
                                                                  std::size_t stride,
                                                                  std::size_t bytes,
                                                                  StreamHandle stream, Bytes& sent);
  /// Collective: every rank registers as much memory (of Buffer::registrable()), and calls
  /// exchange_equal() and all_gather_in_place() at the same places in it. Large pieces need no
  /// kernel then. Null where the group has no use for it; Error(environment) where it was made to
  /// use it and cannot.
  [[nodiscard]] virtual std::unique_ptr<RegisteredMemory> register_memory(
      std::span<std::byte> /*memory*/) {
    return nullptr;
  }

  /// Starts one of the vendor's own collectives; its bytes are not counted here. Throws
  /// Error(environment) where the views do not fit, or lie where the communicator does not reach.
  [[nodiscard]] virtual std::unique_ptr<Work> native_collective(const NativeCall& call,
                                                                StreamHandle stream) = 0;

 protected:
  struct Messages {
    std::vector<Send> sends;
    std::vector<Receive> receives;
  };
  /// The messages of an all-to-all of equal pieces, as of exchange_equal().
  [[nodiscard]] Messages equal_pieces(const std::byte* out, std::byte* in, std::size_t bytes) const;

 private:
  Membership member_;
};

/// Messages to the own rank, which every communicator copies itself: those to `self` that have
/// bytes, with their receives: they match in order, as they do in MPI. Throws Error(environment)
/// where sizes differ or a receive is missing.
std::vector<std::pair<Send, Receive>> self_messages(std::span<const Send> sends,
                                                    std::span<const Receive> receives, int self);

}  // namespace zeropp::comm
