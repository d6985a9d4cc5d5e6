#include "lib/plan/layer_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"

namespace zeropp::plan {

namespace {

double squared_log(std::size_t a, std::size_t b) {
  const double ratio = std::log(static_cast<double>(a) / static_cast<double>(b));
  return ratio * ratio;
}

class Transformer {
 public:
  Transformer(const model::Options& model, std::size_t micro_batch, Dtype compute, const Gpu& gpu)
      : gpu_(gpu),
        rows_(micro_batch * model.seq_length),
        width_(model.hidden_size),
        wide_(model::ffn_width(model)),
        vocab_(model.vocab_size),
        bytes_(static_cast<double>(size_of(compute))),
        attention_(nearest_attention(gpu, model.seq_length,
                                     model.hidden_size / model.num_attention_heads)) {
    // The masked half is not computed: 2 for multiply and add, 2 for scores and sums, 1/2.
    attention_work_ = 2.0 * rows() * static_cast<double>(model.seq_length) * width();
  }

  [[nodiscard]] LayerCost embedding() const {
    // Rows of both tables in, their sum out; backward adds in fp32, read and written.
    return {memory(3 * bytes_ * rows() * width()), memory((8 + bytes_) * rows() * width())};
  }

  /// `again`: backward fills a block's activations first, all but its last product's output.
  [[nodiscard]] LayerCost block(bool again) const {
    const double filled = product_forward(width_, 3 * width_) + product_forward(width_, width_) +
                          product_forward(width_, wide_) + attention_work_ / attention_.forward +
                          2 * layernorm_forward();
    const double backward = product_backward(width_, 3 * width_) +
                            product_backward(width_, width_) + product_backward(width_, wide_) +
                            product_backward(wide_, width_) +
                            2.5 * attention_work_ / attention_.backward + 2 * layernorm_backward();
    return in_step({filled + product_forward(wide_, width_), backward + (again ? filled : 0)});
  }

  /// Mean rest, in seconds, of what a kernel finds when it comes at any time: sum d^2 / (2 sum d)
  /// over the products of a block, forward and backward, of d seconds each.
  [[nodiscard]] double product_rest() const {
    double sum = 0;
    double squares = 0;
    const auto add = [&](double seconds, double kernels) {
      sum += seconds;
      squares += seconds * seconds / kernels;
    };
    for (const auto& [in, out] : {std::pair{width_, 3 * width_}, std::pair{width_, width_},
                                  std::pair{width_, wide_}, std::pair{wide_, width_}}) {
      add(product_forward(in, out), 1);
      add(product_backward(in, out), 2);
    }
    return squares / (2 * sum) / gpu_.step_share;
  }

  [[nodiscard]] LayerCost head() const {
    const double logits = rows() * static_cast<double>(vocab_);
    // Losses and their gradients in one pass over the logits, which are read and written.
    return in_step(
        {product_forward(width_, vocab_) + layernorm_forward() + memory(2 * bytes_ * logits),
         product_backward(width_, vocab_) + layernorm_backward()});
  }

 private:
  [[nodiscard]] double rows() const { return static_cast<double>(rows_); }
  [[nodiscard]] double width() const { return static_cast<double>(width_); }
  [[nodiscard]] double memory(double bytes) const { return bytes / gpu_.memory_rate; }
  [[nodiscard]] double layernorm_forward() const { return memory(2 * bytes_ * rows() * width()); }
  /// Input, the gradient, the one that is added to, and the result.
  [[nodiscard]] double layernorm_backward() const { return memory(4 * bytes_ * rows() * width()); }
  [[nodiscard]] double work(std::size_t in, std::size_t out) const {
    return 2.0 * rows() * static_cast<double>(in) * static_cast<double>(out);
  }
  [[nodiscard]] double product_forward(std::size_t in, std::size_t out) const {
    return work(in, out) / nearest_product(gpu_, rows_, in, out).forward;
  }
  [[nodiscard]] double product_backward(std::size_t in, std::size_t out) const {
    return 2 * work(in, out) / nearest_product(gpu_, rows_, in, out).backward;
  }
  [[nodiscard]] LayerCost in_step(const LayerCost& alone) const {
    return {alone.forward / gpu_.step_share + gpu_.layer_gap,
            alone.backward / gpu_.step_share + gpu_.layer_gap};
  }

  const Gpu& gpu_;
  std::size_t rows_;
  std::size_t width_;
  std::size_t wide_;
  std::size_t vocab_;
  double bytes_;
  const AttentionRate& attention_;
  double attention_work_;
};

}  // namespace

const ProductRate& nearest_product(const Gpu& gpu, std::size_t rows, std::size_t in,
                                   std::size_t out) {
  return *std::ranges::min_element(gpu.products, {}, [&](const ProductRate& row) {
    return squared_log(row.rows, rows) + squared_log(row.in, in) + squared_log(row.out, out);
  });
}

const AttentionRate& nearest_attention(const Gpu& gpu, std::size_t sequence,
                                       std::size_t head_size) {
  return *std::ranges::min_element(gpu.attention, {}, [&](const AttentionRate& row) {
    return squared_log(row.sequence, sequence) + squared_log(row.head_size, head_size);
  });
}

std::vector<LayerCost> layer_costs(const model::Options& model, std::size_t micro_batch,
                                   Dtype compute, const Gpu& gpu) {
  if (!model::is_transformer(model)) {
    throw Error(ExitCode::usage,
                fmt::format("zeropp.model.name {}: times are known of transformers only: choose "
                            "gpt or llama, or leave the cluster out",
                            model.name));
  }
  const Transformer transformer(model, micro_batch, compute, gpu);
  const LayerCost kept = transformer.block(false);
  const LayerCost filled_again = transformer.block(true);
  std::vector<LayerCost> costs = {transformer.embedding()};
  for (std::size_t block = 0; block < model.num_layers; ++block) {
    // The block that ran forward last of those that recompute still has its activations.
    const bool again =
        model::recomputes(model, block) && block + model.recompute_interval < model.num_layers;
    costs.push_back(again ? filled_again : kept);
  }
  costs.push_back(transformer.head());
  return costs;
}

double product_rest(const model::Options& model, std::size_t micro_batch, Dtype compute,
                    const Gpu& gpu) {
  return Transformer(model, micro_batch, compute, gpu).product_rest();
}

void add_input_copies(std::vector<LayerCost>& costs, const model::Options& model,
                      std::size_t micro_batch, Dtype compute, double link_rate) {
  const std::size_t bytes = micro_batch * model.seq_length * model.hidden_size * size_of(compute);
  const double copy = static_cast<double>(bytes) / link_rate;
  for (std::size_t turn = 0; turn < model::offloaded_inputs(model); ++turn) {
    // One copy while the blocks up to the next that recomputes do their work.
    const auto first =
        costs.begin() + 1 + static_cast<std::ptrdiff_t>(turn * model.recompute_interval);
    LayerCost beside;
    for (auto block = first; block < first + static_cast<std::ptrdiff_t>(model.recompute_interval);
         ++block) {
      beside.forward += block->forward;
      beside.backward += block->backward;
    }
    first->forward += std::max(0.0, copy - beside.forward);
    first->backward += std::max(0.0, copy - beside.backward);
  }
}

}  // namespace zeropp::plan
