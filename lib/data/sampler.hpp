// Cuts a token source into batches. Training sequences begin at random places that depend only on
// (seed, step, number of the sequence in the step): any rank draws its own without asking, and a
// step reads the same sequences however they are spread over ranks and micro-steps. Held-out
// sequences follow one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/data/token_source.hpp"

namespace zeropp::data {

/// `sequences` rows of tokens and the token that follows each.
struct TokenBatch {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::vector<std::int32_t> tokens;   ///< sequences * length
  std::vector<std::int32_t> targets;  ///< sequences * length
};

/// Rank whose rows of the global batch a call is about.
struct DataRank {
  std::size_t rank = 0;
  std::size_t world_size = 1;
};

class Sampler {
 public:
  /// `source` outlives the sampler; a sequence has a token at least. Throws Error(usage) when the
  /// training or the held-out part is shorter than one sequence and its last target.
  Sampler(const TokenSource& source, std::uint64_t seed, std::size_t seq_length,
          std::size_t micro_batch);

  /// The micro-batch of a rank: sequences number (micro_step * world_size + rank) * micro_batch
  /// and following of the step.
  void train(std::uint64_t step, std::size_t micro_step, DataRank rank, TokenBatch& batch) const;

  /// Full held-out batches of every rank, the same number on all. Throws Error(usage) when there is
  /// not even one.
  [[nodiscard]] std::size_t held_out_batches(std::size_t world_size) const;
  /// Batch `index` of a rank: sequences number (index * world_size + rank) * micro_batch and
  /// following of the held-out part.
  void held_out(std::size_t index, DataRank rank, TokenBatch& batch) const;

 private:
  void resize(TokenBatch& batch) const;
  /// Row `row` of the batch: tokens from `first` on, and the targets one further.
  void fill(Part part, std::size_t first, std::size_t row, TokenBatch& batch) const;
  [[nodiscard]] std::size_t held_out_sequences() const {
    return (source_.tokens(Part::held_out) - 1) / seq_length_;
  }

  const TokenSource& source_;
  std::uint64_t key_;
  std::size_t seq_length_;
  std::size_t micro_batch_;
};

}  // namespace zeropp::data
