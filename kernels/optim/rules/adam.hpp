// Adam with bias correction: Kingma and Ba, arXiv 1412.6980. As PyTorch has it: weight decay is
// part of the gradient. (DeepSpeed's Adam has decoupled decay unless adam_w_mode is false: that is
// AdamW here.)
#pragma once

#include <array>
#include <string_view>

#include "kernels/optim/rules/adamw.hpp"

namespace zeropp::optim::rule::adam {

struct Update {
  static constexpr std::size_t states = adamw::Update::states;
  static constexpr auto is_signed = adamw::Update::is_signed;
  static constexpr float no_decay = 0.0F;

  /// `decay`: of the weight that is added to the gradient.
  using Constants = adamw::Update::Constants;

  static Constants constants(const Options& options, std::uint64_t t) {
    Constants c = adamw::Update::constants(options, t);
    c.decay = static_cast<float>(options.weight_decay);
    return c;
  }

  ZEROPP_HD static void apply(float g, float decay, const Constants& c, float& weight, float& m,
                              float& v) {
    adamw::Update::apply(fmaf(decay, weight, g), adamw::Update::no_decay, c, weight, m, v);
  }
};

struct Rule {
  static constexpr std::string_view name = "Adam";
  static constexpr std::string_view summary = "weight decay is part of the gradient";
  static constexpr auto parameters = adamw::Rule::parameters;

  template <class Body>
  static void with_update(const Options& /*options*/, const Body& body) {
    body(Update{});
  }
};

}  // namespace zeropp::optim::rule::adam
