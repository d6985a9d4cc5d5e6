// A decoder as a model of the ZeRO engine: GPT-2 (Radford et al., 2019) or, with other parts, Llama
// (Touvron et al., arXiv 2302.13971). Pre-norm blocks of causal self-attention and an MLP; every
// token predicts the next; the head is tied to the token embedding or its own. Explicit forward and
// backward on a back end's table of operations; it owns its activations, the caller the weights
// (compute dtype) and gradients (fp32). It allocates when it is made and never after.
//
// With recompute_activations a block keeps its input alone, and its backward first fills the rest
// again, by the same operations on the same values: the bits of all results are those without it.
// Not run again are the block's last product, whose output is the next block's input, and the block
// that ran forward last, whose activations are still there. With cpu_checkpointing most of these
// inputs are on the host in the meantime (KeptInputs).
//
// Units and layers: "embedding" (wte, and wpe of GPT-2), "h.0" .. "h.<L-1>", "head" (ln_f, and
// lm_head when not tied). A tied head is a layer of the units head and embedding. Matrices are
// [out, in]. Initialisation as GPT-2: normal 0.02, projections into the residual stream 0.02 /
// sqrt(2 L).
#pragma once

#include <optional>
#include <vector>

#include "kernels/nn/nn_ops.hpp"
#include "lib/model/batch_input.hpp"
#include "lib/model/context.hpp"
#include "lib/model/kept_inputs.hpp"
#include "lib/model/options.hpp"
#include "lib/model/transformer_activations.hpp"
#include "lib/model/transformer_sizes.hpp"
#include "lib/model/transformer_units.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/zero/plan/unit_model.hpp"

namespace zeropp::model {

/// Puts the matrix products of the network's operations under Category::matmul of the trace's
/// timers. The caller holds a Category::nn scope around the operations.
class ProductTimer final : public nn::ProductObserver {
 public:
  explicit ProductTimer(trace::Timers& timers) : timers_(timers) {}
  void enter() override { scope_.emplace(timers_, trace::Timers::Category::matmul); }
  void leave() override { scope_.reset(); }

 private:
  trace::Timers& timers_;
  std::optional<trace::Timers::Scope> scope_;
};

class Transformer final : public zero::UnitModel {
 public:
  /// Batches hold at most context.micro_batch sequences of at most options.seq_length tokens.
  /// `options` has passed validate(). Throws Error: sizes beyond the arithmetic, no memory.
  Transformer(const Options& options, const Context& context);

  [[nodiscard]] const std::vector<zero::Unit>& units() const override { return units_; }
  [[nodiscard]] const std::vector<zero::Layer>& layers() const override { return layers_; }

  /// Copies tokens and targets. Throws Error(usage) for a batch over the limits or a token outside
  /// the vocabulary.
  void begin(const zero::Batch& batch, bool train, StreamHandle stream) override;
  void forward(std::size_t layer, std::span<const ConstView> weights, StreamHandle stream) override;
  void backward(std::size_t layer, std::span<const ConstView> weights,
                std::span<const zero::Gradient> gradients, StreamHandle stream) override;
  void take_loss(double* loss, StreamHandle stream) override;
  [[nodiscard]] double flops_per_token() const override {
    return transformer_flops_per_token(options_, vocab_);
  }
  [[nodiscard]] double hardware_flops_per_token() const override {
    return transformer_hardware_flops_per_token(options_, vocab_);
  }
  [[nodiscard]] std::string kernels() const override { return kernels_; }
  [[nodiscard]] zero::MemoryReport memory() const override;
  [[nodiscard]] std::vector<zero::MemoryReport> offloaded_memory() const override;

 private:
  [[nodiscard]] std::size_t rows() const { return sequences_ * length_; }
  [[nodiscard]] nn::LinearShape linear(std::size_t in, std::size_t out) const {
    return {rows(), in, out};
  }
  [[nodiscard]] nn::NormShape norm() const {
    return {rows(), options_.hidden_size, static_cast<float>(options_.norm_eps)};
  }
  [[nodiscard]] nn::AttentionShape attention() const {
    return {.sequences = sequences_,
            .length = length_,
            .heads = options_.num_attention_heads,
            .kv_heads = kv_heads(options_),
            .head_width = head_width(options_),
            .longest = options_.seq_length,
            .deterministic = deterministic_};
  }
  [[nodiscard]] nn::EmbeddingShape embedding() const {
    return {sequences_, length_, vocab_, options_.hidden_size};
  }
  [[nodiscard]] nn::LinearShape head() const {
    return {rows(), options_.hidden_size, vocab_, ops_.logits_stride(vocab_)};
  }
  /// Context of operations on `stream`.
  [[nodiscard]] nn::NnContext on(StreamHandle stream);

  /// Sum in which the back end adds up the losses.
  [[nodiscard]] double* loss_sum() const { return loss_.view(2, Dtype::fp32).as<double>(); }

  void forward_block(const nn::NnContext& context, std::size_t block, ConstView weights);
  /// All of a block's forward but the last product: what its backward reads.
  void fill(const nn::NnContext& context, std::size_t block, ConstView weights);
  void backward_block(const nn::NnContext& context, std::size_t block, ConstView weights,
                      const zero::Gradient& gradient);
  void forward_head(const nn::NnContext& context, std::span<const ConstView> weights);
  void backward_head(const nn::NnContext& context, std::span<const ConstView> weights,
                     std::span<const zero::Gradient> gradients);
  /// Place of the head's matrix [V, C] among the units that its layer reads.
  struct HeadMatrix {
    std::size_t position;  ///< in the layer's units
    std::size_t unit;
    Role role;
  };
  /// The token table of a tied head, else its own.
  [[nodiscard]] HeadMatrix head_matrix() const {
    return options_.tied_head ? HeadMatrix{1, 0, kTokenTable}
                              : HeadMatrix{0, units_.size() - 1, kHeadWeight};
  }
  /// The tensor of that role in the flat buffer of unit `unit`; empty where the model has none.
  template <class AnyView>
  [[nodiscard]] AnyView tensor(std::size_t unit, const AnyView& flat, Role role) const {
    return places_.tensor(units_[unit], flat, role);
  }

  Options options_;
  Parts parts_;
  std::size_t micro_batch_;
  std::size_t vocab_;
  const nn::NnOps& ops_;
  const MemoryOps& memory_ops_;
  trace::Timers& timers_;
  ProductTimer products_;
  bool deterministic_;
  bool autotune_;
  TensorPlaces places_;
  std::vector<zero::Unit> units_;
  std::vector<zero::Layer> layers_;
  TransformerActivations activations_;
  KeptInputs kept_inputs_;
  BatchInput input_;
  Buffer workspace_;
  Buffer loss_;  ///< one fp64: sum over micro-batches, until taken
  std::size_t predicted_bytes_;
  std::size_t predicted_offloaded_bytes_;
  std::string kernels_;

  std::size_t sequences_ = 0;  ///< of the micro-batch that began
  std::size_t length_ = 0;
  bool train_ = false;
  float loss_scale_ = 1.0F;
};

}  // namespace zeropp::model
