#include "apps/converge/team.hpp"

#include <fmt/format.h>

#include <optional>

#include "lib/base/checked.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/comm/virtual_ranks.hpp"

namespace zeropp::converge {

namespace {

/// Ranks of a team, as asked for or all of them.
std::size_t team_size(const app::Context& context, std::size_t ranks) {
  const auto all = static_cast<std::size_t>(context.control().size());
  if (ranks == 0) return all;
  if (ranks <= all && all % ranks == 0) return ranks;
  throw Error(ExitCode::usage,
              fmt::format("ranks_per_run: {} ranks cannot be cut into teams of {}: start a "
                          "multiple of that, or give another --ranks-per-run",
                          all, ranks));
}

}  // namespace

Team::Team(const app::Context& context, std::size_t ranks) : job_(context), ranks_(ranks) {
  context.agree_on([&] { ranks_ = team_size(context, ranks); });
  count_ = static_cast<std::size_t>(context.control().size()) / ranks_;
  index_ = static_cast<std::size_t>(context.control().rank()) / ranks_;
  world_ = context.world().split(checked<int>(index_, "team"));
}

void Team::with_context(const RunRanks& ranks,
                        const std::function<void(const app::Context&)>& work) const {
  const bool takes_part = static_cast<std::size_t>(world_->control().rank()) < ranks.ranks;
  const auto world = world_->split(takes_part ? 0 : 1);
  std::optional<Error> failed;
  try {
    if (takes_part && ranks.virtual_ranks > 0) {
      comm::VirtualRanks(checked<int>(ranks.virtual_ranks, "number of virtual ranks"))
          .run([&](comm::World& virtual_world) { work_in(virtual_world, ranks, work); });
    } else if (takes_part) {
      work_in(*world, ranks, work);
    }
  } catch (const comm::AgreedError& error) {
    failed = error;
  }
  std::optional<comm::Patience> others_train;
  if (!takes_part) others_train.emplace();
  world_->control().agree(failed);
}

void Team::work_in(comm::World& world, const RunRanks& ranks,
                   const std::function<void(const app::Context&)>& work) const {
  world.set_topology(checked<int>(ranks.node_size, "node size"));
  app::Context context(world, no_options_, job_.name(), job_.command_line());
  context.gpus = job_.gpus;
  context.gpus.index = gpus_of(ranks);
  work(context);
}

std::vector<int> Team::gpus_of(const RunRanks& ranks) const {
  const auto first = job_.gpus.index.begin() + static_cast<std::ptrdiff_t>(index_ * ranks_);
  if (ranks.virtual_ranks > 0) return std::vector<int>(ranks.virtual_ranks, *first);
  return {first, first + static_cast<std::ptrdiff_t>(ranks.ranks)};
}

}  // namespace zeropp::converge
