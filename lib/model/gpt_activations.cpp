#include "lib/model/gpt_activations.hpp"

#include <utility>

#include "lib/base/checked.hpp"

namespace zeropp::model {

GptActivations::GptActivations(const Options& options, std::size_t micro_batch,
                               std::size_t vocab_size, const nn::NnOps& ops, MemoryKind memory)
    : blocks(options.num_layers) {
  const std::size_t rows = micro_batch * options.seq_length;
  const std::size_t hidden = options.hidden_size;
  const std::size_t attention_saved =
      ceil_div(ops.attention_saved_bytes(
                   {micro_batch, options.seq_length, options.num_attention_heads, hidden}),
               sizeof(float));
  std::vector<std::pair<View*, std::size_t>> parts = {
      {&embedding, rows * hidden},  {&ln_f, rows * hidden},       {&ln_f_mean, rows},
      {&ln_f_rstd, rows},           {&logits, rows * vocab_size}, {&row_loss, rows},
      {&d_residual, rows * hidden}, {&d_hidden, rows * hidden},   {&d_wide, 4 * rows * hidden}};
  for (BlockActivations& block : blocks) {
    parts.insert(parts.end(), {{&block.ln_1, rows * hidden},
                               {&block.ln_1_mean, rows},
                               {&block.ln_1_rstd, rows},
                               {&block.qkv, 3 * rows * hidden},
                               {&block.attention_saved, attention_saved},
                               {&block.attention, rows * hidden},
                               {&block.middle, rows * hidden},
                               {&block.ln_2, rows * hidden},
                               {&block.ln_2_mean, rows},
                               {&block.ln_2_rstd, rows},
                               {&block.fc, 4 * rows * hidden},
                               {&block.gelu, 4 * rows * hidden},
                               {&block.output, rows * hidden}});
  }
  constexpr std::size_t kAlignment = 64;  // elements: 256 bytes
  std::size_t total = 0;
  for (const auto& [view, count] : parts) total += round_up(count, kAlignment);
  memory_ = Buffer(total * sizeof(float), memory);
  std::size_t offset = 0;
  for (auto& [view, count] : parts) {
    *view = memory_.view(count, Dtype::fp32, offset * sizeof(float));
    offset += round_up(count, kAlignment);
  }
}

}  // namespace zeropp::model
