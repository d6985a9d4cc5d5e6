// Reduce-scatter in one hop: every rank encodes each part, an all-to-all brings the images of part
// r to rank r, which decodes and sums them in rank order in fp32. The own part goes through the
// codec as well. With error feedback where the plan asks for it. Shared by `1-hop`, `ordered` and
// the ends of `2-hop` where one of its hops is empty.
#pragma once

#include <memory>
#include <vector>

#include "lib/collective/error_feedback.hpp"
#include "lib/collective/reduce_scatter_base.hpp"

namespace zeropp::collective {

class OneHopReduce final : public ReduceScatterBase {
 public:
  /// `codec` runs; `codec_name` is what the trace shows; parts are padded to `block`. `hop`: 1, or
  /// 2 where this is the second hop of two.
  OneHopReduce(const Context& context, const ReduceScatterPlan& plan,
               const ReduceScatterAlgorithm& algorithm, codec::Codec codec,
               const std::string& codec_name, std::size_t block, int hop = 1);

  [[nodiscard]] comm::Bytes volume() const override;
  [[nodiscard]] Messages messages() const override;

 private:
  void begin() override;
  void complete() override;

  /// A chunk: one image to and from every rank.
  struct Piece {
    Chunk chunk;
    std::size_t image_bytes;
    std::size_t out;  ///< nothing where it lies encoded
    std::size_t in;
    std::unique_ptr<comm::Work> work;
  };
  [[nodiscard]] codec::Layout layout(const Chunk& chunk) const;
  /// Whether images are what lies in memory: whole, uncompressed, of the dtype that travels.
  [[nodiscard]] bool lies_encoded() const;

  codec::Codec codec_;
  std::vector<Piece> pieces_;
  HopEncode encode_;
};

}  // namespace zeropp::collective
