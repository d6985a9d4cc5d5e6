// Connections beside MPI, by which ranks learn of each other's death: rank 0 has one over TCP to
// every other rank. The kernel closes those of a process that ends, however it ends, and messages
// on them need no progress of MPI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zeropp::comm {

/// State of a rank as other ranks see it.
struct RankState {
  std::uint64_t sequence = 0;
  double seconds = 0;        ///< in this state of this operation
  std::int32_t waiting = 0;  ///< 1: the host waits in it
  std::int32_t begun = 0;    ///< 0: no operation yet
  std::array<char, 24> operation{};
  std::array<char, 24> group{};
};

/// Message of a lifeline. One size, plain data: ranks run the same program (lib/app agrees on
/// that).
struct LifeMessage {
  enum class Kind : std::int32_t {
    beat,     ///< I am here
    expired,  ///< to rank 0: what I wait for passed its deadline
    failed,   ///< I end the job with `code`, and have said why
    end,      ///< of rank 0: write the flight record, and end with `code`
    written,  ///< to rank 0: it is written
    goodbye,  ///< I leave in order
  };
  Kind kind = Kind::beat;
  std::int32_t code = 0;
  RankState state;
};

/// One end of a connection; owns the descriptor. Never blocks.
class Lifeline {
 public:
  Lifeline() = default;
  Lifeline(int descriptor, std::string peer_host);
  Lifeline(Lifeline&& other) noexcept;
  Lifeline& operator=(Lifeline&& other) noexcept;
  ~Lifeline();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const std::string& peer_host() const { return peer_host_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  /// The other side has closed it, or its process ended.
  [[nodiscard]] bool is_over() const { return over_; }
  /// Queued where the connection takes no more now: sent with a later one.
  void send(const LifeMessage& message);
  /// The next message that came whole.
  std::optional<LifeMessage> receive();
  /// Ends sending from here on; what the other side sends still comes.
  void finish_sending();
  void close();

 private:
  int descriptor_ = -1;
  std::string peer_host_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  bool over_ = false;
};

}  // namespace zeropp::comm
