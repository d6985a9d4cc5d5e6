// The tables of kernels of the rules, on every back end, and how a format that works by a rule runs
// with them. Each rule is translated once, whatever number of formats it has.
#pragma once

#include "kernels/codec/codec.hpp"
#include "kernels/codec/float_rule.hpp"
#include "kernels/codec/format.hpp"
#include "kernels/codec/integer_rule.hpp"
#include "kernels/codec/nvfp4_rule.hpp"
#include "kernels/codec/scale_types.hpp"
#include "kernels/codec/transforms.hpp"

namespace zeropp::codec {

/// ZEROPP_RULE(type) for every rule that has kernels.
#define ZEROPP_INTEGER_RULES(ZEROPP_RULE)           \
  ZEROPP_RULE(SymmetricRule<Bf16Scale, Identity>)   \
  ZEROPP_RULE(SymmetricRule<Bf16Scale, Hadamard32>) \
  ZEROPP_RULE(SymmetricRule<Fp32Scale, Identity>)   \
  ZEROPP_RULE(SymmetricRule<Fp32Scale, Hadamard32>) \
  ZEROPP_RULE(AsymmetricRule<Bf16Scale>)            \
  ZEROPP_RULE(AsymmetricRule<Fp32Scale>)
#define ZEROPP_STOCHASTIC_RULES(ZEROPP_RULE)                    \
  ZEROPP_RULE(SymmetricRule<Bf16Scale, Identity, Stochastic>)   \
  ZEROPP_RULE(SymmetricRule<Bf16Scale, Hadamard32, Stochastic>) \
  ZEROPP_RULE(SymmetricRule<Fp32Scale, Identity, Stochastic>)   \
  ZEROPP_RULE(SymmetricRule<Fp32Scale, Hadamard32, Stochastic>) \
  ZEROPP_RULE(AsymmetricRule<Bf16Scale, Stochastic>)            \
  ZEROPP_RULE(AsymmetricRule<Fp32Scale, Stochastic>)
#define ZEROPP_FLOAT_RULES(ZEROPP_RULE)   \
  ZEROPP_RULE(FloatRule<ScaledToLargest>) \
  ZEROPP_RULE(FloatRule<PowerOfTwo>)      \
  ZEROPP_RULE(Nvfp4Rule)

template <class Rule>
const CodecOps* host_rule_ops();

/// Null in a build without CUDA.
template <class Rule>
const CodecOps* cuda_rule_ops();

/// The rule's kernels with a format's numbers.
template <class Rule>
Variant rule_variant(const RuleNumbers& numbers,
                     double (*error_bound)(const RuleNumbers&, float x, float absmax)) {
  Variant variant;
  variant.host = host_rule_ops<Rule>();
  variant.cuda = cuda_rule_ops<Rule>();
  variant.scale_bytes = sizeof(typename Rule::Stored);
  variant.scales_images = Rule::scales_images;
  variant.numbers = numbers;
  variant.error_bound = error_bound;
  return variant;
}

}  // namespace zeropp::codec
