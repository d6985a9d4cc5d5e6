// How a format that works by a rule runs: the rule's kernels with the format's numbers.
#pragma once

#include "kernels/codec/registry.hpp"
#include "kernels/codec/rule_ops.hpp"

namespace zeropp::codec {

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
