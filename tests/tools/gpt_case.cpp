// Writes a case for zpp-validate oracle from a transformer in one process:
//   gpt_case gradients|train DIR gpt|llama LAYERS HIDDEN HEADS SEQ VOCAB tied|untied
//   fp32|bf16|fp16 STEPS host|cuda [KEY=NUMBER ...]
// KEY: a key of zeropp.model, such as num_key_value_heads.
// gradients: STEPS micro-batches are accumulated and their mean gradient is written; the case holds
// them as one batch. train: STEPS steps of AdamW with clipping and a falling learning rate. Weights
// are moved from their usual beginning, so that every tensor matters: no bias is zero. And not so
// far that attention becomes sharp: what bf16 rounds away would grow from layer to layer.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/host_runtime.hpp"
#include "lib/base/error.hpp"
#include "lib/model/registry.hpp"
#include "tests/support/local_model.hpp"
#include "tests/support/oracle_case.hpp"

namespace {

using namespace zeropp;

constexpr std::size_t kSequences = 3;
constexpr std::uint64_t kSeed = 20240607;

struct Tokens {
  Tokens(std::size_t count, std::size_t vocab, std::uint64_t stream) {
    for (std::size_t i = 0; i < count; ++i) {
      const Random4 draw = philox4x32(kSeed, i, stream);
      tokens.push_back(static_cast<std::int32_t>(draw.word[0] % vocab));
      targets.push_back(static_cast<std::int32_t>(draw.word[1] % vocab));
    }
  }
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

/// Plain AdamW in fp64 over all tensors.
class AdamW {
 public:
  AdamW(optim::Options options, double clipping, const std::vector<zero::Unit>& units)
      : options_(std::move(options)), clipping_(clipping), units_(units) {
    for (const zero::Unit& unit : units) {
      m_.emplace_back(unit.count, 0.0);
      v_.emplace_back(unit.count, 0.0);
    }
  }

  void step(double learning_rate, const std::vector<std::vector<float>>& gradients,
            std::vector<std::vector<float>>& weights) {
    ++t_;
    double squares = 0.0;
    for (const auto& unit : gradients) {
      for (const float g : unit) squares += static_cast<double>(g) * static_cast<double>(g);
    }
    const double norm = std::sqrt(squares);
    const double scale = norm > clipping_ ? clipping_ / norm : 1.0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const zero::Tensor& tensor : units_[u].tensors) {
        const double decay = tensor.decay ? options_.weight_decay : 0.0;
        for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count(); ++i) {
          const double g = scale * static_cast<double>(gradients[u][i]);
          double& m = m_[u][i];
          double& v = v_[u][i];
          m = options_.beta1 * m + (1.0 - options_.beta1) * g;
          v = options_.beta2 * v + (1.0 - options_.beta2) * g * g;
          const double mean = m / (1.0 - std::pow(options_.beta1, t_));
          const double root = std::sqrt(v / (1.0 - std::pow(options_.beta2, t_)));
          const double w = static_cast<double>(weights[u][i]);
          weights[u][i] = static_cast<float>(
              w - learning_rate * (mean / (root + options_.epsilon) + decay * w));
        }
      }
    }
  }

 private:
  optim::Options options_;
  double clipping_;
  const std::vector<zero::Unit>& units_;
  int t_ = 0;
  std::vector<std::vector<double>> m_;
  std::vector<std::vector<double>> v_;
};

void write_gradients(test::LocalModel& local, test::OracleCase& output, std::size_t length,
                     std::size_t vocab, std::size_t micro_batches) {
  const Tokens all(micro_batches * kSequences * length, vocab, 0);
  double loss = 0.0;
  for (std::size_t i = 0; i < micro_batches; ++i) {
    const std::size_t count = kSequences * length;
    loss += local.forward({kSequences, length, std::span(all.tokens).subspan(i * count, count),
                           std::span(all.targets).subspan(i * count, count)},
                          true);
    local.backward(i == 0);
  }
  const float scale = 1.0F / static_cast<float>(micro_batches);
  for (auto& unit : local.gradients) {
    for (float& g : unit) g *= scale;
  }
  output.tensors("gradients.f32", local.gradients);
  output.step({micro_batches * kSequences, length, all.tokens, all.targets},
              loss / static_cast<double>(micro_batches), 0.0);
}

void write_training(test::LocalModel& local, test::OracleCase& output,
                    const std::vector<zero::Unit>& units, std::size_t length, std::size_t vocab,
                    std::size_t steps) {
  const optim::Options options{.learning_rate = 2e-3, .epsilon = 1e-6, .weight_decay = 0.1};
  constexpr double kClipping = 1.0;
  output.optimizer(options, kClipping);
  AdamW adamw(options, kClipping, units);
  for (std::size_t step = 0; step < steps; ++step) {
    const Tokens data(kSequences * length, vocab, step);
    const zero::Batch batch{kSequences, length, data.tokens, data.targets};
    const double loss = local.forward(batch, true);
    local.backward(true);
    const double rate = options.learning_rate / static_cast<double>(step + 1);
    adamw.step(rate, local.gradients, local.masters);
    output.step(batch, loss, rate);
  }
  output.tensors("final.f32", local.masters);
}

void set(model::Options& options, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) throw std::invalid_argument(word + " is not KEY=NUMBER");
  const std::string key = word.substr(0, equals);
  const double value = std::stod(word.substr(equals + 1));
  const std::pair<const char*, std::size_t model::Options::*> sizes[] = {
      {"num_key_value_heads", &model::Options::num_key_value_heads},
      {"head_dim", &model::Options::head_dim},
      {"ffn_hidden_size", &model::Options::ffn_hidden_size}};
  for (const auto& [name, member] : sizes) {
    if (key != name) continue;
    options.*member = static_cast<std::size_t>(value);
    return;
  }
  if (key == "add_qkv_bias") {
    options.add_qkv_bias = value != 0;
  } else if (key == "rope_theta") {
    options.rope_theta = value;
  } else if (key == "norm_eps") {
    options.norm_eps = value;
  } else {
    throw std::invalid_argument("unknown key " + key);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 13) {
    std::fprintf(stderr,
                 "gpt_case: error: usage: gpt_case gradients|train DIR gpt|llama LAYERS HIDDEN "
                 "HEADS SEQ VOCAB tied|untied fp32|bf16|fp16 STEPS host|cuda [KEY=NUMBER ...]\n");
    return 2;
  }
  const HostRuntime runtime;
  const auto number = [&](int index) -> std::size_t {
    return std::strtoull(argv[index], nullptr, 10);
  };
  model::Options options;
  options.name = argv[3];
  options.num_layers = number(4);
  options.hidden_size = number(5);
  options.num_attention_heads = number(6);
  options.seq_length = number(7);
  options.tied_head = std::string(argv[9]) == "tied";
  const std::size_t vocab = number(8);
  Dtype compute = Dtype::fp32;
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    if (name_of(dtype) == argv[10]) compute = dtype;
  }
  const std::size_t steps = number(11);
  for (int word = 13; word < argc; ++word) set(options, argv[word]);

  trace::Timers timers;
  const Device device = std::string(argv[12]) == "cuda" ? Device::cuda(0) : Device::host();
  const auto model = model::make_model(options, {.micro_batch = kSequences,
                                                 .vocab_size = vocab,
                                                 .device = device,
                                                 .compute = compute,
                                                 .timers = timers});
  test::LocalModel local(*model, compute, device);
  local.initialise(kSeed, 0.05F);
  test::OracleCase output(argv[2], options, vocab, model->units());
  output.tensors("weights.f32", local.masters);
  if (std::string(argv[1]) == "train") {
    write_training(local, output, model->units(), options.seq_length, vocab, steps);
  } else {
    write_gradients(local, output, options.seq_length, vocab, steps);
  }
  output.finish();
  return 0;
} catch (const zeropp::Error& error) {  // no GPU
  std::fprintf(stderr, "gpt_case: error: %s\n", error.what());
  return static_cast<int>(error.code());
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpt_case: error: %s\n", error.what());
  return 1;
}
