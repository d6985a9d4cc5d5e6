#include "lib/plan/simulate.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>

namespace zeropp::plan {

namespace {

constexpr std::size_t index(Resource resource) { return static_cast<std::size_t>(resource); }
constexpr std::size_t index(zero::StreamId stream) { return static_cast<std::size_t>(stream); }

/// Task of a stream: one half of a piece of an operation.
struct Task {
  std::size_t op;
  bool finish;
  std::size_t piece;
};

/// The head of a stream's queue, once it runs.
struct Running {
  const Stage* stage = nullptr;  ///< null: nothing runs
  const Stage* end = nullptr;
  double left = 0;   ///< of the stage, seconds alone
  double delay = 0;  ///< before it, seconds

  [[nodiscard]] Resource resource() const { return delay > 0 ? Resource::none : stage->resource; }
  /// Share of the time that it runs in which it wants `of`, 0 to 1.
  [[nodiscard]] double wants(Resource of) const {
    if (stage == nullptr || delay > 0) return 0;
    if (stage->resource == of) return 1;
    return stage->beside == of ? stage->beside_share : 0;
  }
};

/// The most that each user gets of a resource with room for `width` of them; no limit where all get
/// what they want. A user that wants less leaves the rest to the others. `wanted` is reordered.
double level_of(std::span<double> wanted, double width) {
  double level = std::numeric_limits<double>::infinity();
  if (std::accumulate(wanted.begin(), wanted.end(), 0.0) <= width) return level;
  std::ranges::sort(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    level = width / static_cast<double>(wanted.size() - i);
    if (wanted[i] > level) break;
    width -= wanted[i];
  }
  return level;
}

class Simulation {
 public:
  Simulation(const zero::Schedule& schedule, const std::vector<OpCost>& costs,
             const Sharing& sharing, bool overlap)
      : schedule_(schedule),
        costs_(costs),
        sharing_(sharing),
        overlap_(overlap),
        done_(schedule.ops.size(), false),
        started_(schedule.ops.size(), 0) {
    if (costs.size() != schedule.ops.size()) {
      throw std::invalid_argument("simulate: a cost for each operation");
    }
    timeline_.spans.resize(schedule.ops.size());
    for (std::size_t op = 0; op < schedule.ops.size(); ++op) {
      const zero::Op& it = schedule.ops[op];
      for (const std::size_t before : it.waits_on) {
        if (before >= op) throw std::invalid_argument("simulate: an operation waits for a later");
      }
      if (costs[op].pieces == 0) throw std::invalid_argument("simulate: no piece of an operation");
      for (std::size_t piece = 0; piece < costs[op].pieces; ++piece) {
        queues_[index(it.stream)].push_back({op, false, piece});
        if (zero::ends_on(it.stream) == it.stream) continue;
        queues_[index(zero::ends_on(it.stream))].push_back({op, true, piece});
      }
    }
  }

  Timeline run() {
    begin_ready();
    while (advance()) begin_ready();
    timeline_.seconds = now_;
    return std::move(timeline_);
  }

 private:
  [[nodiscard]] bool ready(const Task& task) const {
    if (task.finish) return started_[task.op] > task.piece;
    if (!overlap_ && task.op > 0 && !done_[task.op - 1]) return false;
    const auto& waits = schedule_.ops[task.op].waits_on;
    return std::all_of(waits.begin(), waits.end(), [&](std::size_t op) { return done_[op]; });
  }

  /// Begins what can begin, until nothing can: what takes no time is done at once.
  void begin_ready() {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t stream = 0; stream < zero::kStreams; ++stream) {
        auto& queue = queues_[stream];
        while (running_[stream].stage == nullptr && !queue.empty() && ready(queue.front())) {
          const Task& task = queue.front();
          if (!task.finish && task.piece == 0) timeline_.spans[task.op].begin = now_;
          const Stages& stages = task.finish ? costs_[task.op].finish : costs_[task.op].start;
          if (stages.begin() == stages.end()) {
            complete(stream);
          } else {
            running_[stream].end = stages.end();
            enter(stream, stages.begin());
          }
          again = true;
        }
      }
    }
  }

  /// A kernel beside those of layers waits until one of them makes room.
  void enter(std::size_t stream, const Stage* stage) {
    const Running& computing = running_[index(zero::StreamId::compute)];
    const Resource at = stage->resource;
    const bool kernel = at == Resource::gpu || at == Resource::node_links || at == Resource::rails;
    const bool beside = stream != index(zero::StreamId::compute) && computing.stage != nullptr &&
                        computing.stage->resource == Resource::gpu;
    running_[stream].stage = stage;
    running_[stream].left = stage->seconds;
    running_[stream].delay = kernel && beside ? sharing_.kernel_wait : 0;
  }

  void complete(std::size_t stream) {
    const Task task = queues_[stream].front();
    queues_[stream].pop_front();
    Span& span = timeline_.spans[task.op];
    const zero::StreamId own = schedule_.ops[task.op].stream;
    const bool last = task.piece + 1 == costs_[task.op].pieces;
    if (!task.finish) {
      span.started = now_;
      ++started_[task.op];
    }
    if (last && (task.finish || zero::ends_on(own) == own)) {
      span.end = now_;
      done_[task.op] = true;
    }
  }

  /// A resource that a running part takes.
  struct Use {
    std::size_t stream = 0;
    std::size_t resource = 0;
    double share = 0;  ///< of the time, above 0
    double part = 0;   ///< of the resource's width, when it runs as fast as alone
  };
  struct Uses {
    std::array<Use, 2 * zero::kStreams> all;
    std::size_t count = 0;
    [[nodiscard]] const Use* begin() const { return all.data(); }
    [[nodiscard]] const Use* end() const { return all.data() + count; }
  };
  /// By stream, then by resource.
  [[nodiscard]] Uses uses() const {
    Uses found;
    for (std::size_t stream = 0; stream < zero::kStreams; ++stream) {
      const Running& running = running_[stream];
      if (running.stage == nullptr || running.delay > 0) continue;
      const auto add = [&](Resource resource) {
        const std::size_t r = index(resource);
        const double share = running.wants(resource);
        if (share > 0) found.all[found.count++] = {stream, r, share, sharing_.demand[r] * share};
      };
      const Stage& stage = *running.stage;
      if (stage.beside < stage.resource) add(stage.beside);
      add(stage.resource);
      if (stage.beside > stage.resource) add(stage.beside);
    }
    return found;
  }

  /// Share of the GPU that transfers leave to its kernels. A transfer over both kinds of links
  /// takes the share of the links that it keeps busier, so that nothing jumps where the other links
  /// begin to pace it.
  [[nodiscard]] double left_of_gpu(const Uses& uses) const {
    std::array<double, kResources> taken{};
    for (const Use& use : uses) {
      double share = sharing_.gpu_share[use.resource] * use.share;
      if (use.resource == index(Resource::rails)) {
        share -= sharing_.gpu_share[index(Resource::node_links)] *
                 running_[use.stream].wants(Resource::node_links);
      }
      taken[use.resource] = std::max(taken[use.resource], share);
    }
    constexpr double kLeast = 0.05;  // blocks of a transfer never hold all multiprocessors
    return std::max(kLeast, 1 - std::accumulate(taken.begin(), taken.end(), 0.0));
  }

  /// By stream: seconds alone that its part gets done in a second.
  [[nodiscard]] std::array<double, zero::kStreams> speeds() const {
    const Uses all = uses();
    const auto pool_of = [&](const Use& use) { return index(sharing_.pool[use.resource]); };
    std::array<double, kResources> level{};
    for (std::size_t pool = 0; pool < kResources; ++pool) {
      std::array<double, 2 * zero::kStreams> wanted{};
      std::size_t count = 0;
      for (const Use& use : all) {
        if (pool_of(use) == pool && use.part > 0) wanted[count++] = use.part;
      }
      level[pool] = pool == index(Resource::none)
                        ? std::numeric_limits<double>::infinity()
                        : level_of({wanted.data(), count}, sharing_.width[pool]);
    }
    std::array<double, zero::kStreams> speeds{};
    for (std::size_t stream = 0; stream < zero::kStreams; ++stream) {
      if (running_[stream].stage != nullptr) speeds[stream] = 1;
    }
    for (const Use& use : all) {
      if (use.part > 0) {
        speeds[use.stream] = std::min(speeds[use.stream], level[pool_of(use)] / use.part);
      }
    }
    const double gpu = left_of_gpu(all);
    for (std::size_t stream = 0; stream < zero::kStreams; ++stream) {
      const Running& running = running_[stream];
      if (running.stage != nullptr && running.resource() == Resource::gpu) speeds[stream] *= gpu;
    }
    return speeds;
  }

  /// To the next end of a part. False: all is done.
  bool advance() {
    std::array<std::size_t, kResources> parts{};
    for (const Running& running : running_) {
      if (running.stage != nullptr) ++parts[index(running.resource())];
    }
    const std::array<double, zero::kStreams> speed = speeds();
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t stream = 0; stream < zero::kStreams; ++stream) {
      const Running& running = running_[stream];
      if (running.stage == nullptr) continue;
      const double left = running.delay > 0 ? running.delay : running.left;
      step = std::min(step, left / speed[stream]);
    }
    if (step == std::numeric_limits<double>::infinity()) return false;
    account(parts, step);
    now_ += step;
    for (std::size_t stream = 0; stream < zero::kStreams; ++stream) {
      Running& running = running_[stream];
      if (running.stage == nullptr) continue;
      if (running.delay > 0) {
        running.delay = running.delay <= step * (1 + 1e-12) ? 0 : running.delay - step;
        continue;
      }
      // Stages that end with the step end exactly: no part is left with a rounding error.
      const bool ends = running.left / speed[stream] <= step * (1 + 1e-12);
      running.left -= step * speed[stream];
      if (!ends) continue;
      if (++running.stage != running.end) {
        enter(stream, running.stage);
      } else {
        running.stage = nullptr;
        complete(stream);
      }
    }
    // A layer's last product leaves room for all that wait.
    if (running_[index(zero::StreamId::compute)].stage == nullptr) {
      for (Running& running : running_) running.delay = 0;
    }
    return true;
  }

  void account(const std::array<std::size_t, kResources>& parts, double step) {
    for (std::size_t r = 0; r < kResources; ++r) {
      if (parts[r] > 0) timeline_.busy[r] += step;
    }
    const Stage* computing = running_[index(zero::StreamId::compute)].stage;
    if (computing != nullptr && computing->resource == Resource::gpu) {
      timeline_.compute += step;
      return;
    }
    for (const Resource resource : {Resource::rails, Resource::host, Resource::host_link,
                                    Resource::node_links, Resource::copies, Resource::gpu}) {
      if (parts[index(resource)] == 0) continue;
      timeline_.exposed[index(resource)] += step;
      return;
    }
    timeline_.exposed[index(Resource::none)] += step;
  }

  const zero::Schedule& schedule_;
  const std::vector<OpCost>& costs_;
  const Sharing& sharing_;
  bool overlap_;
  std::array<std::deque<Task>, zero::kStreams> queues_;
  std::array<Running, zero::kStreams> running_{};
  std::vector<bool> done_;
  std::vector<std::size_t> started_;  ///< pieces
  double now_ = 0;
  Timeline timeline_;
};

}  // namespace

void Stages::add(const Stage& stage) {
  if (!(stage.seconds > 0)) return;
  if (count_ == stages_.size()) throw std::length_error("Stages: more than an operation has");
  stages_[count_++] = stage;
}

double Stages::seconds() const {
  return std::accumulate(begin(), end(), 0.0,
                         [](double sum, const Stage& stage) { return sum + stage.seconds; });
}

double Timeline::exposed_seconds() const {
  return std::accumulate(exposed.begin(), exposed.end(), 0.0);
}

Timeline simulate(const zero::Schedule& schedule, const std::vector<OpCost>& costs,
                  const Sharing& sharing, bool overlap) {
  return Simulation(schedule, costs, sharing, overlap).run();
}

}  // namespace zeropp::plan
