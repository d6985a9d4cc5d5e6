// A sample of a step's reductions, to be computed a second time on another way: the gradients that
// ranks give to one bucket's reduction and what error feedback adds to them are kept before it, its
// sum after it; the ranks tell each other, over the control plane, and the host's plain codecs
// (lib/collective/reference.hpp) give the sum that has to be there, to the bit. Samples go over
// buckets, micro-steps, ranks and parts of their sums in rotation, since a sample of everything
// would cost as much as the reductions: of a bucket that is not larger than kElements, one sample
// has everything. Owns page-locked memory of the host; the values of a sample are there when the
// streams have come past keep_input() and keep_sum().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/collective/reference.hpp"
#include "lib/comm/groups.hpp"
#include "lib/device/buffer.hpp"
#include "lib/device/device.hpp"
#include "lib/zero/communication/gradient_errors.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

class ReductionSample {
 public:
  /// Gradients of all ranks that a sample has at most.
  static constexpr std::size_t kElements = std::size_t{1} << 18U;

  /// A sum that is not what the ranks' gradients add up to.
  struct Wrong {
    int rank;          ///< in the world, that has it
    std::size_t unit;  ///< of its first wrong element
  };

  /// Arguments as of GradientReduce; `quantum`: bucket_quantum(). All outlive this.
  ReductionSample(const Options& options, const CodecTable& codecs,
                  const std::vector<UnitPartition>& units, const std::vector<Bucket>& buckets,
                  const comm::Groups& groups, std::size_t quantum, const Device& device);

  /// Begins sample `number`.
  void begin(std::uint64_t number);
  /// Whether the sample is of the reduction of this bucket in this micro-step.
  [[nodiscard]] bool is_of(std::size_t bucket, std::size_t micro_step) const {
    return bucket == bucket_ && micro_step == micro_step_;
  }
  /// Keeps the own gradients of the sampled bucket, before its reduction starts. `codec`: index of
  /// its codecs in the table; `draws`: gradient_draws() of the reduction.
  void keep_input(std::span<const View> gradients, const GradientErrors& errors, std::size_t codec,
                  std::uint64_t draws, StreamHandle stream);
  /// Keeps the own sum, Bucket::count() elements, after its reduction.
  void keep_sum(ConstView sum, StreamHandle stream) const;

  /// Words that the sample takes of every rank, and this rank's.
  [[nodiscard]] std::size_t words() const { return rows() * row_words(); }
  void append_to(std::vector<std::uint64_t>& message) const;
  /// The first sum that is wrong, from the words of all ranks in rank order, `stride` words apart;
  /// all ranks find the same. Sums that a vendor's library made, in an order of its own, and those
  /// of codecs that the reference follows only within their bounds, are right within these bounds.
  [[nodiscard]] std::optional<Wrong> judge(std::span<const std::uint64_t> all,
                                           std::size_t stride) const;

 private:
  /// How sums are compared.
  enum class Sameness : std::uint8_t { bits, bound, unknown };
  /// Rows of length_ values that a rank gives: for each destination the gradients, then what each
  /// hop feeds back; and the own sum.
  [[nodiscard]] std::size_t rows() const { return destinations_ * (1 + hops_) + 1; }
  [[nodiscard]] std::size_t row_bytes() const;
  [[nodiscard]] std::size_t row_words() const { return (length_ + 1) / 2; }
  [[nodiscard]] std::size_t shards() const {
    return static_cast<std::size_t>(topology_.world_size);
  }
  [[nodiscard]] std::size_t destination(std::size_t i) const {
    return (first_destination_ + i) % shards();
  }
  [[nodiscard]] Sameness sameness(const collective::ReduceScatterPlan& plan) const;
  [[nodiscard]] std::size_t unit_at(std::size_t element) const;
  void keep_errors(const collective::HopErrors& errors, std::size_t part, std::size_t row,
                   StreamHandle stream) const;
  /// The words of all ranks, `stride` apart.
  struct Rows {
    std::span<const std::uint64_t> words;
    std::size_t stride;
  };
  [[nodiscard]] std::vector<float> row_of(const Rows& rows, std::size_t rank,
                                          std::size_t index) const;
  /// The first wrong element of the sum of destination `number` in a group of ranks.
  [[nodiscard]] std::optional<std::size_t> first_wrong(const Collective& made, Sameness same,
                                                       const Rows& rows, std::size_t group,
                                                       std::size_t number) const;

  const Options& options_;
  const CodecTable& codecs_;
  const std::vector<UnitPartition>& units_;
  const std::vector<Bucket>& buckets_;
  const comm::Topology& topology_;  ///< of the ranks that share a copy
  std::size_t groups_;              ///< of such ranks
  std::size_t rank_;                ///< among these
  std::size_t quantum_;
  Device device_;
  std::optional<collective::FeedbackOptions> feedback_;
  std::size_t hops_;  ///< that may feed errors back

  // The sample.
  std::size_t bucket_ = 0;
  std::size_t micro_step_ = 0;
  std::size_t first_ = 0;   ///< element of each part at which it begins
  std::size_t length_ = 0;  ///< of a part
  std::size_t first_destination_ = 0;
  std::size_t destinations_ = 0;  ///< ranks whose sums it is of
  std::size_t codec_ = 0;
  std::uint64_t draws_ = 0;
  Buffer values_;  ///< by row: gradients in their dtype, errors as wire images, the sum in fp32
};

}  // namespace zeropp::zero
