#include "apps/sweep/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "apps/sweep/checks.hpp"
#include "lib/base/statistics.hpp"
#include "lib/base/units.hpp"

namespace zeropp::sweep {

namespace {

double over_ranks(OverRanks which, const std::vector<double>& ranks) {
  switch (which) {
    case OverRanks::rank_0:
      return ranks.front();
    case OverRanks::average:
      return std::accumulate(ranks.begin(), ranks.end(), 0.0) / static_cast<double>(ranks.size());
    case OverRanks::minimum:
      return std::ranges::min(ranks);
    case OverRanks::maximum:
      break;
  }
  return std::ranges::max(ranks);
}

class Bench {
 public:
  Bench(const SweepContext& sweep, const BenchOptions& options, const Collective& collective,
        const Shape& shape, const Data& data, Operation& operation, Checks& checks)
      : sweep_(sweep),
        options_(options),
        collective_(collective),
        shape_(shape),
        data_(data),
        operation_(operation),
        checks_(checks) {}

  Measurement measure_in(Mode mode, std::size_t size) {
    operation_.set(mode);
    problems_.clear();
    Measurement m;
    m.max_error = m.slope = std::numeric_limits<double>::quiet_NaN();
    const bool checked = options_.checks > 0 && (options_.check_maximum_bytes == 0 ||
                                                 size <= options_.check_maximum_bytes);
    if (checked) {
      operation_.send(data_, 1);
    } else {
      operation_.send_repeated(data_);
    }
    operation_.forget();
    operation_.restore();
    const double busiest = count_bytes(m);
    std::function<void()> restore;
    if (mode == Mode::in_place && operation_.memory().replaces_input) {
      restore = [this] { operation_.restore(); };
    }
    m.samples = measure(options_.repetition, control(), sweep_.stream, restore,
                        [this] { operation_.run(); });
    summarize_into(m, size, busiest);
    if (checked) check(m);
    compare_traffic();
    judge(m);
    return m;
  }

 private:
  /// Counts the bytes of one run; returns the bytes of the rank that sends most.
  double count_bytes(Measurement& m) {
    const comm::Bytes sent = operation_.count_traffic();
    std::array<std::uint64_t, 2> sums{sent.intra, sent.inter};
    control().all_reduce_sum(sums);
    std::array<double, 1> busiest{static_cast<double>(sent.intra + sent.inter)};
    control().all_reduce_max(busiest);
    m.wire_bytes_intra = sums[0];
    m.wire_bytes_inter = sums[1];
    return busiest[0];
  }

  /// Compares counted with predicted bytes of all runs, timed ones too, on all ranks.
  void compare_traffic() {
    std::array<double, 1> wrong{operation_.sent_as_predicted() ? 0.0 : 1.0};
    control().all_reduce_max(wrong);
    if (wrong[0] > 0) problems_.emplace_back("the bytes sent are not the bytes predicted");
  }

  void summarize_into(Measurement& m, std::size_t size, double busiest) const {
    std::vector<double> shown;
    shown.reserve(m.samples.seconds.size());
    for (const auto& ranks : m.samples.seconds) {
      shown.push_back(over_ranks(options_.over_ranks, ranks) / kMicro);
    }
    std::vector<double> slowest = m.samples.slowest();
    for (double& sample : slowest) sample /= kMicro;
    m.time = summarize(shown).median;
    const Summary summary = summarize(slowest);
    m.p50 = summary.median;
    m.p95 = summary.p95;
    m.p99 = summary.p99;
    m.cv = summary.variation;
    m.low = summary.low;
    m.high = summary.high;
    const double gigabytes_a_second = 1e-3 / m.time;  // of a byte in a microsecond
    m.alg_bw = static_cast<double>(size) * gigabytes_a_second;
    m.bus_bw = m.alg_bw * collective_.bus_factor(shape_.ranks());
    m.wire_bus_bw = busiest * gigabytes_a_second;
  }

  /// Checks the result of the timed runs, then of runs with the data negated in turn, and of one
  /// with values that are not finite.
  void check(Measurement& m) {
    double sign = 1;
    note(checks_.compare("timed", sign, m));
    for (std::size_t i = 0; i < options_.checks; ++i) {
      sign = -sign;
      operation_.send(data_, sign);
      operation_.run_alone();
      note(checks_.compare("checked", sign, m));
    }
    if (operation_.mode() == Mode::out_of_place) checks_.compare_non_finite(m);
  }

  void note(std::string problem) {
    if (!problem.empty()) problems_.push_back(std::move(problem));
  }

  void judge(Measurement& m) {
    if (m.nwrong.value_or(0) > 0) {
      problems_.insert(problems_.begin(), fmt::format("{} wrong values", *m.nwrong));
    }
    if (options_.link_peak > 0 && m.wire_bus_bw > options_.link_peak) {
      problems_.push_back(
          fmt::format("the wire bus bandwidth, {:.2f} GB/s, is above the link's peak, {:.2f}",
                      m.wire_bus_bw, options_.link_peak));
    }
    if (!problems_.empty()) m.verdict = "INVALID: " + problems_.front();
  }

  [[nodiscard]] comm::Control& control() const { return sweep_.context.control(); }

  const SweepContext& sweep_;
  const BenchOptions& options_;
  const Collective& collective_;
  const Shape& shape_;
  const Data& data_;
  Operation& operation_;
  Checks& checks_;
  std::vector<std::string> problems_;  ///< of the measurement that runs
};

}  // namespace

void bench(const SweepContext& sweep, const BenchOptions& options, const Collective& collective,
           const Shape& shape, const Variant& variant, Row& row, std::vector<Finding>& findings) {
  const Data data(variant.is_lossless() ? Data::Kind::integers : Data::Kind::normal, options.seed,
                  shape.dtype, static_cast<int>(shape.ranks()));
  std::optional<Operation> operation;
  sweep.context.agree_on([&] {
    operation.emplace(sweep, collective, shape, variant, options.repetition.times.operations);
  });
  operation->register_memory();
  Checks checks(sweep, collective, shape, variant, data, *operation,
                fmt::format("{} {} {} of {} bytes on group {}", row.collective, row.codec,
                            row.algorithm, row.size, row.group),
                findings);
  Bench run(sweep, options, collective, shape, data, *operation, checks);
  row.modelled = operation->is_modelled();
  row.out_of_place = run.measure_in(Mode::out_of_place, row.size);
  row.in_place = run.measure_in(Mode::in_place, row.size);
}

}  // namespace zeropp::sweep
