#include "lib/data/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/core/counter_rng.hpp"
#include "lib/base/error.hpp"

namespace zeropp::data {

namespace {
// Keeps the draws apart from others that are keyed by the same seed.
constexpr std::uint64_t kPurpose = 0x73616D706C657220U;
}  // namespace

Sampler::Sampler(const TokenSource& source, std::uint64_t seed, std::size_t seq_length,
                 std::size_t micro_batch)
    : source_(source), key_(seed ^ kPurpose), seq_length_(seq_length), micro_batch_(micro_batch) {
  for (const Part part : {Part::train, Part::held_out}) {
    if (source.tokens(part) > seq_length) continue;
    throw Error(ExitCode::usage,
                fmt::format("the {} part of token source '{}' has {} tokens, and one sequence "
                            "takes {}: use a longer file or a smaller --seq-length",
                            part == Part::train ? "training" : "held-out", source.description(),
                            source.tokens(part), seq_length + 1));
  }
}

void Sampler::resize(TokenBatch& batch) const {
  batch.sequences = micro_batch_;
  batch.length = seq_length_;
  batch.tokens.resize(micro_batch_ * seq_length_);
  batch.targets.resize(micro_batch_ * seq_length_);
}

void Sampler::fill(Part part, std::size_t first, std::size_t row, TokenBatch& batch) const {
  const auto tokens = std::span(batch.tokens).subspan(row * seq_length_, seq_length_);
  const auto targets = std::span(batch.targets).subspan(row * seq_length_, seq_length_);
  source_.read(part, first, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  source_.read(part, first + seq_length_, targets.last(1));
}

void Sampler::train(std::uint64_t step, std::size_t micro_step, DataRank rank,
                    TokenBatch& batch) const {
  resize(batch);
  const std::size_t places = source_.tokens(Part::train) - seq_length_;
  const std::size_t first = (micro_step * rank.world_size + rank.rank) * micro_batch_;
  for (std::size_t row = 0; row < micro_batch_; ++row) {
    const Random4 draw = philox4x32(key_, first + row, step);
    const std::uint64_t wide = (std::uint64_t{draw.word[1]} << 32U) | draw.word[0];
    fill(Part::train, wide % places, row, batch);
  }
}

std::size_t Sampler::held_out_batches(std::size_t world_size) const {
  const std::size_t batches = held_out_sequences() / (micro_batch_ * world_size);
  if (batches == 0) {
    throw Error(
        ExitCode::usage,
        fmt::format(
            "the held-out part of token source '{}' has {} sequences, and one batch of all {} "
            "ranks takes {}: use a longer file, or a smaller --micro-batch-size or --seq-length",
            source_.description(), held_out_sequences(), world_size, micro_batch_ * world_size));
  }
  return batches;
}

void Sampler::held_out(std::size_t index, DataRank rank, TokenBatch& batch) const {
  resize(batch);
  const std::size_t first = (index * rank.world_size + rank.rank) * micro_batch_;
  for (std::size_t row = 0; row < micro_batch_; ++row) {
    fill(Part::held_out, (first + row) * seq_length_, row, batch);
  }
}

}  // namespace zeropp::data
