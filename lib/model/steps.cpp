#include "lib/model/steps.hpp"

#include <algorithm>
#include <utility>

namespace zeropp::model {

namespace {

/// Norm over each `group` of the columns, with one weight for all groups, or for all columns.
Step norm(const Parts& parts, std::string_view name, Role role, std::size_t columns,
          std::size_t groups = 1, bool one_weight = false) {
  const std::size_t values = one_weight ? columns / groups : columns;
  return {.kind = StepKind::norm,
          .name = name,
          .role = role,
          .in = columns,
          .out = columns,
          .bias = parts.norm_weight && parts.norm_bias,
          .vector = parts.norm_weight ? values : 0,
          .statistics = groups * (parts.rms_norm ? 1 : 2)};
}

Step weighted(std::string_view name, Role role, std::size_t in, std::size_t out, bool bias) {
  return {.name = name, .role = role, .in = in, .out = out, .bias = bias};
}

Step residual(Step step) {
  step.residual = true;
  return step;
}

/// Values that are turned or copied for attention; in place where backward does not read them.
Step moved(std::size_t in, std::size_t out, bool keeps) {
  return {.kind = StepKind::move, .in = in, .out = out, .keeps = keeps};
}

void add_qk_norms(std::vector<Step>& to, const Options& options, const Parts& parts) {
  if (parts.qk_norm == QkNorm::none) return;
  const bool whole = parts.qk_norm == QkNorm::whole;
  Parts own = parts;
  own.norm_weight = true;
  if (parts.qk_norm != QkNorm::shared) own.norm_bias = false;
  for (const auto& [name, heads] : {std::pair{"attn.q_norm", options.num_attention_heads},
                                    std::pair{"attn.k_norm", kv_heads(options)}}) {
    to.push_back(norm(own, name, kPlanned, heads * head_width(options), whole ? 1 : heads,
                      parts.qk_norm == QkNorm::shared));
  }
}

void add_queries_keys_values(std::vector<Step>& to, const Options& options, const Parts& parts) {
  to.push_back(
      weighted("attn.qkv", kQkvWeight, options.hidden_size, qkv_width(options), parts.qkv_bias));
  add_qk_norms(to, options, parts);
  if (!parts.rotary) return;
  const std::size_t turned = query_width(options) + kv_heads(options) * head_width(options);
  to.push_back(moved(turned, turned, false));
}

void add_latent_queries_keys_values(std::vector<Step>& to, const Options& options,
                                    const Parts& parts) {
  const Latent& latent = parts.latent;
  const std::size_t hidden = options.hidden_size;
  const std::size_t heads = options.num_attention_heads;
  const std::size_t queries = query_width(options);
  if (latent.query_rank > 0) {
    to.push_back(weighted("attn.q_a", kPlanned, hidden, latent.query_rank, parts.qkv_bias));
    to.push_back(norm(parts, "attn.q_norm", kPlanned, latent.query_rank));
    to.push_back(weighted("attn.q_b", kPlanned, latent.query_rank, queries, false));
  } else {
    to.push_back(weighted("attn.q", kPlanned, hidden, queries, false));
  }
  to.push_back(weighted("attn.kv_a", kPlanned, hidden, latent.key_rank + latent.rotary_width,
                        parts.qkv_bias));
  to.push_back(norm(parts, "attn.kv_norm", kPlanned, latent.key_rank));
  const std::size_t made = queries - heads * latent.rotary_width + heads * latent.value_width;
  to.push_back(weighted("attn.kv_b", kPlanned, latent.key_rank, made, false));
  // Each head has its keys whole, as wide as its queries.
  to.push_back(moved(queries, queries, true));
}

void add_attention(std::vector<Step>& to, const Options& options, const Parts& parts) {
  const bool latent = parts.latent.key_rank > 0;
  const std::size_t queries = query_width(options);
  const std::size_t made =
      latent ? options.num_attention_heads * parts.latent.value_width : queries;
  if (latent) {
    add_latent_queries_keys_values(to, options, parts);
  } else {
    add_queries_keys_values(to, options, parts);
  }
  to.push_back({.kind = StepKind::attention,
                .name = "attn.sinks",
                .in = latent ? 2 * queries + made : qkv_width(options),
                .out = made,
                .vector = parts.sinks ? options.num_attention_heads : 0});
  to.push_back(
      residual(weighted("attn.proj", kAttentionWeight, made, options.hidden_size, parts.out_bias)));
}

Step activated(const Parts& parts, std::string_view name, std::size_t width) {
  return {.kind = StepKind::activation,
          .name = name,
          .in = (parts.gated_mlp ? 2 : 1) * width,
          .out = width,
          .vector = parts.activation_parameters};
}

void add_mlp(std::vector<Step>& to, const Options& options, const Parts& parts) {
  const std::size_t hidden = options.hidden_size;
  const std::size_t wide = ffn_width(options);
  to.push_back(weighted(parts.gated_mlp ? "mlp.gate_up" : "mlp.fc", kFcWeight, hidden,
                        fc_width(options), parts.mlp_bias));
  to.push_back(activated(parts, "mlp.act", wide));
  to.push_back(residual(weighted("mlp.proj", kMlpWeight, wide, hidden, parts.mlp_bias)));
}

void add_experts(std::vector<Step>& to, const Options& options, const Parts& parts) {
  const Experts& experts = parts.experts;
  const std::size_t hidden = options.hidden_size;
  const auto fc = (parts.gated_mlp ? 2 : 1);
  const auto of_experts = [&](Step step) {
    step.uses = experts.per_token;
    if (step.kind == StepKind::product) step.copies = experts.count;
    to.push_back(step);
  };
  to.push_back(weighted("mlp.router", kPlanned, hidden, experts.count, experts.router_bias));
  // A row for each expert that a token goes through.
  to.push_back(moved(hidden, experts.per_token * hidden, true));
  of_experts(weighted("mlp.experts.gate_up", kPlanned, hidden, fc * experts.width, experts.bias));
  of_experts(activated(parts, "mlp.experts.act", experts.width));
  of_experts(residual(weighted("mlp.experts.proj", kPlanned, experts.width, hidden, experts.bias)));
  const std::size_t shared = experts.shared_width;
  if (shared > 0) {
    to.push_back(weighted("mlp.shared.gate_up", kPlanned, hidden, fc * shared, parts.mlp_bias));
    to.push_back(activated(parts, "mlp.shared.act", shared));
    to.push_back(residual(weighted("mlp.shared.proj", kPlanned, shared, hidden, parts.mlp_bias)));
    // Without a gate it adds to the sum of the experts.
    to.back().keeps = experts.shared_gate;
    if (experts.shared_gate) to.push_back(weighted("mlp.shared.gate", kPlanned, hidden, 1, false));
  }
  to.push_back(moved(experts.per_token * hidden, hidden, true));  // their sum
}

}  // namespace

std::vector<Step> block_steps(const Options& options, bool experts) {
  const Parts parts = parts_of(options);
  const std::size_t hidden = options.hidden_size;
  const bool before = parts.norm_place != NormPlace::after;
  const bool after = parts.norm_place != NormPlace::before;
  std::vector<Step> steps;
  if (before) steps.push_back(norm(parts, "ln_1", kLn1Weight, hidden));
  add_attention(steps, options, parts);
  steps.back().ends = parts.parallel && !after;
  if (after) steps.push_back(norm(parts, "post_1", kPlanned, hidden));
  if (before && !parts.one_norm) steps.push_back(norm(parts, "ln_2", kLn2Weight, hidden));
  if (experts) {
    add_experts(steps, options, parts);
  } else {
    add_mlp(steps, options, parts);
  }
  if (after) steps.push_back(norm(parts, "post_2", kPlanned, hidden));
  steps.back().ends = true;
  return steps;
}

std::vector<Step> embedding_steps(const Options& options) {
  const Parts parts = parts_of(options);
  std::vector<Step> steps;
  if (parts.embedded_width > 0) {
    steps.push_back(
        weighted("wte_proj", kPlanned, parts.embedded_width, options.hidden_size, false));
  }
  if (parts.embedding_norm) steps.push_back(norm(parts, "ln_e", kPlanned, options.hidden_size));
  return steps;
}

std::vector<Step> head_steps(const Options& options) {
  const Parts parts = parts_of(options);
  std::vector<Step> steps;
  if (parts.last_norm) steps.push_back(norm(parts, "ln_f", kLnFWeight, options.hidden_size));
  if (parts.embedded_width > 0) {
    steps.push_back(
        weighted("head_proj", kPlanned, options.hidden_size, parts.embedded_width, false));
  }
  return steps;
}

std::vector<BlockKind> block_kinds(const Options& options) {
  const Parts parts = parts_of(options);
  BlockKind dense{.blocks = options.num_layers};
  BlockKind mixed{.experts = true};
  for (std::size_t block = 0; parts.experts.count > 0 && block < options.num_layers; ++block) {
    if (!has_experts(parts, block)) continue;
    ++mixed.blocks;
    --dense.blocks;
  }
  std::vector<BlockKind> kinds;
  for (BlockKind* const kind : {&dense, &mixed}) {
    if (kind->blocks == 0) continue;
    kind->steps = block_steps(options, kind->experts);
    kinds.push_back(std::move(*kind));
  }
  return kinds;
}

double step_flops(const Step& step, const Options& options) {
  const auto real = [](std::size_t size) { return static_cast<double>(size); };
  if (step.kind == StepKind::product) return 2.0 * real(step.uses) * real(step.in) * real(step.out);
  if (step.kind != StepKind::attention) return 0;
  return 2.0 * real(options.seq_length) * real(query_width(options) + step.out);
}

}  // namespace zeropp::model
