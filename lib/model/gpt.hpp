// GPT-2 (Radford et al., 2019) as a model of the ZeRO engine: learned positions, pre-norm blocks,
// tanh-GELU, causal attention, a head that is tied to the token embedding or its own. Explicit
// forward and backward on a back end's table of operations; it owns its activations, the caller the
// weights (fp32 or bf16) and gradients (fp32). It allocates when it is made and never after.
//
// Units and layers: "embedding" (wte, wpe), "h.0" .. "h.<L-1>", "head" (ln_f, and lm_head when not
// tied). A tied head is a layer of the units head and embedding. Matrices are [out, in].
// Initialisation as GPT-2: normal 0.02, projections into the residual stream 0.02 / sqrt(2 L).
#pragma once

#include <vector>

#include "kernels/nn/nn_ops.hpp"
#include "lib/model/batch_input.hpp"
#include "lib/model/context.hpp"
#include "lib/model/gpt_activations.hpp"
#include "lib/model/options.hpp"
#include "lib/model/product_timer.hpp"
#include "lib/zero/unit_model.hpp"

namespace zeropp::model {

class Gpt final : public zero::UnitModel {
 public:
  /// Batches hold at most context.micro_batch sequences of at most options.seq_length tokens.
  /// `options` has passed validate(). Throws Error: sizes beyond the arithmetic, no memory.
  Gpt(const Options& options, const Context& context);

  [[nodiscard]] const std::vector<zero::Unit>& units() const override { return units_; }
  [[nodiscard]] const std::vector<zero::Layer>& layers() const override { return layers_; }

  /// Copies tokens and targets. Throws Error(usage) for a batch over the limits or a token outside
  /// the vocabulary.
  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override;
  void forward(std::size_t layer, std::span<const ConstView> weights, StreamHandle stream) override;
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const View> gradients, StreamHandle stream) override;
  [[nodiscard]] double take_loss() override;
  /// 6 (12 L C^2 + V C) + 12 L T C: two for the multiply and add of each weight of a matrix in
  /// forward and four in backward, and the same for the scores and sums of attention over all T
  /// positions (PaLM's formula, arXiv 2204.02311 appendix B; the masked half is counted).
  [[nodiscard]] double flops_per_token() const override;
  [[nodiscard]] std::string kernels() const override { return kernels_; }
  [[nodiscard]] zero::MemoryReport memory() const override;

 private:
  [[nodiscard]] std::size_t rows() const { return sequences_ * length_; }
  [[nodiscard]] nn::LinearShape linear(std::size_t in, std::size_t out) const {
    return {rows(), in, out};
  }
  [[nodiscard]] nn::AttentionShape attention() const {
    return {sequences_, length_, options_.num_attention_heads, options_.hidden_size,
            options_.seq_length};
  }
  [[nodiscard]] nn::EmbeddingShape embedding() const {
    return {sequences_, length_, vocab_, options_.hidden_size};
  }
  [[nodiscard]] nn::LinearShape head() const {
    return {rows(), options_.hidden_size, vocab_, ops_.logits_stride(vocab_)};
  }
  /// What operations on `stream` are given.
  [[nodiscard]] nn::NnContext on(StreamHandle stream);

  /// Where the back end sums the losses.
  [[nodiscard]] double* loss_sum() const { return loss_.view(2, Dtype::fp32).as<double>(); }

  void forward_block(const nn::NnContext& context, std::size_t block, ConstView weights);
  void backward_block(const nn::NnContext& context, std::size_t block, ConstView weights,
                      View gradients);
  void forward_head(const nn::NnContext& context, std::span<const ConstView> weights);
  void backward_head(const nn::NnContext& context, std::span<const ConstView> weights,
                     std::span<const View> gradients);
  /// The head's matrix [V, C]: the token table of a tied head, else its own.
  template <class AnyView>
  [[nodiscard]] AnyView head_matrix(std::span<const AnyView> units) const;

  Options options_;
  std::size_t micro_batch_;
  std::size_t vocab_;
  const nn::NnOps& ops_;
  trace::Timers& timers_;
  ProductTimer products_;
  bool deterministic_;
  bool autotune_;
  std::vector<zero::Unit> units_;
  std::vector<zero::Layer> layers_;
  GptActivations activations_;
  BatchInput input_;
  Buffer workspace_;
  Buffer loss_;  ///< one fp64: sum over micro-batches, until taken
  std::size_t predicted_bytes_;
  std::string kernels_;

  std::size_t sequences_ = 0;  ///< of the micro-batch that began
  std::size_t length_ = 0;
  bool train_ = false;
  StreamHandle stream_;  ///< of the micro-batch that began
};

}  // namespace zeropp::model
