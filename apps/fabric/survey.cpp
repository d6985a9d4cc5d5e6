#include "apps/fabric/survey.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <thread>

#include "apps/fabric/doubts.hpp"
#include "apps/fabric/judge.hpp"
#include "apps/fabric/links.hpp"
#include "apps/fabric/outputs.hpp"
#include "apps/fabric/rounds.hpp"
#include "lib/app/gpu_sampling.hpp"
#include "lib/app/placement.hpp"
#include "lib/base/atomic_file.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/host.hpp"
#include "lib/base/log.hpp"
#include "lib/bench/timing.hpp"

namespace zeropp::fabric {

namespace {

/// Number of times that something is measured before it is called slow: chance does not strike one
/// link every time.
constexpr int kLooks = 4;

/// Share of the time for which a rank may wait for a processor. One other program makes it wait for
/// 0.25 to 0.7 of the time; the daemons of a system, for 0.001 to 0.05.
constexpr double kBusy = 0.1;

/// Threshold from which on ranks may wait: links may take twice as long.
constexpr double kThresholdOfWaiting = 1;

/// Seconds for which looks wait until ranks have their processors: longer than most files compile.
constexpr double kPatience = 10;

/// Time between two looks. Another guest of the same machine may slow a link for half a second, and
/// no rank waits then.
constexpr std::chrono::milliseconds kPause{500};

/// Least threshold where ranks share processors. A link's time then depends on which ranks share
/// one, for as long as they do: differences by a factor of 20 were seen on a machine without
/// faults.
constexpr double kThresholdOfShared = 29;

/// How long this rank waits for a processor from now on.
class Waiting {
 public:
  /// Share of the time since, on every rank. Collective.
  [[nodiscard]] std::vector<double> by_rank(comm::Control& control) const {
    const double waited = seconds_without_processor() - before_;
    return control.all_gather(std::array<double, 1>{waited / bench::seconds_since(begin_)});
  }

 private:
  bench::Clock::time_point begin_ = bench::Clock::now();
  double before_ = seconds_without_processor();
};

/// The better of two looks: noise only makes links slower.
void keep_better(Timing& kept, const Timing& other) {
  const double least = std::fmin(kept.least, other.least);
  if (std::isnan(kept.value) || other.value < kept.value) kept = other;
  kept.least = least;
}

void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  const std::string text = fmt::format("{}{}", fmt::join(lines, "\n"), lines.empty() ? "" : "\n");
  write_atomically(path, std::as_bytes(std::span(text)));
}

class Survey {
 public:
  Survey(const Options& options, const bench::Run& run, const comm::Groups& groups,
         const Stream& stream, double threshold)
      : options_(options),
        threshold_(threshold),
        run_(run),
        groups_(groups),
        rank_(static_cast<std::size_t>(run.control().rank())) {
    map_.local_ranks = run.context().world().local_ranks();
    map_.message_bytes = round_up(options.message_bytes, kSmallMessage);
    map_.links.resize(map_.ranks() * map_.ranks());
    if (groups.rail && groups.rail->size() > 1) {
      const auto others = static_cast<std::size_t>(groups.rail->size() - 1);
      const std::size_t part = map_.message_bytes / others / kSmallMessage * kSmallMessage;
      map_.rail_bytes = others * std::max(part, kSmallMessage);
      map_.rails.resize(map_.ranks());
      for (std::size_t rank = 0; rank < map_.ranks(); ++rank) {
        if (map_.local_ranks[rank].local == map_.local_ranks[rank_].local) {
          rail_members_.push_back(static_cast<int>(rank));
        }
      }
    }
    rounds_ = pair_rounds(map_.local_ranks);
    map_.rounds = rounds_.size();
    run.context().agree_on([&] {
      bench_.emplace(run.control(), run.device(), stream, map_.message_bytes, map_.rail_bytes);
    });
  }

  [[nodiscard]] const FabricMap& map() const { return map_; }

  Judgement run() {
    const auto begin = bench::Clock::now();
    const Waiting waiting;
    copy_own();
    load_rails();
    for (const Round& round : rounds_) {
      std::array<double, 1> elapsed{bench::seconds_since(begin)};
      control().all_reduce_max(elapsed);
      if (options_.seconds > 0 && elapsed[0] > options_.seconds) break;
      meet(round, map_.measured_rounds++);
    }
    share();
    find_busy(waiting);
    return look_until_sure();
  }

 private:
  [[nodiscard]] comm::Control& control() const { return run_.control(); }

  /// Waits at the begin of a piece of work until all ranks are there. Throws on all of them when
  /// one was asked to end.
  void line_up(const std::string& what) const {
    run_.end_if_interrupted(what);
    control().barrier();
  }

  void copy_own() {
    line_up("copies of own memory");
    const Link link = bench_->copy_own(*groups_.world);
    keep(rank_, link);
    map_.link(rank_, rank_).corrupted += link.corrupted;
  }

  void load_rails() {
    if (map_.rails.empty()) return;
    line_up("loaded rails");
    std::vector<double> corrupted(rail_members_.size(), 0);
    const RailLoad load =
        bench_->load_rail(*groups_.rail, rail_members_, map_.rail_bytes, corrupted);
    keep_better(map_.rails[rank_].latency, load.latency);
    keep_better(map_.rails[rank_].transfer, load.transfer);
    for (std::size_t member = 0; member < corrupted.size(); ++member) {
      map_.link(static_cast<std::size_t>(rail_members_[member]), rank_).corrupted +=
          corrupted[member];
    }
  }

  /// Measures both directions of every pair, one after the other, or their all-reduce.
  void meet(const Round& round, std::size_t number) {
    const int peer = round[rank_];
    const std::string what = fmt::format("round {} of {} of the pairs", number + 1, map_.rounds);
    if (options_.pairs == PairTest::all_reduce) {
      std::vector<int> lowest(round.size());
      for (std::size_t rank = 0; rank < round.size(); ++rank) {
        const int own = static_cast<int>(rank);
        lowest[rank] = round[rank] < 0 ? own : std::min(own, round[rank]);
      }
      const auto pair = run_.context().world().make_group(
          "pair", lowest, {.device = run_.device(), .transport = *options_.transport});
      line_up(what);
      const Link link = bench_->all_reduce(*pair, peer);
      if (peer < 0) return;
      const auto other = static_cast<std::size_t>(peer);
      keep(other, link);
      map_.link(other, rank_).corrupted += link.corrupted;
      return;
    }
    for (const bool lower_begins : {true, false}) {
      line_up(what);
      const bool begins = (static_cast<int>(rank_) < peer) == lower_begins;
      const Link link = bench_->meet(*groups_.world, peer, begins);
      if (peer < 0) continue;
      const auto other = static_cast<std::size_t>(peer);
      if (begins) keep(other, link);
      map_.link(other, rank_).corrupted += link.corrupted;
    }
  }

  void keep(std::size_t to, const Link& link) {
    keep_better(map_.link(rank_, to).latency, link.latency);
    keep_better(map_.link(rank_, to).transfer, link.transfer);
  }

  /// Judges, and measures doubts again. A look counts where no rank of the doubts is busy. Where
  /// one is busy until the patience ends, its doubts are taken back.
  Judgement look_until_sure() {
    const auto begin = bench::Clock::now();
    int quiet = 0;
    for (int looks = 1;; ++looks) {
      Judgement judgement = judge(map_, threshold_);
      const Doubts doubts = doubts_of(map_, judgement);
      if (doubts.links.empty() && doubts.rails.empty()) return judgement;
      if (!is_disturbed(map_, doubts)) {
        if (++quiet == kLooks) return judgement;
      } else {
        std::array<double, 1> elapsed{bench::seconds_since(begin)};
        control().all_reduce_max(elapsed);
        if (looks >= kLooks && elapsed[0] > kPatience) {
          take_back(map_, doubts);
          return judge(map_, threshold_);
        }
      }
      std::this_thread::sleep_for(kPause);
      const Waiting waiting;
      look_again(doubts);
      find_busy(waiting);
    }
  }

  void find_busy(const Waiting& waiting) {
    map_.waited = waiting.by_rank(control());
    map_.busy.clear();
    for (std::size_t rank = 0; rank < map_.ranks() && threshold_ < kThresholdOfWaiting; ++rank) {
      if (map_.waited[rank] > kBusy) map_.busy.insert(rank);
    }
  }

  /// Shares what every rank measured with every rank: its links as a sender, what arrived there
  /// damaged, its rail.
  void share() {
    std::vector<double> own;
    const auto put = [&](const Timing& t) { own.insert(own.end(), {t.value, t.spread, t.least}); };
    for (std::size_t other = 0; other < map_.ranks(); ++other) {
      put(map_.link(rank_, other).latency);
      put(map_.link(rank_, other).transfer);
      own.push_back(map_.link(other, rank_).corrupted);
    }
    if (!map_.rails.empty()) {
      put(map_.rails[rank_].latency);
      put(map_.rails[rank_].transfer);
    }
    const std::vector<double> all = control().all_gather(own);
    const double* next = all.data();
    const auto take = [&] {
      const Timing timing{next[0], next[1], next[2]};
      next += 3;
      return timing;
    };
    for (std::size_t rank = 0; rank < map_.ranks(); ++rank) {
      for (std::size_t other = 0; other < map_.ranks(); ++other) {
        map_.link(rank, other).latency = take();
        map_.link(rank, other).transfer = take();
        map_.link(other, rank).corrupted = *next++;
      }
      if (map_.rails.empty()) continue;
      map_.rails[rank].latency = take();
      map_.rails[rank].transfer = take();
    }
  }

  /// Measures everything again that holds something doubtful, under the load that it had: whole
  /// rounds.
  void look_again(const Doubts& doubts) {
    const auto suspect = [&](auto&& is_in) { return std::ranges::any_of(doubts.links, is_in); };
    if (suspect([](const auto& ends) { return ends.first == ends.second; })) copy_own();
    if (!doubts.rails.empty()) load_rails();
    for (std::size_t number = 0; number < map_.measured_rounds; ++number) {
      const Round& round = rounds_[number];
      if (!suspect([&](const auto& ends) {
            return round[ends.first] == static_cast<int>(ends.second);
          })) {
        continue;
      }
      meet(round, number);
      ++map_.repeated;
    }
    share();
  }

  const Options& options_;
  double threshold_;
  const bench::Run& run_;
  const comm::Groups& groups_;
  std::size_t rank_;
  FabricMap map_;
  std::vector<int> rail_members_;
  std::vector<Round> rounds_;
  std::optional<LinkBench> bench_;
};

}  // namespace

ExitCode survey(const Options& options, bench::Run& run, const comm::Groups& groups,
                const Stream& stream) {
  const app::Context& context = run.context();
  const auto rank = static_cast<std::size_t>(context.control().rank());
  trace::TraceData& head = run.head();
  const int gpu = options.backend == Backend::cuda ? context.gpus.index[rank] : -1;
  context.agree_on([&] {
    if (context.is_root() && !options.good_hosts.empty()) preflight_write(options.good_hosts, 0);
  });
  FabricReport report;
  report.places = gather_places(context, app::find_place(gpu, "/sys"));
  report.mistakes = placement_mistakes(report.places, options.backend == Backend::cuda);
  run.print(placement_text(report.places, report.mistakes, head, context.world()));
  app::GpuSampling sampling(context, *options.backend, options.gpu_sampling);
  // Rank 0 has the places; all ranks judge.
  const bool shared =
      !context.control().broadcast(share_processors(report.places) ? "shared" : "").empty();
  report.pair_test = options.pairs;
  report.threshold = shared ? std::max(options.threshold, kThresholdOfShared) : options.threshold;
  Survey measurement(options, run, groups, stream, report.threshold);
  report.judgement = measurement.run();
  report.map = measurement.map();
  for (const trace::RankRow& row : head.ranks) report.hosts.push_back(row.host);
  sampling.finish(head);
  context.agree_on([&] {
    if (!context.is_root()) return;
    const std::vector<std::string> late = busy_mistakes(report);
    run.print(mistakes_text(late));
    report.mistakes.insert(report.mistakes.end(), late.begin(), late.end());
    report.sorted_hosts = sort_hosts(report.map, report.judgement, report.hosts);
    head.verdict = report.verdict();
    run.print(fabric_text(report, options));
    for (const Fault& fault : report.judgement.faults) log::error(describe(fault, report.hosts));
    if (report.map.measured_rounds < report.map.rounds) {
      log::error(fmt::format(
          "the survey is incomplete after {} s: {}; give more time with --fabric-seconds",
          options.seconds, report.missing()));
    } else if (!report.missing().empty()) {
      log::error(fmt::format("the survey is incomplete: {}; end that work, or measure later",
                             report.missing()));
    }
    run.write(fabric_document(report, head), [&] { return fabric_json(report, head); });
    if (!options.good_hosts.empty()) {
      write_lines(options.good_hosts, report.sorted_hosts.good);
    }
  });
  return report.code();
}

}  // namespace zeropp::fabric
