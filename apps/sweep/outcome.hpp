// All that a sweep found: its rows, a size of a collective with a codec and an algorithm each, out
// of place and in place; what every output writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/sweep/timing.hpp"
#include "lib/trace/verdict.hpp"

namespace zeropp::sweep {

struct Measurement {
  double time = 0;                      ///< microseconds, as the columns show it
  double alg_bw = 0;                    ///< GB/s
  double bus_bw = 0;                    ///< GB/s, effective: of uncompressed bytes
  std::optional<std::uint64_t> nwrong;  ///< over all checks and ranks; none: not checked
  std::uint64_t wire_bytes_intra = 0;   ///< of one run, sum over ranks, sent inside nodes
  std::uint64_t wire_bytes_inter = 0;   ///< of one run, sum over ranks, sent across nodes
  double wire_bus_bw = 0;               ///< GB/s: what the busiest rank sent
  double ratio = 0;                     ///< NaN without an uncompressed row to compare with
  double max_error = 0;                 ///< share of the bound; NaN: not checked
  double slope = 1;                     ///< fitted between wanted and got; NaN: not checked
  Samples samples;
  double p50 = 0;  ///< microseconds, of the largest over ranks
  double p95 = 0;
  double p99 = 0;
  double cv = 0;
  double low = 0;  ///< 95 % interval of p50
  double high = 0;
  std::string verdict = "VALID";  ///< or "INVALID: reason"

  [[nodiscard]] std::uint64_t wire_bytes() const { return wire_bytes_intra + wire_bytes_inter; }
  [[nodiscard]] bool valid() const { return trace::is_valid(verdict); }
};

struct Row {
  std::string collective;
  std::string codec;
  std::string algorithm;
  std::string group;
  std::string transport;
  std::size_t size = 0;   ///< bytes
  std::size_t count = 0;  ///< elements
  std::string type;       ///< nccl-tests' name
  std::string redop;
  int root = -1;          ///< -1: none
  bool modelled = false;  ///< the vendor's route: wire bytes are those of a ring, not counted
  Measurement out_of_place;
  Measurement in_place;
};

/// Finding of a check of one rank, as one line.
struct Finding {
  std::size_t rank;
  std::string text;
};

/// A collective by one codec and algorithm on one group.
struct WayBandwidth {
  std::string collective;
  std::string codec;
  std::string algorithm;
  std::string group;
  double mean = 0;  ///< GB/s, over rows and both columns, as nccl-tests'
};

struct Outcome {
  std::vector<Row> rows;
  std::vector<Finding> findings;  ///< on rank 0
  std::string ended;              ///< why it ended before its last row; empty: it ran whole

  /// Wrong values of all rows.
  [[nodiscard]] std::uint64_t out_of_bounds() const;
  /// Mean bus bandwidth of each way in which a collective ran, in the order of the rows.
  [[nodiscard]] std::vector<WayBandwidth> bus_bandwidths() const;
  /// Measurements that are INVALID.
  [[nodiscard]] std::size_t invalid() const;
  /// "VALID", or "INVALID: reason": a measurement, or that it ended early.
  [[nodiscard]] std::string verdict() const;
  /// The first line of each rank.
  [[nodiscard]] std::vector<std::string> first_findings() const;
};

}  // namespace zeropp::sweep
