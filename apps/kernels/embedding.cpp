// The rows of the token and position tables of a text of random tokens, and their gradients. A row
// of the token table counts once, however often its token occurs. The sets share one table and have
// other tokens each, so that they read other rows of it.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "apps/kernels/block.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {

namespace {

using nn::EmbeddingShape;

constexpr std::size_t kLooks = 64;

struct Text {
  Text(const Block& block, const ComputeDevice& device)
      : shape{block.shape.sequences, block.shape.length, block.vocab, block.shape.hidden},
        compute(block.compute),
        activation(block.activation(device)),
        token_table(block.source.normals(1, compute)),
        position_table(block.source.normals(2, compute)),
        dy(block.source.normals(3, activation)),
        source(block.source) {}

  [[nodiscard]] std::size_t tokens() const { return shape.sequences * shape.length; }
  /// Token i of the first set.
  [[nodiscard]] std::size_t token(std::size_t i) const {
    return static_cast<std::size_t>(source.token(i, shape.vocab));
  }
  [[nodiscard]] std::map<std::size_t, std::vector<std::size_t>> places_of_tokens() const {
    std::map<std::size_t, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < tokens(); ++i) places[token(i)].push_back(i);
    return places;
  }
  /// Rows of both tables that are read, or added to.
  [[nodiscard]] std::size_t table_rows() const { return places_of_tokens().size() + shape.length; }
  [[nodiscard]] double bytes(std::size_t rows, Dtype dtype) const {
    return static_cast<double>(rows * shape.hidden * size_of(dtype));
  }
  [[nodiscard]] Array tokens_array() const {
    return {"tokens", tokens(), Dtype::fp32, [text = *this](View memory, std::size_t set) {
              auto* const to = static_cast<std::int32_t*>(memory.data);
              for (std::size_t i = 0; i < text.tokens(); ++i) {
                to[i] = text.source.token(set * text.tokens() + i, text.shape.vocab);
              }
            }};
  }

  EmbeddingShape shape;
  Dtype compute;
  Dtype activation;
  Values token_table, position_table, dy;
  Source source;
};

const std::int32_t* tokens_in(const View& memory) {
  return static_cast<const std::int32_t*>(memory.data);
}

std::string check_forward(const Text& text, const Results& results) {
  Verdict verdict;
  const Result y = results[3];
  const std::size_t hidden = text.shape.hidden;
  verdict.written(y);
  for (const std::size_t i : some_of(text.tokens(), kLooks)) {
    for (std::size_t e = 0; e < hidden; ++e) {
      const double a = text.token_table(text.token(i) * hidden + e);
      const double b = text.position_table(i % text.shape.length * hidden + e);
      verdict.close(y, i * hidden + e, a + b,
                    tolerance_of(text.activation) * (std::abs(a) + std::abs(b)));
    }
  }
  return verdict.text();
}

std::string check_backward(const Text& text, const Results& results) {
  Verdict verdict;
  const Result d_tokens = results[2];
  const Result d_positions = results[3];
  const std::size_t hidden = text.shape.hidden;
  const auto check = [&](const Result& got, std::size_t row, const auto& places) {
    for (std::size_t e = 0; e < hidden; ++e) {
      double sum = 0;
      double size = 0;
      for (const std::size_t place : places) {
        sum += text.dy(place * hidden + e);
        size += std::abs(text.dy(place * hidden + e));
      }
      verdict.close(got, row * hidden + e, sum, 1e-5 * size);
    }
  };
  for (const auto& [token, places] : text.places_of_tokens()) check(d_tokens, token, places);
  for (std::size_t t = 0; t < text.shape.length; ++t) {
    std::vector<std::size_t> places;
    for (std::size_t s = 0; s < text.shape.sequences; ++s) {
      places.push_back(s * text.shape.length + t);
    }
    check(d_positions, t, places);
  }
  return verdict.text();
}

Problem forward_of(const Block& block, const ComputeDevice& device) {
  const Text text(block, device);
  const EmbeddingShape& s = text.shape;
  return {.work = {.read = text.bytes(text.table_rows(), text.compute) +
                           static_cast<double>(text.tokens() * sizeof(std::int32_t)),
                   .written = text.bytes(text.tokens(), text.activation),
                   .operations = static_cast<double>(text.tokens() * s.hidden)},
          .arrays = {text.tokens_array(),
                     {"token table", s.vocab * s.hidden, text.compute,
                      filled_with(text.token_table), true},
                     {"position table", s.length * s.hidden, text.compute,
                      filled_with(text.position_table)},
                     {"y", text.tokens() * s.hidden, text.activation},
                     workspace_of(device.nn->embedding_workspace(s))},
          .bind = [s](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
            return [&set, s, ops = on.nn](StreamHandle stream) {
              ops->embedding_forward({.stream = stream, .workspace = set[4]}, s, tokens_in(set[0]),
                                     set[1], set[2], set[3]);
            };
          },
          .check = [text](const Results& results) { return check_forward(text, results); }};
}

Problem backward_of(const Block& block, const ComputeDevice& device) {
  const Text text(block, device);
  const EmbeddingShape& s = text.shape;
  const double sums = text.bytes(text.table_rows(), Dtype::fp32);
  const auto zeros = [](View memory, std::size_t) {
    std::fill_n(memory.as<float>(), memory.count, 0.0F);
  };
  return {.work = {.read = text.bytes(text.tokens(), text.activation) + sums +
                           static_cast<double>(text.tokens() * sizeof(std::int32_t)),
                   .written = sums,
                   .operations = 2 * static_cast<double>(text.tokens() * s.hidden)},
          .arrays = {text.tokens_array(),
                     {"dy", text.tokens() * s.hidden, text.activation, filled_with(text.dy)},
                     {"token gradient", s.vocab * s.hidden, Dtype::fp32, zeros, true},
                     {"position gradient", s.length * s.hidden, Dtype::fp32, zeros},
                     workspace_of(device.nn->embedding_workspace(s))},
          .bind = [s](const Set& set, const ComputeDevice& on, StreamHandle) -> Call {
            return [&set, s, ops = on.nn](StreamHandle stream) {
              ops->embedding_backward({.stream = stream, .workspace = set[4]}, s, tokens_in(set[0]),
                                      set[1], set[2], set[3]);
            };
          },
          .check = [text](const Results& results) { return check_backward(text, results); }};
}

/// Sequences x length x hidden: the position table has a row for each place in a sequence.
std::string label(const Block& block) {
  return fmt::format("{}x{}x{}", block.shape.sequences, block.shape.length, block.shape.hidden);
}

}  // namespace

const Kernel embedding_forward{
    "embedding_forward", "rows of the token and position tables, added", [](const Choice& choice) {
      return block_cases(choice, embedding_forward, "-", label, forward_of);
    }};
const Kernel embedding_backward{
    "embedding_backward", "their gradients, added to the tables'", [](const Choice& choice) {
      return block_cases(choice, embedding_backward, "-", label, backward_of);
    }};

}  // namespace zeropp::kernels
