// A cluster as the planner sees it: its GPUs, its links and the rates that they reach. Read from a
// JSON file (inputs/clusters/README.md describes the keys, with their units); `zpp_plan calibrate`
// fills one from measurements. Values here are in bytes, seconds and operations a second.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zeropp::plan {

/// Rates that a product of [rows, in] and [out, in] reaches, FLOP/s. Backward is both of its
/// products.
struct ProductRate {
  std::size_t rows = 0;
  std::size_t in = 0;
  std::size_t out = 0;
  double forward = 0;
  double backward = 0;
};

/// Rates that attention reaches, FLOP/s, of the half that a causal mask leaves.
struct AttentionRate {
  std::size_t sequence = 0;
  std::size_t head_size = 0;
  double forward = 0;
  double backward = 0;
};

struct Gpu {
  std::string name;
  double peak = 0;         ///< FLOP/s, dense, 16 bit: what MFU is of
  double memory = 0;       ///< bytes
  double memory_rate = 0;  ///< bytes/s, read + written, of a copy
  /// Share of its own rate that a kernel reaches within a step: clocks under load, gaps between
  /// kernels.
  double step_share = 1;
  /// s, more for each layer and pass: launches, the tails of kernels, small kernels.
  double layer_gap = 0;
  std::vector<ProductRate> products;     ///< at least one
  std::vector<AttentionRate> attention;  ///< at least one
};

/// Links between the GPUs of a node.
struct NodeLinks {
  double latency = 0;      ///< s, of a collective
  double hop_latency = 0;  ///< s, more for each further rank of a ring
  double rate = 0;         ///< bytes/s that a GPU sends in one collective
  double most = 0;         ///< bytes/s, in all at a time
  /// Part of the GPU's multiprocessors that a transfer takes from compute beside it.
  double gpu_share = 0;
  double copies_rate =
      0;  ///< bytes/s that a GPU's copy engines send in one collective; 0: not known
  double copies_gpu_share = 0;  ///< likewise of these: of memory, in effect
};

/// Rate that a link carries in messages of one size.
struct SizeRate {
  double bytes = 0;  ///< that a rank sends
  double rate = 0;   ///< bytes/s
};

/// Rates that a link carries when a collective is cut over so many communicators.
struct LaneRate {
  std::size_t lanes = 1;
  double latency = 0;           ///< s, of a collective
  double rate = 0;              ///< bytes/s, of messages larger than those of `sizes`
  std::vector<SizeRate> sizes;  ///< ascending; none: `rate` of any message

  /// Rate of messages of `bytes` that a rank sends, bytes/s: between two sizes in proportion to the
  /// logarithm.
  [[nodiscard]] double rate_of(double bytes) const;
};

/// Links that leave a node.
struct Rails {
  double links_per_node = 1;  ///< shared by the GPUs of the node
  /// bytes/s that leave a node in one ring of the vendor's, whose channels drive the links
  /// otherwise than lanes do; 0: what the links carry.
  double ring_rate = 0;
  double hop_latency = 0;       ///< s, more for each further node
  std::vector<LaneRate> lanes;  ///< ascending, at least one
  double gpu_share = 0;         ///< as of NodeLinks
  /// Part that the rates here are of what the links are sold as; 1 where they were measured.
  double sold_share = 1;

  /// The row with so many lanes, else the nearest below, else the first.
  [[nodiscard]] const LaneRate& with(std::size_t lanes_used) const;
};

/// Rates that bound offload; 0: not known.
struct Host {
  double link_rate = 0;    ///< bytes/s of a GPU's link to it, in one direction, page-locked
  double memory_rate = 0;  ///< bytes/s, read + written, of a copy by all threads of a node
  /// bytes/s, as link_rate, of memory that is not page-locked: one thread of the driver's copies
  /// it.
  double pageable_rate = 0;

  [[nodiscard]] bool known() const { return link_rate > 0 && memory_rate > 0; }
};

/// How the training program runs its schedule, as far as its steps take longer or shorter by it.
struct EngineModel {
  /// Part that the engine hides of what its schedule could hide; 1 for zpp_train.
  double overlap = 1;
  /// Parameters that may be gathered at a time: with fewer than two layers nothing is hidden. 0: no
  /// limit.
  double max_live_parameters = 0;
  /// Memory traffic a parameter and step, beside what the schedule's operations move: copies,
  /// casts.
  double bytes_per_parameter = 0;
  /// Reductions of gradients that are under way together: 2, or 1 where one begins when the one
  /// before it has ended.
  std::size_t reductions_at_a_time = 2;
};

struct Cluster {
  std::string name;
  std::string source;  ///< where the numbers come from
  std::size_t nodes = 1;
  std::size_t gpus_per_node = 1;
  Gpu gpu;
  NodeLinks node_links;
  Rails rails;
  Host host;
  EngineModel engine;
};

/// Throws Error(io) when the file cannot be read, Error(usage), one line with the file, the key and
/// what is allowed, for malformed JSON, an unknown or missing key, or a value out of range.
Cluster read_cluster(const std::filesystem::path& path);
/// Cluster from the text of a file; `name` stands for the file in messages. Throws Error(usage) as
/// read_cluster() does.
Cluster parse_cluster(const std::string& text, const std::string& name);
/// JSON that read_cluster() reads.
nlohmann::json to_json(const Cluster& cluster);

}  // namespace zeropp::plan
