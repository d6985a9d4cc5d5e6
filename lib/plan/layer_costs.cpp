#include "lib/plan/layer_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/model/steps.hpp"

namespace zeropp::plan {

namespace {

double squared_log(std::size_t a, std::size_t b) {
  const double ratio = std::log(static_cast<double>(a) / static_cast<double>(b));
  return ratio * ratio;
}

class Transformer {
 public:
  Transformer(const model::Options& model, std::size_t micro_batch, Dtype compute, const Gpu& gpu)
      : model_(model),
        gpu_(gpu),
        rows_(micro_batch * model.seq_length),
        bytes_(static_cast<double>(size_of(compute))),
        attention_(nearest_attention(gpu, model.seq_length, model::head_width(model))) {}

  [[nodiscard]] LayerCost embedding() const {
    // Rows of the tables in, their sum out; backward adds in fp32, read and written.
    const double tables = model::parts_of(model_).position_rows > 0 ? 2 : 1;
    const double width = static_cast<double>(model_.hidden_size);
    LayerCost cost{memory((tables + 1) * bytes_ * rows() * width),
                   memory((8 + bytes_) * rows() * width)};
    for (const model::Step& step : model::embedding_steps(model_)) cost += of(step);
    return cost;
  }

  /// `again`: backward makes a block's activations first, but for what ends the block.
  [[nodiscard]] LayerCost block(const std::vector<model::Step>& steps, bool again) const {
    LayerCost cost;
    for (const model::Step& step : steps) {
      const LayerCost own = of(step);
      cost += own;
      if (again && !step.ends) cost.backward += own.forward;
    }
    return in_step(cost);
  }

  /// Mean rest, in seconds, of what a kernel finds when it comes at any time: sum d^2 / (2 sum d)
  /// over the products of blocks, forward and backward, of d seconds each.
  [[nodiscard]] double product_rest() const {
    double sum = 0;
    double squares = 0;
    for (const model::BlockKind& kind : model::block_kinds(model_)) {
      const double share =
          static_cast<double>(kind.blocks) / static_cast<double>(model_.num_layers);
      for (const model::Step& step : kind.steps) {
        if (step.kind != model::StepKind::product) continue;
        const LayerCost cost = of(step);
        sum += share * (cost.forward + cost.backward);
        // Two products in backward.
        squares += share * (cost.forward * cost.forward + cost.backward * cost.backward / 2);
      }
    }
    return squares / (2 * sum) / gpu_.step_share;
  }

  [[nodiscard]] LayerCost head() const {
    const double logits = rows() * static_cast<double>(model_.vocab_size);
    LayerCost cost = of({.in = model::table_width(model_), .out = model_.vocab_size});
    for (const model::Step& step : model::head_steps(model_)) cost += of(step);
    // Losses and their gradients in one pass over the logits, which are read and written.
    cost.forward += memory(2 * bytes_ * logits);
    return in_step(cost);
  }

 private:
  [[nodiscard]] double rows() const { return static_cast<double>(rows_); }
  [[nodiscard]] double memory(double bytes) const { return bytes / gpu_.memory_rate; }
  /// Time of so many values of each row.
  [[nodiscard]] double columns(std::size_t count) const {
    return memory(bytes_ * rows() * static_cast<double>(count));
  }

  [[nodiscard]] LayerCost of(const model::Step& step) const {
    using Kind = model::StepKind;
    switch (step.kind) {
      case Kind::product:
        return product(step);
      case Kind::attention: {
        // The masked half is not computed; backward has five products where forward has two.
        const double work = rows() * model::step_flops(step, model_) / 2;
        return {work / attention_.forward, 2.5 * work / attention_.backward};
      }
      case Kind::norm:
        // Backward reads input, gradient and the one that is added to, and writes that.
        return {columns(2 * step.out), columns(4 * step.out)};
      case Kind::activation:
        // A plain one is part of its product.
        if (step.in == step.out) return {};
        return {columns(step.uses * (step.in + step.out)),
                columns(step.uses * (2 * step.in + step.out))};
      case Kind::move:
        break;
    }
    return {columns(step.in + step.out), columns(step.in + step.out)};
  }

  /// Experts share the rows, and are read whole however few these are.
  [[nodiscard]] LayerCost product(const model::Step& step) const {
    const double work = rows() * model::step_flops(step, model_);
    const std::size_t of_each = std::max<std::size_t>(1, rows_ * step.uses / step.copies);
    const ProductRate& rate = nearest_product(gpu_, of_each, step.in, step.out);
    LayerCost cost{work / rate.forward, 2 * work / rate.backward};
    if (step.copies == 1) return cost;
    const double read = memory(bytes_ * static_cast<double>(step.copies) *
                               static_cast<double>(step.in) * static_cast<double>(step.out));
    return {std::max(cost.forward, read), std::max(cost.backward, 2 * read)};
  }

  [[nodiscard]] LayerCost in_step(const LayerCost& alone) const {
    return {alone.forward / gpu_.step_share + gpu_.layer_gap,
            alone.backward / gpu_.step_share + gpu_.layer_gap};
  }

  const model::Options& model_;
  const Gpu& gpu_;
  std::size_t rows_;
  double bytes_;
  const AttentionRate& attention_;
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
  struct Costs {
    LayerCost kept;
    LayerCost filled_again;
  };
  std::array<Costs, 2> of_kind;  // dense, with experts
  for (const model::BlockKind& kind : model::block_kinds(model)) {
    of_kind.at(kind.experts ? 1 : 0) = {transformer.block(kind.steps, false),
                                        transformer.block(kind.steps, true)};
  }
  const model::Parts parts = model::parts_of(model);
  std::vector<LayerCost> costs = {transformer.embedding()};
  for (std::size_t block = 0; block < model.num_layers; ++block) {
    // The block that ran forward last of those that recompute still has its activations.
    const bool again =
        model::recomputes(model, block) && block + model.recompute_interval < model.num_layers;
    const Costs& own = of_kind.at(model::has_experts(parts, block) ? 1 : 0);
    costs.push_back(again ? own.filled_again : own.kept);
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
