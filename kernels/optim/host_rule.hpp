// How an optimizer runs on the host (Kokkos), and its entry in the registry. host_rule.cpp.in makes
// one of each file of rules/.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/core/half.hpp"
#include "kernels/core/host_for.hpp"
#include "kernels/core/view.hpp"
#include "kernels/optim/registry.hpp"

namespace zeropp::optim {

/// All by value: the loops' stores alias none of it.
template <class Update, class Narrow, std::size_t... State>
void update_piece(GradientScale scale, typename Update::Constants c, UpdatePiece piece,
                  std::index_sequence<State...>) {
  const float decay = piece.decay ? c.decay : Update::no_decay;
  for (std::size_t i = 0; i < piece.count; ++i) {
    Update::apply(scaled(piece.gradient[i], scale), decay, c, piece.weight[i],
                  piece.state[State][i]...);
  }
  if constexpr (!std::is_same_v<Narrow, float>) {
    auto* const narrow = static_cast<Narrow*>(piece.narrow);
    for (std::size_t i = 0; i < piece.count; ++i) {
      narrow[i] = saturating_cast<Narrow>(piece.weight[i]);
    }
  }
}

template <class Rule>
void host_update(const Options& options, const Step& step, Dtype narrow,
                 std::span<const UpdatePiece> pieces, StreamHandle) {
  Rule::with_update(options, [&]<class Update>(Update) {
    with_type(narrow, [&](auto* type) {
      using Narrow = std::remove_pointer_t<decltype(type)>;
      host_for("update", pieces.size(),
               [=, c = Update::constants(options, step.t), scale = step.scale](std::size_t i) {
                 update_piece<Update, Narrow>(scale, c, pieces[i],
                                              std::make_index_sequence<Update::states>());
               });
    });
  });
}

template <class Rule>
Variant rule_variant(const Options& options) {
  Variant variant{.states = 0, .host = host_update<Rule>, .cuda = cuda_update<Rule>()};
  Rule::with_update(options, [&]<class Update>(Update) {
    static_assert(Update::states <= kMostStates);
    variant.states = Update::states;
  });
  return variant;
}

template <class Rule>
RuleInfo describe() {
  return {Rule::name, Rule::summary, {Rule::parameters.begin(), Rule::parameters.end()}};
}

template <class Rule>
const RuleEntry& rule_entry() {
  static const RuleEntry entry{describe<Rule>(), rule_variant<Rule>};
  return entry;
}

}  // namespace zeropp::optim
