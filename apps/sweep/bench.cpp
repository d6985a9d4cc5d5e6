#include "apps/sweep/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "apps/sweep/comparison.hpp"
#include "apps/sweep/statistics.hpp"
#include "lib/device/buffer.hpp"

namespace zeropp::sweep {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// Elements that are made, copied and compared at once: a multiple of every block.
constexpr std::size_t kPiece = std::size_t{1} << 17U;
/// Standard errors that chance may move a slope by: a sweep fits thousands.
constexpr double kChance = 6;

enum class Mode { out_of_place, in_place };

std::size_t bits_of_format(const codec::CodecSpec& spec) {
  for (const auto& info : codec::formats()) {
    if (info.name == spec.format) return info.bits;
  }
  return 0;
}

class Bench {
 public:
  Bench(const Place& place, const BenchOptions& options, const Collective& collective,
        const Shape& shape, const Way& way, std::string label, std::vector<Finding>& findings)
      : place_(place),
        options_(options),
        collective_(collective),
        shape_(shape),
        way_(way),
        label_(std::move(label)),
        findings_(findings),
        memory_(collective.memory(shape, way)),
        data_(way.is_lossless() ? Data::Kind::integers : Data::Kind::normal, options.seed,
              shape.dtype, static_cast<int>(shape.ranks())),
        staging_(kPiece * sizeof(float), place.device.staging()) {
    const std::size_t out_bytes =
        std::max(memory_.result_bytes(), memory_.in_place_bytes(shape.dtype));
    input_ = Buffer(memory_.input_bytes(shape.dtype), place.device.memory);
    for (std::size_t i = 0; i < options.repetition.aggregated; ++i) {
      Lane lane{.plan = collective.plan({.groups = place.groups,
                                         .group = place.group,
                                         .recorder = recorder_,
                                         .device = place.device},
                                        shape, way),
                .workspace = {},
                .result = Buffer(out_bytes, place.device.memory)};
      lane.workspace = Buffer(lane.plan->workspace_bytes(), place.device.memory);
      lanes_.push_back(std::move(lane));
    }
  }

  void run(Row& row) {
    row.modelled = is_modelled();
    row.out_of_place = measure_in(Mode::out_of_place, row);
    row.in_place = measure_in(Mode::in_place, row);
  }

 private:
  /// One of the operations that an iteration starts together.
  struct Lane {
    std::unique_ptr<Planned> plan;
    Buffer workspace;
    Buffer result;
  };

  Measurement measure_in(Mode mode, const Row& row) {
    mode_ = mode;
    problems_.clear();
    Measurement m;
    m.max_error = m.slope = kNan;
    sign_ = 1;
    send(data_);
    forget();
    const bool restores = mode == Mode::in_place && memory_.replaces_input;
    const std::function<void()> restore = [this] { this->restore(); };
    restore();
    count_bytes(m);
    m.samples = measure(options_.repetition, control(), place_.stream,
                        restores ? restore : std::function<void()>{}, [this] { operate(); });
    summarize_into(m, row.size);
    if (options_.checks > 0) {
      m.nwrong = 0;
      m.max_error = 0;
      check("timed", m);
      for (std::size_t i = 0; i < options_.checks; ++i) {
        sign_ = -sign_;
        send(data_);
        once();
        check("checked", m);
      }
      if (mode == Mode::out_of_place) check_non_finite(m);
    }
    judge(m);
    return m;
  }

  // Data ------------------------------------------------------------------------------------------

  /// This rank's input, times sign_, into input_.
  void send(const Data& data) {
    const View input = input_.view(memory_.input, shape_.dtype);
    std::vector<float> values;
    for (std::size_t first = 0; first < memory_.input; first += kPiece) {
      const std::size_t length = std::min(kPiece, memory_.input - first);
      const std::size_t filled =
          first < memory_.filled ? std::min(length, memory_.filled - first) : 0;
      values.assign(length, 0.0F);
      data.values(own_rank(), first, std::span(values).first(filled));
      const View staged = staging_.view(length, shape_.dtype);
      with_type(shape_.dtype, [&]<class T>(T*) {
        for (std::size_t i = 0; i < length; ++i) {
          staged.as<T>()[i] = saturating_cast<T>(static_cast<float>(sign_) * values[i]);
        }
      });
      copy(input.part(first, length).data, staged.data, staged.bytes());
      place_.stream.synchronize();
    }
  }

  /// Nothing of an earlier run is left.
  void forget() {
    for (const Lane& lane : lanes_) {
      place_.device.runtime->fill(lane.result.data(), lane.result.bytes(), lane.result.kind(),
                                  Comparison::kPoison);
    }
  }

  /// In place: the input back where it is read.
  void restore() {
    if (mode_ == Mode::out_of_place) return;
    for (const Lane& lane : lanes_) {
      copy(lane.result.data() + memory_.input_at, input_.data(), input_.bytes());
    }
  }

  void copy(void* to, const void* from, std::size_t bytes) const {
    place_.stream.copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  }

  // Runs ------------------------------------------------------------------------------------------

  [[nodiscard]] ConstView input_of(const Lane& lane) const {
    return mode_ == Mode::out_of_place
               ? input_.view(memory_.input, shape_.dtype)
               : lane.result.view(memory_.input, shape_.dtype, memory_.input_at);
  }
  [[nodiscard]] View result_of(const Lane& lane) const {
    return lane.result.view(memory_.result, memory_.result_dtype,
                            mode_ == Mode::out_of_place ? 0 : memory_.result_at);
  }

  void operate() {
    const StreamHandle stream = place_.stream.handle();
    for (const Lane& lane : lanes_) {
      lane.plan->start(input_of(lane), result_of(lane), lane.workspace.span(), stream);
    }
    for (const Lane& lane : lanes_) lane.plan->finish(stream);
  }

  /// A run that finds its input and nothing else.
  void once() {
    forget();
    restore();
    operate();
    place_.stream.synchronize();
  }

  /// What one run sends: counted, and not other than predicted; of the vendor's, predicted.
  void count_bytes(Measurement& m) {
    const comm::Bytes before = counted();
    operate();
    place_.stream.synchronize();
    const comm::Bytes predicted = lanes_.front().plan->volume();
    comm::Bytes sent = counted() - before;
    const std::size_t lanes = lanes_.size();
    if (is_modelled()) {
      sent = predicted;
    } else {
      sent = {sent.intra / lanes, sent.inter / lanes};
    }
    std::array<std::uint64_t, 3> sums{sent.intra, sent.inter,
                                      sent == predicted ? std::uint64_t{0} : std::uint64_t{1}};
    control().all_reduce_sum(sums);
    std::array<double, 1> busiest{static_cast<double>(sent.intra + sent.inter)};
    control().all_reduce_max(busiest);
    m.wire_bytes_intra = sums[0];
    m.wire_bytes_inter = sums[1];
    busiest_ = busiest[0];
    if (sums[2] > 0) problems_.push_back("the bytes sent are not the bytes predicted");
  }

  [[nodiscard]] comm::Bytes counted() const {
    comm::Bytes sum;
    for (const auto& row : recorder_.collectives) {
      sum += {row.wire_bytes_intra, row.wire_bytes_inter};
    }
    return sum;
  }

  void summarize_into(Measurement& m, std::size_t size) const {
    std::vector<double> shown;
    std::vector<double> slowest;
    for (const auto& ranks : m.samples.seconds) {
      shown.push_back(over_ranks(ranks) * 1e6);
      slowest.push_back(std::ranges::max(ranks) * 1e6);
    }
    m.time = summarize(shown).median;
    const Summary summary = summarize(slowest);
    m.p50 = summary.median;
    m.p95 = summary.p95;
    m.cv = summary.variation;
    m.low = summary.low;
    m.high = summary.high;
    const double seconds = m.time * 1e-6;
    m.alg_bw = static_cast<double>(size) / seconds * 1e-9;
    m.bus_bw = m.alg_bw * collective_.bus_factor(shape_.ranks());
    m.wire_bus_bw = busiest_ / seconds * 1e-9;
  }

  [[nodiscard]] double over_ranks(const std::vector<double>& ranks) const {
    switch (options_.over_ranks) {
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

  // Checks ----------------------------------------------------------------------------------------

  /// Calls `body(result piece in host memory, its first element, part, first of the part)`.
  template <class Body>
  void for_each_piece(const Lane& lane, Body&& body) {
    const View result = result_of(lane);
    for (std::size_t part = 0; part < collective_.parts(shape_); ++part) {
      const std::size_t length = collective_.part_length(shape_, part);
      for (std::size_t first = 0; first < length; first += kPiece) {
        const std::size_t index = part * collective_.part_stride(shape_) + first;
        const std::size_t count = std::min(kPiece, length - first);
        const View staged = staging_.view(count, memory_.result_dtype);
        copy(staged.data, result.part(index, count).data, staged.bytes());
        place_.stream.synchronize();
        body(ConstView(staged), index, part, first);
      }
    }
  }

  void check(const char* which, Measurement& m) {
    std::string finding;
    std::array<std::uint64_t, 1> wrong{0};
    Moments moments;
    std::array<double, 1> largest{0};
    for (const Lane& lane : lanes_) {
      if (is_verified(lane)) {
        largest[0] = std::max(largest[0], verified_error_);
        moments = verified_moments_;
        continue;
      }
      Comparison comparison(sign_);
      for_each_piece(
          lane, [&](ConstView got, std::size_t index, std::size_t part, std::size_t first) {
            comparison.add(got, index,
                           collective_.expected(shape_, way_, data_, part, first, got.count));
          });
      wrong[0] += comparison.wrong();
      largest[0] = std::max(largest[0], comparison.largest_error());
      moments = comparison.moments();
      if (comparison.wrong() == 0) remember(lane, comparison);
      if (comparison.wrong() > 0 && finding.empty()) finding = comparison.describe();
    }
    control().all_reduce_sum(wrong);
    control().all_reduce_max(largest);
    *m.nwrong += wrong[0];
    m.max_error = std::max(m.max_error, largest[0]);
    report(which, finding);
    judge_slope(which, moments, wrong[0] == 0, m);
  }

  /// Each rank's own: on some collectives all ranks have the same result, which is no more data.
  void judge_slope(const char* which, const Moments& moments, bool elements_are_right,
                   Measurement& m) {
    const std::array<double, 3> own{
        moments.slope(),
        slope_tolerance(bits_of_format(way_.codec)) + kChance * moments.slope_error(),
        moments.count};
    const std::vector<double> all = control().all_gather(own);
    for (std::size_t i = 0; i < all.size(); i += own.size()) {
      if (all[i + 2] == 0) continue;  // has no elements
      const double deviation = std::abs(all[i] - 1);
      if (std::isnan(m.slope) || !(deviation <= std::abs(m.slope - 1))) m.slope = all[i];
      if (!elements_are_right || deviation <= all[i + 1]) continue;
      problems_.push_back(
          fmt::format("the {} result of rank {} has the slope {:.4f}, not 1 "
                      "within {:.4f}",
                      which, i / own.size(), all[i], all[i + 1]));
    }
  }

  /// A NaN and an infinity of one rank stay non-finite wherever they belong, and nothing else of
  /// another block becomes so.
  void check_non_finite(Measurement& m) {
    if (shape_.count == 0) return;
    const std::size_t stride =
        std::min(collective_.part_stride(shape_), std::max<std::size_t>(memory_.filled, 1));
    const Data planted = data_.with({.rank = shape_.members[static_cast<std::size_t>(shape_.root)],
                                     .stride = stride,
                                     .nan_at = std::min<std::size_t>(stride - 1, 37),
                                     .infinity_at = std::min<std::size_t>(stride - 1, 1000)});
    sign_ = 1;
    send(planted);
    once();
    const std::size_t block = codec::Codec(way_.codec, shape_.dtype).block();
    const Way exact{way_.algorithm, {}};
    std::array<std::uint64_t, 1> wrong{0};
    std::string finding;
    for_each_piece(
        lanes_.front(), [&](ConstView got, std::size_t index, std::size_t part, std::size_t first) {
          Expected expected{std::vector<double>(got.count, 0.0), {}};
          // The planted elements lie in the first piece of a part.
          if (first == 0) {
            expected = collective_.expected(shape_, exact, planted, part, first, got.count);
          }
          for (std::size_t begin = 0; begin < got.count; begin += block) {
            const std::size_t end = std::min(got.count, begin + block);
            const auto begins = expected.values.begin();
            const bool poisoned = std::any_of(begins + static_cast<std::ptrdiff_t>(begin),
                                              begins + static_cast<std::ptrdiff_t>(end),
                                              [](double value) { return !std::isfinite(value); });
            for (std::size_t i = begin; i < end; ++i) {
              const float value =
                  with_type(got.dtype, [&]<class T>(T*) { return to_float(got.as<T>()[i]); });
              const bool finite = std::isfinite(expected.values[i]);
              if (finite ? poisoned || std::isfinite(value) : !std::isfinite(value)) continue;
              if (wrong[0]++ == 0) {
                finding = fmt::format("index {}: got {}, wanted {}", index + i, value,
                                      finite ? "a finite value" : "a NaN or an infinity");
              }
            }
          }
        });
    control().all_reduce_sum(wrong);
    *m.nwrong += wrong[0];
    report("non-finite", finding);
  }

  /// The bits of a result that was compared and right, or their negatives with negated data: the
  /// codecs are symmetric.
  [[nodiscard]] bool is_verified(const Lane& lane) {
    if (verified_.empty()) return false;
    bool same = true;
    for_each_piece(lane, [&](ConstView got, std::size_t index, std::size_t, std::size_t) {
      with_type(got.dtype, [&]<class T>(T*) {
        const T* const now = got.as<T>();
        const T* const then = reinterpret_cast<const T*>(verified_.data()) + index;
        const float sign = sign_ == verified_sign_ ? 1.0F : -1.0F;
        for (std::size_t i = 0; same && i < got.count; ++i) {
          same = to_float(now[i]) == sign * to_float(then[i]);
        }
      });
    });
    return same;
  }
  void remember(const Lane& lane, const Comparison& comparison) {
    if (!verified_.empty()) return;
    verified_error_ = comparison.largest_error();
    verified_moments_ = comparison.moments();
    verified_.resize(memory_.result_bytes());
    verified_sign_ = sign_;
    for_each_piece(lane, [&](ConstView got, std::size_t index, std::size_t, std::size_t) {
      const auto* const bytes = static_cast<const std::byte*>(got.data);
      std::copy(
          bytes, bytes + got.bytes(),
          verified_.begin() + static_cast<std::ptrdiff_t>(index * size_of(memory_.result_dtype)));
    });
  }

  /// One line a rank that found something.
  void report(const char* which, const std::string& finding) {
    const std::string own =
        finding.empty() ? finding
                        : fmt::format("{} {}: rank {} ({} run), {}", label_,
                                      mode_ == Mode::out_of_place ? "out of place" : "in place",
                                      control().rank(), which, finding);
    const std::vector<std::string> all = control().gather(own);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].empty()) findings_.push_back({rank, all[rank]});
    }
  }

  void judge(Measurement& m) {
    if (m.nwrong.value_or(0) > 0) {
      problems_.insert(problems_.begin(), fmt::format("{} wrong values", *m.nwrong));
    }
    if (options_.link_peak > 0 && m.wire_bus_bw > options_.link_peak) {
      problems_.push_back(
          fmt::format("the wire bus bandwidth, {:.2f} GB/s, is above the link's "
                      "peak, {:.2f}",
                      m.wire_bus_bw, options_.link_peak));
    }
    if (!problems_.empty()) m.verdict = "INVALID: " + problems_.front();
  }

  [[nodiscard]] bool is_modelled() const {
    return std::ranges::any_of(collective_.algorithms(), [&](const Algorithm& algorithm) {
      return algorithm.name == way_.algorithm && algorithm.modelled;
    });
  }
  [[nodiscard]] comm::Control& control() const { return place_.context.control(); }
  [[nodiscard]] int own_rank() const {
    return shape_.members[static_cast<std::size_t>(shape_.rank)];
  }

  const Place& place_;
  const BenchOptions& options_;
  const Collective& collective_;
  const Shape& shape_;
  const Way& way_;
  std::string label_;
  std::vector<Finding>& findings_;
  Memory memory_;
  Data data_;
  Buffer staging_;
  trace::Recorder recorder_;
  Buffer input_;
  std::vector<Lane> lanes_;
  Mode mode_ = Mode::out_of_place;
  double sign_ = 1;
  double busiest_ = 0;  ///< bytes that the busiest rank sends in one run
  std::vector<std::string> problems_;
  std::vector<std::byte> verified_;  ///< a result that is right; empty: none yet
  double verified_sign_ = 1;
  double verified_error_ = 0;  ///< of its comparison, as are the moments
  Moments verified_moments_;
};

}  // namespace

void bench(const Place& place, const BenchOptions& options, const Collective& collective,
           const Shape& shape, const Way& way, Row& row, std::vector<Finding>& findings) {
  std::optional<Bench> run;
  place.context.agree_on([&] {
    run.emplace(place, options, collective, shape, way,
                fmt::format("{} {} {} of {} bytes on group {}", row.collective, row.codec,
                            row.algorithm, row.size, row.group),
                findings);
  });
  run->run(row);
}

}  // namespace zeropp::sweep
