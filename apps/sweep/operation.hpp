// Operation of a row: its plans with their memory, the data in it, and one iteration of the
// operation, out of place or in place. Everything is enqueued on the sweep's stream; what reads or
// writes host memory waits for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "apps/sweep/collective.hpp"
#include "lib/app/app.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/workers.hpp"

namespace zeropp::sweep {

/// Context that a sweep runs on. All outlive the measurements.
struct SweepContext {
  const app::Context& context;
  comm::Groups& groups;
  comm::Communicator& group;
  Device device;
  const Stream& stream;
  Workers workers;
};

enum class Mode : std::uint8_t { out_of_place, in_place };

/// One of the operations that an iteration starts together.
struct Slot {
  Buffer workspace;
  Buffer result;
  std::vector<std::unique_ptr<comm::RegisteredMemory>> registered;  ///< of both
  /// Declared last, so that it is destroyed first: transfers that an error left under way are
  /// withdrawn before the memory that they write is freed.
  std::unique_ptr<Planned> plan;
};

class Operation {
 public:
  /// `aggregated`: slots. Refers to its arguments. Throws as Collective::plan() and Buffer do; does
  /// not communicate.
  Operation(const SweepContext& sweep, const Collective& collective, const Shape& shape,
            const Variant& variant, std::size_t aggregated);

  /// Collective, before the first run. All ranks throw AgreedError where one of them cannot.
  void register_memory();
  void set(Mode mode) { mode_ = mode; }
  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }

  /// Makes this rank's values of `data`, times `sign`, the input.
  void send(const Data& data, double sign);
  /// Sends, for runs whose result nobody checks, the first piece of the values again and again,
  /// which takes no time of the CPU for each.
  void send_repeated(const Data& data);
  /// Fills the memory of results with Comparison::kPoison.
  void forget();
  /// Puts the input back where it is read, for runs in place.
  void restore();
  /// Runs one iteration.
  void run();
  /// Runs one iteration that finds its input and nothing else, until it is done.
  void run_alone();

  /// Runs one iteration. Returns what one slot sends in it: counted, or for the vendor's route
  /// predicted.
  [[nodiscard]] comm::Bytes count_traffic();
  /// Whether every run so far sent what is predicted: one that relies on what lies in its result
  /// from the run before sends less, and no value shows it.
  [[nodiscard]] bool sent_as_predicted() const;
  /// Whether the vendor's route is taken, whose bytes are those of a ring.
  [[nodiscard]] bool is_modelled() const;

  /// Calls `body(worker, piece of the result in host memory, index of its first element, part,
  /// first element in the part)` for all that is checked, on the sweep's workers: each calls one at
  /// a time, in order.
  template <class Body>
  void for_each_piece(const Slot& slot, Body&& body) {
    const View result = result_of(slot);
    std::vector<Piece> round;
    const auto end_round = [&] {
      sweep_.stream.synchronize();
      sweep_.workers.parallel_for(round.size(), [&](std::size_t worker, std::size_t i) {
        const Piece& piece = round[i];
        body(worker, staged(i, piece.count, memory_.result_dtype), piece.index, piece.part,
             piece.first);
      });
      round.clear();
    };
    for (std::size_t part = 0; part < collective_.parts(shape_); ++part) {
      const std::size_t length = collective_.part_length(shape_, part);
      for (std::size_t first = 0; first < length; first += kPiece) {
        const Piece piece{part * collective_.part_stride(shape_) + first, part, first,
                          std::min(kPiece, length - first)};
        const View to = staged(round.size(), piece.count, memory_.result_dtype);
        copy(to.data, result.part(piece.index, piece.count).data, to.bytes());
        round.push_back(piece);
        if (round.size() == pieces_of_round()) end_round();
      }
    }
    end_round();
  }

 private:
  /// Elements that are made, copied and compared at once: a multiple of every block.
  static constexpr std::size_t kPiece = std::size_t{1} << 17U;
  struct Piece {
    std::size_t index;
    std::size_t part;
    std::size_t first;  ///< in the part
    std::size_t count;
  };
  /// Number of pieces that lie in host memory together: enough that starting a worker does not
  /// count.
  [[nodiscard]] std::size_t pieces_of_round() const {
    return sweep_.workers.count() == 1 ? 1 : 8 * sweep_.workers.count();
  }
  [[nodiscard]] View staged(std::size_t piece, std::size_t count, Dtype dtype) {
    return staging_.view(count, dtype, piece * kPiece * sizeof(float));
  }

  [[nodiscard]] ConstView input_of(const Slot& slot) const;
  [[nodiscard]] View result_of(const Slot& slot) const;
  [[nodiscard]] comm::Bytes counted() const;
  /// Elements [first, first + length) of the input, from `data` times `sign`, in a slot of the
  /// staging memory.
  [[nodiscard]] View stage(std::size_t slot, const Data& data, double sign, std::size_t first,
                           std::size_t length);
  void copy(void* to, const void* from, std::size_t bytes) const;

  const SweepContext& sweep_;
  const Collective& collective_;
  const Shape& shape_;
  const Variant& variant_;
  Memory memory_;
  trace::Recorder recorder_;
  Buffer staging_;
  Buffer input_;
  std::vector<std::unique_ptr<comm::RegisteredMemory>> registered_input_;
  std::vector<Slot> slots_;
  std::uint64_t runs_ = 0;  ///< of all slots
  Mode mode_ = Mode::out_of_place;
};

}  // namespace zeropp::sweep
