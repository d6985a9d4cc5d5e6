// How a format that works by a rule runs: the rule's kernels with the format's numbers.
#pragma once

#include "kernels/codec/registry.hpp"
#include "kernels/codec/rule_ops.hpp"

namespace zeropp::codec {

template <class Rule>
Variant rule_variant(const RuleNumbers& numbers,
                     double (*error_bound)(const RuleNumbers&, float x, float absmax)) {
  return {host_rule_ops<Rule>(), cuda_rule_ops<Rule>(), sizeof(typename Rule::Stored), numbers,
          error_bound};
}

}  // namespace zeropp::codec
