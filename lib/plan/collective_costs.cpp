#include "lib/plan/collective_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/codec/codec.hpp"
#include "kernels/core/enum_names.hpp"
#include "lib/collective/chunks.hpp"
#include "lib/comm/options.hpp"
#include "lib/zero/plan/collectives.hpp"

namespace zeropp::plan {

namespace {

/// Times of messages between the ranks of a group.
class Links {
 public:
  explicit Links(const ClusterGroup& group)
      : group_(group),
        node_links_(group.cluster.node_links),
        rails_(group.cluster.rails),
        lane_(rails_.with(group.rail_lanes)),
        world_lane_(rails_.with(group.ranks_per_node == 1 ? group.rail_lanes : 1)),
        links_(rails_.links_per_node / static_cast<double>(group.groups_per_node)),
        nodes_(static_cast<double>(group.nodes)),
        locals_(static_cast<double>(group.ranks_per_node)) {}

  [[nodiscard]] double nodes() const { return nodes_; }
  [[nodiscard]] double locals() const { return locals_; }
  [[nodiscard]] double ranks() const { return nodes_ * locals_; }

  /// A rank sends `bytes` to each other rank of its node.
  void inside_node(Stages& stages, double bytes) const {
    if (group_.ranks_per_node == 1) return;
    stages.add(Resource::none, node_links_.latency);
    const double rate = copied(bytes) ? node_links_.copies_rate : node_links_.rate;
    stages.add(copied(bytes) ? Resource::copies : Resource::node_links,
               (locals_ - 1) * bytes / rate);
  }
  /// In an exchange inside a node copy engines bring the rank's own part to its place as well, in
  /// memory and after the others: with it an exchange of 256 MiB to 4 GiB on four H200 takes what
  /// was measured within 4 %, without it 4 to 8 % less. Kernels copy it beside the transfer.
  void own_part(Stages& stages, double bytes) const {
    if (group_.nodes > 1 || group_.ranks_per_node == 1 || !copied(bytes)) return;
    stages.add(Resource::none, kernel_seconds(2 * bytes, group_.cluster));
  }
  /// A rank sends `bytes` to the rank with its number in each other node, as all of its node do.
  void on_rails(Stages& stages, double bytes) const {
    if (group_.nodes == 1) return;
    stages.add(Resource::none, lane_.latency + (nodes_ - 2) * rails_.hop_latency);
    stages.add(Resource::rails, out_of_node((nodes_ - 1) * bytes, lane_));
  }
  /// A rank sends `bytes` to every other rank, in and out of its node at the same time.
  void to_all(Stages& stages, double bytes) const {
    if (group_.nodes == 1) return inside_node(stages, bytes);
    stages.add(Resource::none, world_lane_.latency);
    slower_of(stages, (locals_ - 1) * bytes / node_links_.rate,
              out_of_node((ranks() - locals_) * bytes, world_lane_));
  }
  /// A ring through all ranks, node after node, on which `bytes` of each of the others pass every
  /// rank. All of its links carry something all the time, and the slowest paces them: those inside
  /// a node, or all that leave it together. The channels of the `vendors` drive the latter
  /// otherwise than messages do.
  void ring(Stages& stages, double bytes, bool vendors) const {
    if (group_.ranks() == 1) return;
    double latency = 0;
    double intra = 0;
    double inter = 0;
    if (group_.ranks_per_node > 1) {
      latency += node_links_.latency + (nodes_ * (locals_ - 1) - 1) * node_links_.hop_latency;
      intra = (ranks() - 1) * bytes / node_links_.rate;
    }
    if (group_.nodes > 1) {
      const LaneRate& lane = vendors ? rails_.with(1) : world_lane_;
      latency += lane.latency + (nodes_ - 1) * rails_.hop_latency;
      const double passing = (ranks() - 1) * bytes;
      inter = vendors && rails_.ring_rate > 0
                  ? passing * rails_.links_per_node / (links_ * rails_.ring_rate)
                  : passing / (links_ * lane.rate_of(passing / rails_.links_per_node));
    }
    stages.add(Resource::none, latency);
    slower_of(stages, intra, inter);
  }
  void kernel(Stages& stages, double bytes) const {
    stages.add(Resource::gpu, kernel_seconds(bytes, group_.cluster));
  }

 private:
  /// Whether copy engines move pieces of `bytes` inside a node.
  [[nodiscard]] bool copied(double bytes) const {
    return group_.copy_engines && node_links_.copies_rate > 0 &&
           bytes >= static_cast<double>(comm::kFewestCopied);
  }
  /// Every rank of a node sends so many `bytes` to others.
  [[nodiscard]] double out_of_node(double bytes, const LaneRate& lane) const {
    return bytes * locals_ / (links_ * lane.rate_of(bytes));
  }
  /// Transfers over both kinds of links at the same time: the slower ones pace the others, which
  /// are busy for a share of that time.
  static void slower_of(Stages& stages, double intra, double inter) {
    if (intra > inter) {
      stages.add({Resource::node_links, intra, Resource::rails, inter / intra});
    } else if (inter > 0) {
      stages.add({Resource::rails, inter, Resource::node_links, intra / inter});
    }
  }

  const ClusterGroup& group_;
  const NodeLinks& node_links_;
  const Rails& rails_;
  const LaneRate& lane_;        ///< of rails
  const LaneRate& world_lane_;  ///< of all ranks: a rail where nodes have one
  double links_;                ///< out of a node, this group's part of them
  double nodes_;
  double locals_;
};

double wire_bytes(const codec::CodecSpec& spec, Dtype plain, std::size_t n) {
  return static_cast<double>(codec::Codec(spec, plain).wire_bytes(n));
}

std::size_t block_of(const codec::CodecSpec& spec, Dtype plain) {
  return codec::Codec(spec, plain).block();
}

std::size_t pieces_of(std::size_t count, std::size_t depth, std::size_t block) {
  return std::max<std::size_t>(1, collective::chunk_plan(count, depth, block).size());
}

/// Whether the step between two hops decodes, sums and encodes at once.
bool one_pass(const ReduceShape& shape) {
  return codec::ReduceEncode({shape.first, shape.plain}, {shape.second, shape.plain})
             .scratch_elements(1, 1) == 0;
}

enum class GatherAlgorithm : std::uint8_t { direct, flat, native, native_images, two_level };
constexpr auto enum_names(GatherAlgorithm) {
  return name_table("direct", "flat", "native", "native-images", "two-level");
}
enum class ReduceAlgorithm : std::uint8_t { one_hop, two_hop, flat, native, ordered };
constexpr auto enum_names(ReduceAlgorithm) {
  return name_table("1-hop", "2-hop", "flat", "native", "ordered");
}

std::invalid_argument unknown(const std::string& algorithm) {
  return std::invalid_argument(fmt::format("plan: the time of {} is not known", algorithm));
}

/// Algorithm `name`, one of those whose route is described here; throws unknown() else.
template <class Algorithm>
Algorithm known(const std::string& name) {
  if (const auto algorithm = parse_enum<Algorithm>(name)) return *algorithm;
  throw unknown(name);
}

/// Kernels and transfers of different pieces run at the same time: every stage of a half but the
/// longest shows once, not once per piece.
Stages overlapped(const Stages& half, std::size_t pieces) {
  const auto by_seconds = [](const Stage& a, const Stage& b) { return a.seconds < b.seconds; };
  const Stage* longest = std::max_element(half.begin(), half.end(), by_seconds);
  Stages made;
  for (const Stage& stage : half) {
    const bool whole = &stage == longest || stage.resource == Resource::none;
    Stage shown = stage;
    shown.seconds /= whole ? 1.0 : static_cast<double>(pieces);
    made.add(shown);
  }
  return made;
}

OpCost pipelined(const OpCost& cost) {
  return {.start = overlapped(cost.start, cost.pieces),
          .finish = overlapped(cost.finish, cost.pieces),
          .pieces = cost.pieces};
}

/// `memory`: what is encoded. `dense`: ReduceShape's.
OpCost one_hop(const Links& links, double memory, double image, double sum, std::size_t pieces,
               bool dense) {
  const double share = 1.0 / static_cast<double>(pieces);
  OpCost cost{.start = {}, .finish = {}, .pieces = pieces};
  // In one piece, what needs no encoding travels as it lies.
  const bool zero_copy = dense && pieces == 1 && memory == links.ranks() * image;
  if (!zero_copy) links.kernel(cost.start, share * (memory + links.ranks() * image));
  links.to_all(cost.start, share * image);
  links.own_part(cost.start, share * image);
  links.kernel(cost.finish, share * (links.ranks() * image + sum));
  return pipelined(cost);
}

}  // namespace

GatherShape shape_of(std::string_view algorithm, const collective::AllGatherPlan& plan) {
  return {.algorithm = std::string(algorithm),
          .count = plan.parts.count,
          .memory = plan.memory,
          .codec = plan.codec,
          .depth = plan.depth};
}

GatherShape shape_of(std::string_view algorithm, const collective::ExactGatherPlan& plan,
                     double bits) {
  return {.algorithm = std::string(algorithm),
          .count = plan.count,
          .memory = plan.dtype,
          .codec = {},
          .exact_image = codec::exact_bytes(plan.count, zero::shape_of_bits(plan.count, bits))};
}

ReduceShape shape_of(std::string_view algorithm, const collective::ReduceScatterPlan& plan) {
  return {.algorithm = std::string(algorithm),
          .count = plan.parts.count,
          .plain = plan.plain,
          .first = plan.codec_first,
          .second = plan.codec_second,
          .depth = plan.depth,
          .memory = plan.memory,
          .dense = plan.parts.stride == plan.parts.count};
}

double kernel_seconds(double bytes, const Cluster& cluster) {
  return bytes / cluster.gpu.memory_rate;
}

OpCost gather_cost(const GatherShape& shape, const ClusterGroup& group) {
  const Links links(group);
  const double whole =
      static_cast<double>(shape.count) * static_cast<double>(size_of(shape.memory));
  OpCost cost;
  if (group.ranks() == 1) {
    links.kernel(cost.start, whole + whole);
    return cost;
  }
  const auto algorithm = known<GatherAlgorithm>(shape.algorithm);
  if (algorithm == GatherAlgorithm::native) {
    links.ring(cost.start, wire_bytes(shape.codec, shape.memory, shape.count), /*vendors=*/true);
    return cost;
  }
  cost.pieces = pieces_of(shape.count, shape.depth, block_of(shape.codec, shape.memory));
  const auto pieces = static_cast<double>(cost.pieces);
  const double part = whole / pieces;
  const bool exact = shape.exact_image > 0;
  const double image = (exact ? static_cast<double>(shape.exact_image)
                              : wire_bytes(shape.codec, shape.memory, shape.count)) /
                       pieces;
  if (shape.own != OwnImage::in_place)
    links.kernel(cost.start, shape.own == OwnImage::copied ? image + image : part + image);
  switch (algorithm) {
    case GatherAlgorithm::two_level:
      links.on_rails(cost.start, image);
      links.inside_node(cost.finish, links.nodes() * image);
      break;
    case GatherAlgorithm::direct:
      links.to_all(cost.start, image);
      if (shape.codec == codec::CodecSpec{} && !exact)
        return pipelined(cost);  // it arrives where it lies
      break;
    case GatherAlgorithm::flat:
      links.ring(cost.start, image, /*vendors=*/false);
      break;
    case GatherAlgorithm::native_images:
    case GatherAlgorithm::native:
      links.ring(cost.start, image, /*vendors=*/true);
      break;
  }
  links.kernel(cost.finish, links.ranks() * (image + part));
  return pipelined(cost);
}

OpCost reduce_cost(const ReduceShape& shape, const ClusterGroup& group) {
  const Links links(group);
  const double sum = static_cast<double>(shape.count) * sizeof(float);
  const double memory =
      links.ranks() * static_cast<double>(shape.count) * static_cast<double>(size_of(shape.memory));
  const double plain = static_cast<double>(shape.count) * static_cast<double>(size_of(shape.plain));
  const auto cut = [&](std::size_t block) { return pieces_of(shape.count, shape.depth, block); };
  const auto algorithm = known<ReduceAlgorithm>(shape.algorithm);
  const bool vendors = algorithm == ReduceAlgorithm::native;
  if (vendors || algorithm == ReduceAlgorithm::flat) {
    OpCost cost{.start = {}, .finish = {}, .pieces = vendors ? 1 : cut(1)};
    const double share = 1.0 / static_cast<double>(cost.pieces);
    const bool as_it_lies = vendors && shape.memory == shape.plain && shape.dense;
    if (!as_it_lies) links.kernel(cost.start, share * (memory + links.ranks() * plain));
    links.ring(cost.start, share * plain, vendors);
    links.kernel(cost.finish, share * (plain + sum));
    return pipelined(cost);
  }
  if (algorithm == ReduceAlgorithm::ordered) {
    return one_hop(links, memory, plain, sum, cut(1), shape.dense);
  }
  const std::size_t first_block = block_of(shape.first, shape.plain);
  const double slice = wire_bytes(shape.first, shape.plain, shape.count);
  if (algorithm == ReduceAlgorithm::one_hop || group.nodes == 1) {
    return one_hop(links, memory, slice, sum, cut(first_block), shape.dense);
  }
  const std::size_t second_block = block_of(shape.second, shape.plain);
  const double second = wire_bytes(shape.second, shape.plain, shape.count);
  if (group.ranks_per_node == 1) {
    return one_hop(links, memory, second, sum, cut(second_block), shape.dense);
  }
  const double first = wire_bytes(shape.first, shape.plain, group.nodes * shape.count);
  OpCost cost{.start = {}, .finish = {}, .pieces = cut(std::max(first_block, second_block))};
  const double share = 1.0 / static_cast<double>(cost.pieces);
  links.kernel(cost.start, share * (memory + links.locals() * first));
  links.inside_node(cost.start, share * first);
  // In fp32 between two kernels, written and read, where no kernel does both.
  const double between = one_pass(shape) ? 0 : 2 * links.nodes() * sum;
  links.kernel(cost.finish, share * (links.locals() * first + between + links.nodes() * second));
  links.on_rails(cost.finish, share * second);
  links.kernel(cost.finish, share * (links.nodes() * second + sum));
  return pipelined(cost);
}

}  // namespace zeropp::plan
