#include "lib/app/gpu_sampling.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "lib/base/log.hpp"

namespace zeropp::app {

namespace {

using nlohmann::json;

/// JSON has no NaN.
double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

json to_json(const GpuSeries& series) {
  json rows = json::array();
  for (const auto& [time, r] : series.samples) {
    rows.push_back({time, r.sm_clock, r.memory_clock, r.power, r.temperature, r.utilization,
                    r.memory_utilization, describe_reasons(r)});
  }
  return {{"absent", series.absent}, {"rows", std::move(rows)}};
}

trace::GpuRow row_of(std::uint64_t rank, const json& row) {
  return {rank,           number(row[0]), number(row[1]), number(row[2]), number(row[3]),
          number(row[4]), number(row[5]), number(row[6]), row[7]};
}

/// Limits among the reasons "a,b".
std::vector<std::string_view> limits_in(std::string_view reasons) {
  std::vector<std::string_view> found;
  while (!reasons.empty()) {
    const std::string_view word = reasons.substr(0, reasons.find(','));
    reasons.remove_prefix(std::min(reasons.size(), word.size() + 1));
    if (std::ranges::any_of(clock_reasons(), [&](const ClockReason& reason) {
          return reason.holds_back && reason.name == word;
        })) {
      found.push_back(word);
    }
  }
  return found;
}

struct Throttling {
  std::size_t samples = 0;
  std::size_t throttled = 0;
  std::set<std::string_view> limits;
  double lowest = std::numeric_limits<double>::infinity();  ///< MHz, while throttled
  double highest = 0;                                       ///< MHz, ever

  [[nodiscard]] double share() const {
    return static_cast<double>(throttled) / static_cast<double>(samples);
  }
};

}  // namespace

std::string describe_throttling(const std::vector<trace::GpuRow>& rows,
                                const std::vector<trace::RankRow>& ranks) {
  std::map<std::uint64_t, Throttling> by_rank;
  for (const trace::GpuRow& row : rows) {
    Throttling& gpu = by_rank[row.rank];
    ++gpu.samples;
    gpu.highest = std::fmax(gpu.highest, row.sm_clock);
    const auto limits = limits_in(row.reasons);
    if (limits.empty()) continue;
    ++gpu.throttled;
    gpu.lowest = std::fmin(gpu.lowest, row.sm_clock);
    gpu.limits.insert(limits.begin(), limits.end());
  }
  const auto count =
      std::ranges::count_if(by_rank, [](const auto& entry) { return entry.second.throttled > 0; });
  if (count == 0) return "";
  const auto most =
      std::ranges::max_element(by_rank, {}, [](const auto& entry) { return entry.second.share(); });
  const auto& [rank, gpu] = *most;
  const std::string clocks =
      std::isfinite(gpu.lowest)
          ? fmt::format(", SM clock down to {:.0f} MHz, {:.0f} at best", gpu.lowest, gpu.highest)
          : std::string();
  return fmt::format(
      "clocks were held back on the GPUs of {} of {} ranks, most on that of rank {} on {}: {} in "
      "{:.0f} % of its {} readings{}",
      count, by_rank.size(), rank, ranks.at(rank).host, fmt::join(gpu.limits, ", "),
      100 * gpu.share(), gpu.samples, clocks);
}

GpuSampling::GpuSampling(const Context& context, Backend backend, double period)
    : context_(context), period_(period) {
  if (backend != Backend::cuda || period <= 0) return;
  const auto rank = static_cast<std::size_t>(context.control().rank());
  const auto index = static_cast<std::size_t>(context.gpus.index[rank]);
  sampler_.emplace(visible_gpus().at(index).uuid, period);
}

void GpuSampling::finish(trace::TraceData& data) {
  data.gpus.period = period_;
  const json own = to_json(sampler_ ? sampler_->stop() : GpuSeries{});
  std::uint64_t rank = 0;
  for (const std::string& text : context_.control().gather(own.dump())) {
    const json series = json::parse(text);
    for (const json& row : series["rows"]) data.gpus.rows.push_back(row_of(rank, row));
    const auto absent = series["absent"].get<std::string>();
    if (!absent.empty() && data.gpus.absent.empty()) {
      data.gpus.absent = fmt::format("rank {}: {}", rank, absent);
    }
    ++rank;
  }
  data.gpus.throttled = describe_throttling(data.gpus.rows, data.ranks);
  if (!data.gpus.throttled.empty()) log::warn(data.gpus.throttled);
}

}  // namespace zeropp::app
