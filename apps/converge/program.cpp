#include "apps/converge/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "apps/converge/runner.hpp"
#include "lib/app/interrupt.hpp"
#include "lib/app/run_trace.hpp"
#include "lib/base/log.hpp"
#include "lib/base/sha256.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/base/text.hpp"
#include "lib/comm/flight_record.hpp"
#include "lib/config/options.hpp"

namespace zeropp::converge {

namespace {

using nlohmann::json;

Plan agreed_plan(const Matrix& matrix, const app::Context& context, std::size_t team) {
  Plan plan;
  context.agree_on([&] { plan = make_plan(matrix, context, team); });
  return plan;
}

/// The trace tells of a level's data once.
void require_one_source_a_level(const std::vector<SettingRow>& rows) {
  std::map<std::string, std::string> source_of;
  for (const SettingRow& row : rows) {
    const std::string source = json::parse(row.config_json)["zeropp"]["data"].dump();
    if (source_of.try_emplace(row.level, source).first->second == source) continue;
    throw Error(ExitCode::usage,
                fmt::format("setting {} has other data than those of the level {} before it: give "
                            "a level its data once",
                            row.name, row.level));
  }
}

/// Description of the build that made the runs: the version and, of sources that were changed
/// since, the program itself.
std::string describe_build() {
  std::string version = trace::describe_version();
  if (version.find("dirty") == std::string::npos) return version;
  std::ifstream program("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(program), {}};
  return version + " " + sha256_hex(bytes);
}

}  // namespace

StudyProgram::StudyProgram(const Matrix& matrix, const Options& options,
                           const app::Context& context)
    : context_(context),
      team_(context, options.ranks_per_run),
      plan_(agreed_plan(matrix, context, team_.ranks())),
      build_(describe_build()),
      store_(*context.output / "runs"),
      records_(plan_.runs.size()) {
  outputs_ = app::preflight_outputs(context_);
  context_.agree_on([&] {
    if (context_.is_root()) store_.preflight();
  });
  context_.agree_on([&] { require_one_source_a_level(plan_.rows); });
  load_tokens();
}

void StudyProgram::load_tokens() {
  for (std::size_t i = 0; i < plan_.rows.size(); ++i) {
    const json effective = json::parse(plan_.rows[i].config_json);
    source_of_.push_back(effective["zeropp"]["data"].dump());
    if (tokens_.contains(source_of_.back())) continue;
    tokens_[source_of_.back()] = train::load_tokens(plan_.data[i], context_);
  }
}

const train::Tokens& StudyProgram::tokens_of(std::size_t setting) const {
  return tokens_.at(source_of_[setting]);
}

std::string StudyProgram::key_of(const StudyRun& run) const {
  return sha256_hex(fmt::format("{}\nnodes of {} tokens {}\n{}", build_, run.ranks_per_node,
                                tokens_of(run.setting).fingerprint, training_of(plan_, run)));
}

std::optional<RunRecord> StudyProgram::find_kept(std::size_t training) const {
  for (const StudyRun& run : plan_.runs) {
    if (run.trained_as != training) continue;
    auto kept = store_.find(plan_.settings[run.setting].name, run.seed, key_of(run));
    if (kept) return kept;
  }
  return std::nullopt;
}

std::ptrdiff_t StudyProgram::place_of_seed(std::size_t run) const {
  const auto& seeds = plan_.settings[plan_.runs[run].setting].seeds;
  return std::ranges::find(seeds, plan_.runs[run].seed) - seeds.begin();
}

std::vector<std::size_t> StudyProgram::find_missing() {
  std::vector<std::size_t> missing;
  if (context_.is_root()) {
    for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
      if (plan_.runs[i].trained_as != i) continue;
      auto kept = find_kept(i);
      if (!kept) missing.push_back(i);
      if (kept) records_[i] = std::move(*kept);
    }
    std::ranges::stable_sort(missing, {}, [&](std::size_t i) { return place_of_seed(i); });
  }
  return json::parse(context_.control().broadcast(json(missing).dump()));
}

void StudyProgram::report(std::size_t number, const RunRecord& r) const {
  const std::string quadratic =
      r.quadratic.steps == 0 ? ""
                             : fmt::format("  {:.3f} of its bound at most, {} violations",
                                           r.quadratic.largest_ratio, r.quadratic.violations);
  standard_output::print("run {}/{}  {}  seed {}  held-out {:.4f}{}  {} steps  {:.1f} s  {}\n",
                         number + 1, plan_.runs.size(), r.setting, r.seed, r.final_held_out_loss,
                         quadratic, r.steps, r.seconds, r.verdict);
}

int StudyProgram::do_own(const std::vector<std::size_t>& missing) {
  for (std::size_t i = team_.index(); i < missing.size(); i += team_.count()) {
    const std::size_t number = missing[i];
    const StudyRun& planned = plan_.runs[number];
    RunResult result = run_one(plan_.settings[planned.setting], planned, team_,
                               tokens_of(planned.setting), context_);
    // Ranks that take no part in the run learn here how it went.
    const int signal = app::agreed_interrupt(team_.control());
    if (signal != 0 && result.record.verdict.empty()) return signal;
    if (team_.control().rank() == 0 && result.interrupted == 0) {
      store_.keep(result.record, key_of(planned));
      report(number, result.record);
      records_[number] = std::move(result.record);
      done_.push_back(number);
    }
    if (signal != 0) return signal;
  }
  return 0;
}

void StudyProgram::collect() {
  json own = json::array();
  for (const std::size_t number : done_) {
    const std::string packed = pack(records_[number]);
    own.push_back({number, json::binary({packed.begin(), packed.end()})});
  }
  const std::vector<std::uint8_t> bytes = json::to_cbor(own);
  for (const std::string& part : context_.control().gather({bytes.begin(), bytes.end()})) {
    for (const json& record : json::from_cbor(part)) {
      const auto& packed = record[1].get_binary();
      records_[record[0].get<std::size_t>()] = unpack({packed.begin(), packed.end()});
    }
  }
  for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
    const StudyRun& run = plan_.runs[i];
    records_[i] = records_[run.trained_as];
    records_[i].setting = plan_.settings[run.setting].name;
  }
}

std::string StudyProgram::hint_of_whole_seeds(const std::vector<std::size_t>& left) const {
  std::vector<std::uint64_t> seeds = plan_.settings.front().seeds;
  const bool shared = std::ranges::all_of(
      plan_.settings, [&](const Setting& setting) { return setting.seeds == seeds; });
  std::erase_if(seeds, [&](std::uint64_t seed) {
    return std::ranges::any_of(left, [&](std::size_t i) { return plan_.runs[i].seed == seed; });
  });
  if (!shared || seeds.empty()) return "";
  return fmt::format(", or with --seeds '{}' for the trace of these seeds", json(seeds).dump());
}

ExitCode StudyProgram::run() {
  if (context_.is_root()) {
    for (const std::string& name : plan_.left_out) {
      standard_output::print("left out, no GPU here: setting {}, and its checks\n", name);
    }
  }
  const std::vector<std::size_t> missing = find_missing();
  if (context_.is_root()) {
    const std::size_t equal = equal_trainings(plan_);
    standard_output::print(
        "zpp_converge: {} settings, {} runs, {}{} to be done by {} teams of {} ranks\n",
        plan_.settings.size(), plan_.runs.size(),
        equal > 0 ? fmt::format("{} that train as others do, ", equal) : "", missing.size(),
        team_.count(), team_.ranks());
  }
  // A team fails by itself: the others end their runs before all ranks say so.
  std::optional<Error> failed;
  try {
    (void)do_own(missing);
  } catch (const comm::AgreedError& error) {
    failed = error;
  }
  {
    const comm::Patience other_teams_train;
    context_.control().agree(failed);
  }
  if (const int signal = app::agreed_interrupt(context_.control()); signal != 0) {
    const std::vector<std::size_t> left = find_missing();
    if (!left.empty()) {
      const std::size_t trainings = plan_.runs.size() - equal_trainings(plan_);
      log::warn(fmt::format("ended by {}: {} of {} runs are kept in {}: start again to resume{}",
                            app::name_of_interrupt(signal), trainings - left.size(), trainings,
                            store_.folder().string(), hint_of_whole_seeds(left)));
      return signal == SIGINT ? ExitCode::interrupted : ExitCode::requeue;
    }
  }
  collect();
  const std::string verdict = write_trace();
  if (context_.is_root()) {
    standard_output::print("{}  {}\n", verdict, context_.describe_trace());
  }
  return trace::is_valid(verdict) ? ExitCode::ok : ExitCode::check_failed;
}

std::string StudyProgram::write_trace() {
  const auto any = [&](const char* key, auto value) {
    return std::ranges::any_of(plan_.rows, [&](const SettingRow& row) {
      return json::parse(row.config_json)["zeropp"][key] == enum_name(value);
    });
  };
  using comm::Transport;
  trace::TraceData data =
      app::run_trace(context_, any("backend", Backend::cuda) ? Backend::cuda : Backend::host,
                     any("transport", Transport::nccl) ? Transport::nccl : Transport::mpi);
  std::string verdict;
  context_.agree_on([&] {
    if (!context_.is_root()) return;
    Study study{plan_, records_, check_runs(plan_, records_), {}};
    for (std::size_t i = 0; i < plan_.rows.size(); ++i) {
      study.data[plan_.rows[i].level] = train::describe_tokens(*tokens_of(i).source);
    }
    data.verdict = verdict_of(study);
    trace::Document document = trace::describe_run(data);
    for (trace::Group& group : groups_of(study)) document.groups.push_back(std::move(group));
    app::write_outputs(context_, outputs_, document);
    verdict = data.verdict;
  });
  return context_.control().broadcast(verdict);
}

}  // namespace zeropp::converge
