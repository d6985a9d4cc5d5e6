// How an optimizer runs on the host (Kokkos), and its entry in the registry. host_rule.cpp.in makes
// one of each file of rules/.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/core/half.hpp"
#include "kernels/core/host_for.hpp"
#include "kernels/core/view.hpp"
#include "kernels/optim/host_image.hpp"
#include "kernels/optim/registry.hpp"

namespace zeropp::optim {

/// The draws of up to kMomentBlock elements from `number` on, one call of the generator for four:
/// as draws_of_four(), many calls at a time.
inline void draw_for_block(std::uint64_t key, std::uint64_t number, std::size_t count,
                           std::uint32_t* words) {
  constexpr std::size_t kCalls = kMomentBlock / 4 + 1;
  std::uint32_t drawn[4 * kCalls];
  const std::size_t skipped = number % 4;
  for (std::size_t call = 0; call < kCalls; ++call) {
    const Random4 random = draws_of_four(key, number - skipped + 4 * call);
    for (std::size_t k = 0; k < 4; ++k) drawn[4 * call + k] = random.word[k];
  }
  for (std::size_t i = 0; i < count; ++i) words[i] = drawn[skipped + i];
}

/// Moments in bf16 or in 8 bits of up to kMomentBlock elements of a piece, from its element
/// `first`.
template <Moments>
struct HostMoments;

template <>
struct HostMoments<Moments::bf16> {
  const UpdatePiece& piece;
  std::size_t first;
  std::size_t count;

  template <bool Signed>
  void load(std::size_t state, float* wide) const {
    const Bf16* const from = static_cast<const Bf16*>(piece.state[state]) + first;
    for (std::size_t i = 0; i < count; ++i) wide[i] = to_float(from[i]);
  }
  template <bool... Signed>
  void store(std::uint64_t key, const float (*wide)[kMomentBlock]) const {
    std::uint32_t words[kMomentBlock];
    draw_for_block(key, piece.number + first, count, words);
    for (std::size_t state = 0; state < sizeof...(Signed); ++state) {
      Bf16* const to = static_cast<Bf16*>(piece.state[state]) + first;
      for (std::size_t i = 0; i < count; ++i) {
        to[i] = stochastic_bf16(wide[state][i], words[i] >> (16 * state));
      }
    }
  }
};

template <>
struct HostMoments<Moments::int8> {
  const UpdatePiece& piece;
  std::size_t first;
  std::size_t count;

  [[nodiscard]] std::uint8_t* codes(std::size_t state) const {
    return static_cast<std::uint8_t*>(piece.state[state]) + first;
  }
  [[nodiscard]] float& scale(std::size_t state) const {
    return piece.scale[state][first / kMomentBlock];
  }
  template <bool Signed>
  void load(std::size_t state, float* wide) const {
    decode_block<Signed>(codes(state), scale(state), count, wide);
  }
  template <bool... Signed>
  void store(std::uint64_t /*key*/, const float (*wide)[kMomentBlock]) const {
    std::size_t state = 0;
    const auto store_next = [&]<bool IsSigned>(std::bool_constant<IsSigned>) {
      scale(state) = encode_block<IsSigned>(wide[state], count, codes(state));
      ++state;
    };
    (store_next(std::bool_constant<Signed>()), ...);
  }
};

/// All by value: the loops' stores alias none of it.
template <class Update, class Narrow, Moments Kind, std::size_t... State>
void update_piece(Step step, typename Update::Constants c, UpdatePiece piece,
                  std::index_sequence<State...>) {
  const GradientScale scale = step.scale;
  const float decay = piece.decay ? c.decay : Update::no_decay;
  if constexpr (Kind == Moments::fp32) {
    for (std::size_t i = 0; i < piece.count; ++i) {
      Update::apply(scaled(piece.gradient[i], scale), decay, c, piece.weight[i],
                    static_cast<float*>(piece.state[State])[i]...);
    }
  } else {
    for (std::size_t first = 0; first < piece.count; first += kMomentBlock) {
      const HostMoments<Kind> kept{piece, first, std::min(kMomentBlock, piece.count - first)};
      float wide[sizeof...(State)][kMomentBlock];
      (kept.template load<Update::is_signed[State]>(State, wide[State]), ...);
      for (std::size_t i = 0; i < kept.count; ++i) {
        Update::apply(scaled(piece.gradient[first + i], scale), decay, c, piece.weight[first + i],
                      wide[State][i]...);
      }
      kept.template store<Update::is_signed[State]...>(step.draws, wide);
    }
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
      with_moments<Update::states>(options.moments, [&](auto kind) {
        using Narrow = std::remove_pointer_t<decltype(type)>;
        host_for("update", pieces.size(),
                 [=, c = Update::constants(options, step.t)](std::size_t i) {
                   update_piece<Update, Narrow, kind()>(step, c, pieces[i],
                                                        std::make_index_sequence<Update::states>());
                 });
      });
    });
  });
}

template <class Rule>
void host_update_tiles(const Options& options, const Step& step, const ImageFormat& format,
                       std::span<const UpdatePiece> pieces, std::span<const ImageTile> tiles,
                       StreamHandle) {
  Rule::with_update(options, [&]<class Update>(Update) {
    with_moments<Update::states>(options.moments, [&](auto kind) {
      host_for("update_tiles", tiles.size(),
               [=, c = Update::constants(options, step.t)](std::size_t i) {
                 for (const UpdatePiece& piece : pieces.subspan(tiles[i].first, tiles[i].pieces)) {
                   update_piece<Update, float, kind()>(step, c, piece,
                                                       std::make_index_sequence<Update::states>());
                 }
                 encode_tile(tiles[i], format);
               });
    });
  });
}

template <class Rule>
Variant rule_variant(const Options& options) {
  Variant variant{.host = host_update<Rule>, .cuda = cuda_update<Rule>()};
  Rule::with_update(options, [&]<class Update>(Update) {
    static_assert(Update::states <= kMostStates);
    variant.states = Update::states;
    if (writes_images(Update::states)) {
      variant.host_tiles = host_update_tiles<Rule>;
      variant.cuda_tiles = cuda_update_tiles<Rule>();
    }
    std::ranges::copy(Update::is_signed, variant.is_signed.begin());
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
