// Transfers of one planned collective, and the account of them: bytes and seconds of a run go to
// the trace row of its phase, time to the timers (`communication` around transfers, `codec` around
// kernels). One per plan.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/core/stream.hpp"
#include "lib/comm/communicator.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::collective {

class Meter {
 public:
  /// `recorder` outlives this.
  Meter(trace::Recorder& recorder, trace::CollectiveRow keys)
      : recorder_(recorder), keys_(std::move(keys)) {}

  /// The row of the latest run; before the first one its keys.
  [[nodiscard]] const trace::CollectiveRow& row() const { return row_ != nullptr ? *row_ : keys_; }

  /// Counts a run that begins, in the row of `phase`.
  void begin_run(std::string_view phase, std::uint64_t logical_bytes);
  void count_wire(const comm::Bytes& bytes) const {
    row_->wire_bytes_intra += bytes.intra;
    row_->wire_bytes_inter += bytes.inter;
  }

  /// The scope of start() or finish(), after begin_run(): its wall time is the row's.
  class Span {
   public:
    explicit Span(Meter& meter) : row_(*meter.row_) {}
    ~Span() { row_.seconds += std::chrono::duration<double>(Clock::now() - begin_).count(); }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    trace::CollectiveRow& row_;
    Clock::time_point begin_ = Clock::now();
  };

  /// Runs codec kernels.
  template <class Kernels>
  void kernels(Kernels&& run) {
    const trace::Timers::Scope scope(recorder_.timers, trace::Timers::Category::codec);
    run();
  }

  /// Runs what waits for other ranks, or makes a stream wait for them.
  template <class Waits>
  void communication(Waits&& run) {
    const trace::Timers::Scope scope(recorder_.timers, trace::Timers::Category::communication);
    run();
  }

  // Transfers over equal pieces of memory. Their bytes are counted.
  /// Starts an all-to-all: piece p of `out` goes to rank p, piece p of `in` comes from rank p, the
  /// own piece included.
  [[nodiscard]] std::unique_ptr<comm::Work> exchange_equal(comm::Communicator& group,
                                                           const std::byte* out, std::byte* in,
                                                           std::size_t bytes, StreamHandle stream);
  /// Starts an all-gather: piece `rank` of `pieces` goes to every other rank; piece p, which begins
  /// p * `stride` after the first, comes from rank p.
  [[nodiscard]] std::unique_ptr<comm::Work> all_gather_in_place(comm::Communicator& group,
                                                                std::byte* pieces,
                                                                std::size_t stride,
                                                                std::size_t bytes,
                                                                StreamHandle stream);
  /// Starts one step of a ring: `out` goes to the next rank, `in` comes from the one before.
  [[nodiscard]] std::unique_ptr<comm::Work> ring_step(comm::Communicator& group,
                                                      const std::byte* out, std::byte* in,
                                                      std::size_t bytes, StreamHandle stream);
  /// Starts another transfer, whose bytes the caller counts: `start` returns its Work.
  template <class Start>
  [[nodiscard]] std::unique_ptr<comm::Work> transfer(Start&& start) {
    const trace::Timers::Scope scope(recorder_.timers, trace::Timers::Category::communication);
    return start();
  }
  /// Waits for the work and drops it; `stream` is the one that uses the received data.
  void wait(std::unique_ptr<comm::Work>& work, StreamHandle stream) {
    const trace::Timers::Scope scope(recorder_.timers, trace::Timers::Category::communication);
    work->wait(stream);
    work.reset();
  }

 private:
  /// Starts a transfer whose communicator counts the bytes: `start` is given the count that it adds
  /// to.
  template <class Start>
  [[nodiscard]] std::unique_ptr<comm::Work> counted(Start&& start) {
    comm::Bytes sent;
    auto work = transfer([&] { return start(sent); });
    count_wire(sent);
    return work;
  }

  trace::Recorder& recorder_;
  trace::CollectiveRow keys_;            ///< of the latest run
  trace::CollectiveRow* row_ = nullptr;  ///< of the latest run; null: none yet
};

}  // namespace zeropp::collective
