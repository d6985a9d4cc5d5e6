#include "kernels/nn/host/loops.hpp"
#include "kernels/nn/host/operations.hpp"

namespace zeropp::nn::host {

void embedding_forward(const NnContext& /*context*/, const EmbeddingShape& shape,
                       const std::int32_t* tokens, ConstView token_table, ConstView position_table,
                       View y) {
  const auto [sequences, length, vocab, hidden] = shape;
  require(token_table, vocab * hidden, "embedding token table");
  const bool positions = position_table.count > 0;
  if (positions) require(position_table, length * hidden, "embedding position table");
  float* const out = floats(y, sequences * length * hidden, "embedding output");
  with_type(token_table.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const token_rows = token_table.as<T>();
    const T* const position_rows = positions ? position_table.as<T>() : nullptr;
    host_for("embedding_forward", sequences * length, [=, n = hidden, t = length](auto row) {
      const T* const token = token_rows + static_cast<std::size_t>(tokens[row]) * n;
      float* const to = out + row * n;
      if (positions) {
        const T* const position = position_rows + row % t * n;
        for (std::size_t j = 0; j < n; ++j) to[j] = to_float(token[j]) + to_float(position[j]);
      } else {
        for (std::size_t j = 0; j < n; ++j) to[j] = to_float(token[j]);
      }
    });
  });
}

void embedding_backward(const NnContext& /*context*/, const EmbeddingShape& shape,
                        const std::int32_t* tokens, ConstView dy, View d_token_table,
                        View d_position_table) {
  const auto [sequences, length, vocab, hidden] = shape;
  const std::size_t rows = sequences * length;
  const float* const grad = floats(dy, rows * hidden, "embedding output gradient");
  float* const d_token = floats(d_token_table, vocab * hidden, "embedding token gradient");
  float* const d_position = d_position_table.count > 0 ? floats(d_position_table, length * hidden,
                                                                "embedding position gradient")
                                                       : nullptr;
  for_blocks("embedding_backward", hidden,
             [=, n = hidden, t = length](std::size_t begin, std::size_t end) {
               for (std::size_t row = 0; row < rows; ++row) {
                 const float* const from = grad + row * n;
                 float* const token = d_token + static_cast<std::size_t>(tokens[row]) * n;
                 for (std::size_t j = begin; j < end; ++j) token[j] += from[j];
                 if (d_position == nullptr) continue;
                 float* const position = d_position + row % t * n;
                 for (std::size_t j = begin; j < end; ++j) position[j] += from[j];
               }
             });
}

std::size_t embedding_workspace(const EmbeddingShape& /*shape*/) { return 0; }

}  // namespace zeropp::nn::host
