#include "lib/train/checkpoints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/base/status.hpp"
#include "lib/checkpoint/rank_file.hpp"
#include "lib/model/registry.hpp"
#include "lib/train/run_identity.hpp"
#include "lib/train/weights_file.hpp"

namespace zeropp::train {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Whether a checkpoint has errors of a hop that is not among `own`.
bool has_errors_of_others(const checkpoint::Manifest& manifest,
                          const std::vector<zero::NamedState>& own) {
  constexpr std::string_view kErrors = "error_feedback.";
  return std::ranges::any_of(manifest.slices, [&](const checkpoint::StoredSlice& stored) {
    const std::string_view array = stored.slice.array;
    if (!array.starts_with(kErrors)) return false;
    const std::string_view hop = array.substr(0, array.find('.', kErrors.size()) + 1);
    return std::ranges::none_of(own,
                                [&](const auto& state) { return state.name.starts_with(hop); });
  });
}

/// Whether a checkpoint has copies of the weights that weight differences are added to.
bool has_copies(const checkpoint::Manifest& manifest) {
  return std::ranges::any_of(manifest.slices, [](const checkpoint::StoredSlice& stored) {
    return stored.slice.array.find("/copy/") != std::string::npos;
  });
}

/// Whether the last step has left state that is of no use.
bool damaged(const trace::Recorder& recorder) {
  return recorder.weights_damaged || !recorder.corruption.empty();
}

}  // namespace

Checkpoints::Checkpoints(const config::TrainConfig& config, const app::Context& context,
                         const Tokens& tokens)
    : config_(config), context_(context), tokens_(tokens) {
  const checkpoint::Options& options = config_.checkpoint;
  if (options.save.empty() && options.load.empty()) return;
  context_.agree_on([&] {
    if (!context_.is_root()) return;
    if (!options.load.empty()) require_source();
    if (!options.save.empty()) take_own_folder();
  });
  if (!options.save.empty()) saver_.emplace(context_.control(), options.save, options.keep);
}

std::vector<std::uint64_t> Checkpoints::Source::steps() const {
  return only ? std::vector{*only} : folder.steps();
}

Checkpoints::Source Checkpoints::source() const {
  const std::string& from = config_.checkpoint.load;
  std::error_code error;
  const std::filesystem::path own = std::filesystem::weakly_canonical(from, error);
  if (const auto step = checkpoint::step_of_checkpoint(own)) {
    return {checkpoint::Folder(own.parent_path()), step};
  }
  return {checkpoint::Folder(from), std::nullopt};
}

void Checkpoints::require_source() const {
  const std::string& from = config_.checkpoint.load;
  if (goes_on_here() || !source().steps().empty()) return;
  std::error_code error;
  throw Error(
      ExitCode::io,
      fmt::format("--load {0} {1}: give the folder that --save of an earlier run named, or a "
                  "step-... folder in it; leave --load out to begin at the first step, or give "
                  "--save {0} too, to begin there now and resume from it later",
                  from,
                  std::filesystem::exists(from, error) ? "has no checkpoint" : "is not there"));
}

void Checkpoints::take_own_folder() {
  const std::string& save = config_.checkpoint.save;
  const checkpoint::Folder folder(save);
  folder.prepare();
  lock_ = std::make_unique<LockFile>(
      std::filesystem::path(save) / "checkpoints", [save](const std::string& holder) {
        return fmt::format(
            "cannot save checkpoints to {}: {} saves there; give every run a folder "
            "of its own, or wait until that one has ended",
            save, holder);
      });
  if (!lock_->failure().empty()) {
    log::warn(
        fmt::format("no file can be locked in {} ({}): see to it that no other run saves "
                    "there",
                    save, lock_->failure()));
  }
  const auto steps = folder.steps();
  if (steps.empty() || goes_on_here()) return;
  throw Error(ExitCode::usage,
              fmt::format("--save {0} holds a checkpoint after {1} steps that this run does not "
                          "resume from: give --load {0} too, or another folder",
                          save, steps.front()));
}

bool Checkpoints::goes_on_here() const {
  const checkpoint::Options& options = config_.checkpoint;
  if (options.load.empty() || options.save.empty()) return false;
  std::error_code error;
  return std::filesystem::weakly_canonical(options.save, error) ==
         std::filesystem::weakly_canonical(options.load, error);
}

json Checkpoints::identity(const Session& session) const {
  return identity_of(config_,
                     model::effective_vocab_size(config_.model, tokens_.source->vocab_size()),
                     session.model().units());
}

void Checkpoints::restore(Session& session, const checkpoint::Folder& folder,
                          std::uint64_t step) const {
  std::string text;
  context_.agree_on([&] {
    if (context_.is_root()) text = checkpoint::to_text(folder.manifest(step));
  });
  text = context_.control().broadcast(text);
  checkpoint::Manifest manifest;
  context_.agree_on([&] {
    manifest = checkpoint::parse_manifest(text, folder.complete(step));
    restore(session, folder, step, manifest);
  });
  warn_of_exported(manifest, folder.complete(step));
}

void Checkpoints::warn_of_exported(const checkpoint::Manifest& manifest,
                                   const std::filesystem::path& folder) const {
  const comm::Control& control = context_.control();
  const auto damage = status_of([&] {
    verify_exported(folder, manifest, static_cast<std::size_t>(control.rank()),
                    static_cast<std::size_t>(control.size()));
  });
  for (const std::string& line : context_.control().gather(damage ? damage->what() : "")) {
    if (line.empty()) continue;
    log::warn(line + "; the run resumes from the checkpoint, which is whole");
    return;
  }
}

void Checkpoints::restore(Session& session, const checkpoint::Folder& folder, std::uint64_t step,
                          const checkpoint::Manifest& manifest) const {
  const SavedState state = state_of(manifest.state);
  const auto unknown =
      require_same_run(state.run, identity(session), folder.complete(step).string());
  if (context_.is_root()) warn_of_other_run(state, unknown);
  const checkpoint::ArrayReader arrays(folder.complete(step), manifest);
  const zero::Restored restored = session.engine().restore(
      {.steps = state.steps,
       .loss_scale = state.loss_scale,
       .searches_loss_scale = state.searches_loss_scale},
      [&](const checkpoint::Slice& slice, std::span<std::byte> values) {
        arrays.read(slice, values);
      },
      [&](const checkpoint::Slice& slice) { return arrays.has(slice); });
  if (!context_.is_root()) return;
  warn_of_losses(restored, manifest, session.engine().error_feedback(),
                 session.recorder().copies_found != "none");
}

void Checkpoints::warn_of_other_run(const SavedState& state,
                                    const std::vector<std::string>& unknown) const {
  if (!unknown.empty()) {
    log::warn(
        fmt::format("the checkpoint was written by an earlier version, which did not keep {}: that "
                    "these are this run's is not known",
                    fmt::join(unknown, ", ")));
  }
  if (state.seed != config_.seed) {
    log::warn(fmt::format("the checkpoint is of seed {}: data from here on are those of seed {}",
                          state.seed, config_.seed));
  }
  if (state.tokens != tokens_.fingerprint) {
    log::warn("the checkpoint was trained on other tokens than this run's");
  }
  if (config_.optimizer.weight_decay > 0 && state.decayed != config_.optimizer.decayed) {
    log::warn(
        fmt::format("weight decay shrank {0} before the checkpoint, and shrinks {1} from here on: "
                    "--decayed-parameters {0} continues as before",
                    state.decayed, config_.optimizer.decayed));
  }
}

void Checkpoints::warn_of_losses(const zero::Restored& restored,
                                 const checkpoint::Manifest& manifest,
                                 const std::vector<zero::NamedState>& errors,
                                 bool found_copies) const {
  if (!restored.moments) {
    log::warn(
        fmt::format("the checkpoint's moments of the optimizer are not kept in {0}: they are "
                    "rounded to the nearest that zeropp.moments {0} can keep",
                    enum_name(config_.optimizer.moments)));
  }
  if (!restored.errors) {
    log::warn(
        "error feedback begins anew: the checkpoint has none of these ranks, nodes, buckets and "
        "this algorithm");
  } else if (has_errors_of_others(manifest, errors)) {
    log::warn(
        "the checkpoint's errors of error feedback are given up: this run feeds none back in "
        "those hops");
  }
  if (!restored.copies) {
    log::warn(
        "weight differences begin anew with whole weights: the checkpoint has no copies of this "
        "dtype and number of elements");
  }
  if (!config_.zero.weight_differences.enabled && has_copies(manifest)) {
    log::warn(
        "the checkpoint's copies of the weights, which weight differences are added to, are given "
        "up: this run sends none");
  }
  if (found_copies) {
    log::info("weight differences resume from the checkpoint's copies of the weights");
  }
  if (!restored.widths) {
    log::warn(
        "adaptive bits begin anew: the checkpoint has none of these values and widths within this "
        "run's budget");
  }
}

std::uint64_t Checkpoints::load(Session& session) {
  if (saver_) session.engine().reserve_state(memory_);
  const std::uint64_t step = load_newest(session);
  const std::string& weights = config_.checkpoint.weights;
  if (step == 0 && !weights.empty()) import_weights(weights, config_.model, context_, session);
  return step;
}

std::uint64_t Checkpoints::load_newest(Session& session) {
  const std::string& from = config_.checkpoint.load;
  if (from.empty()) return 0;
  const Source source = this->source();
  comm::Control& control = context_.control();
  std::vector<std::uint64_t> steps;
  context_.agree_on([&] {
    if (!context_.is_root()) return;
    steps = source.steps();
    if (steps.empty() || steps.front() <= config_.train_steps) return;
    throw Error(ExitCode::usage,
                fmt::format("the newest checkpoint in {} is after {} steps, and the run ends after "
                            "{}: give more --train-iters, or another folder",
                            from, steps.front(), config_.train_steps));
  });
  steps = json::parse(control.broadcast(json(steps).dump())).get<std::vector<std::uint64_t>>();
  if (steps.empty() && context_.is_root()) {
    log::warn(fmt::format("there is no checkpoint in {}: the run begins at its first step", from));
  }
  const zero::LossScale own = session.engine().loss_scale();
  std::optional<comm::AgreedError> damaged;
  for (const std::uint64_t step : steps) {
    // The last one's error is thrown, not warned of, where none is whole.
    if (damaged && context_.is_root()) log::warn(damaged->what());
    try {
      session.engine().set_loss_scale(own.state());  // a damaged one may have left its own
      restore(session, source.folder, step);
      saved_ = step;
      break;
    } catch (const comm::AgreedError& error) {
      if (error.code() == ExitCode::usage) throw;  // it is whole, and this run is another
      damaged = error;
    }
  }
  if (damaged && saved_ == 0) throw *damaged;
  // Newer ones are set aside only after one was read: where none can be, the machine may be to
  // blame.
  context_.agree_on([&] {
    if (!context_.is_root() || !goes_on_here()) return;
    for (const std::uint64_t step : steps) {
      if (step > saved_) source.folder.set_aside(step);
    }
  });
  return saved_;
}

void Checkpoints::commit(Session& session) {
  const Clock::time_point begin = Clock::now();
  const std::optional<checkpoint::Saved> saved = saver_->commit();
  if (!saved) return;
  session.recorder().checkpoints.push_back({.step = saved->step,
                                            .bytes = saved->bytes,
                                            .time_paused = paused_ + seconds_since(begin),
                                            .time_writing = saved->seconds});
}

void Checkpoints::save(std::uint64_t done, Session& session) {
  commit(session);  // `memory_` is written until then
  const Clock::time_point begin = Clock::now();
  checkpoint::Saver::Beside weights;
  if (config_.checkpoint.gather_weights) {
    weights = [&](const std::filesystem::path& folder) {
      return export_weights(folder, config_, context_, session);
    };
  }
  const zero::Engine& engine = session.engine();
  saver_->start(done,
                to_text({.steps = engine.steps(),
                         .loss_scale = engine.loss_scale().state(),
                         .searches_loss_scale = engine.loss_scale().is_dynamic(),
                         .run = identity(session),
                         .seed = config_.seed,
                         .tokens = tokens_.fingerprint,
                         .decayed = config_.optimizer.decayed}),
                engine.state(memory_), weights);
  saved_ = done;
  paused_ = seconds_since(begin);
  if (!config_.checkpoint.asynchronous) commit(session);
}

void Checkpoints::stepped(std::uint64_t done, Session& session) {
  if (!saver_) return;
  if (saver_->pending()) {
    std::array<double, 1> waiting{saver_->written() ? 0.0 : 1.0};
    context_.control().all_reduce_max(waiting);
    if (waiting[0] == 0) commit(session);
  }
  const bool last = done == config_.train_steps;
  const std::size_t interval = config_.checkpoint.interval;
  const bool due = last || (interval > 0 && done % interval == 0);
  if (due && !damaged(session.recorder())) save(done, session);
  if (last) finish(session);
}

void Checkpoints::end_early(std::uint64_t done, Session& session) {
  if (!saver_) return;
  if (saved_ != done && !damaged(session.recorder())) save(done, session);
  finish(session);
}

void Checkpoints::finish(Session& session) {
  commit(session);
  saver_->settle();
}

}  // namespace zeropp::train
