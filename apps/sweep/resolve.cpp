#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>

#include "apps/sweep/nccl_flags.hpp"
#include "apps/sweep/options.hpp"
#include "lib/base/nearest.hpp"
#include "lib/config/back_end.hpp"
#include "lib/config/effects.hpp"
#include "lib/config/lists.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::sweep {

namespace {

using config::list_of;
using config::refuse;

bool is_all(const std::string& text) { return text == "all"; }

/// Advice about a word that is none of `known`. Empty where there is no advice.
using About = std::string(const std::string& word, const std::vector<std::string>& known);

/// The entries of `text`, each one of `known`; `all` alone is all of them.
std::vector<std::string> choose(const std::string& text, const std::vector<std::string>& known,
                                const char* flag, About* about = nullptr) {
  if (is_all(text)) return known;
  auto words = list_of(text, flag);
  for (const std::string& word : words) {
    if (std::ranges::find(known, word) != known.end()) continue;
    const std::string other = about ? about(word, known) : "";
    refuse("{}: unknown \"{}\" ({}): give {}, several with commas, or all", flag, word,
           other.empty() ? fmt::format("nearest: {}", nearest(word, known)) : other,
           fmt::join(known, ", "));
  }
  return words;
}

constexpr Dtype kDtypes[] = {Dtype::fp32, Dtype::fp16, Dtype::bf16};

std::vector<Dtype> choose_types(const std::string& text) {
  constexpr std::string_view other[] = {"int8",   "uint8",  "int32",  "uint32", "int64",
                                        "uint64", "double", "f8e4m3", "f8e5m2"};
  std::vector<std::string> names;
  for (const Dtype dtype : kDtypes) names.push_back(type_name(dtype));
  if (!is_all(text)) {
    for (const std::string& word : list_of(text, "--datatype (-d)")) {
      if (std::ranges::find(other, word) == std::end(other)) continue;
      refuse("--datatype (-d) {}: there are no codecs and collectives of that type here: give {}",
             word, fmt::join(names, ", "));
    }
  }
  std::vector<Dtype> chosen;
  for (const std::string& name : choose(text, names, "--datatype (-d)")) {
    const auto place = std::ranges::find(names, name) - names.begin();
    chosen.push_back(kDtypes[place]);
  }
  return chosen;
}

std::vector<GroupKind> choose_groups(const std::string& text) {
  const auto known = enum_names(GroupKind{});
  std::vector<GroupKind> groups;
  for (const std::string& name : choose(text, {known.begin(), known.end()}, "--group")) {
    groups.push_back(parse_enum<GroupKind>(name).value());
  }
  return groups;
}

int size_of_group(GroupKind group, const config::Machine& machine) {
  switch (group) {
    case GroupKind::node:
      return machine.ranks_per_node;
    case GroupKind::rail:
      return machine.node_count;
    case GroupKind::world:
      break;
  }
  return machine.world_size;
}

/// Roots of a group; empty: every rank of the group.
std::vector<int> choose_roots(const std::string& text, const std::vector<GroupKind>& groups,
                              const config::Machine& machine) {
  if (is_all(text)) return {};
  int ranks = machine.world_size;
  for (const GroupKind group : groups) ranks = std::min(ranks, size_of_group(group, machine));
  int root = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, root);
  if (error != std::errc() || stop != end || root < 0 || root >= ranks) {
    refuse("--root (-r) \"{}\": give a rank of the group, from 0 to {}, or all", text, ranks - 1);
  }
  return {root};
}

void refuse_what_is_not_offered(const Options& o) {
  if (o.gpus != 1 || o.threads != 1) {
    refuse(
        "--ngpus (-g) {} and --nthreads (-t) {}: a rank has one thread and one GPU here: leave "
        "both at 1, and start {} ranks instead of each",
        o.gpus, o.threads, o.gpus * o.threads);
  }
  if (o.operation != "sum") {
    refuse(
        "--op (-o) {}: the reductions of ZeRO are sums, and there are no others here: leave it "
        "at sum",
        o.operation);
  }
  if (o.report_cputime != 0) {
    refuse(
        "--report_cputime (-C) {}: only the time until an operation is complete is measured: leave "
        "it at 0",
        o.report_cputime);
  }
}

/// Makes every iteration, with -I, a cycle, and so a sample, of its own.
void time_each_iteration(Options& o) {
  constexpr std::size_t kIterations = 100;  // with fewer, the 99th percentile is the largest sample
  if (o.per_iteration_timing == 0) {
    if (o.per_iteration_skip == 0) return;
    refuse("--per_iter_skip (-K) {} has no effect without --per_iter_timing (-I) 1: add it",
           o.per_iteration_skip);
  }
  if (o.graph > 0) {
    refuse(
        "--per_iter_timing (-I) 1 with --cudagraph (-G) {}: the iterations of a graph have no "
        "times of their own: leave one out",
        o.graph);
  }
  const std::size_t iterations = o.iterations > 0 ? o.iterations : kIterations;
  if (o.per_iteration_skip >= iterations) {
    refuse("--per_iter_skip (-K) {} leaves none of {} iterations (-n): give less",
           o.per_iteration_skip, iterations);
  }
  o.run_cycles = std::max<std::size_t>(o.run_cycles, 1) * (iterations - o.per_iteration_skip);
  o.warmup_iterations += o.per_iteration_skip;
  o.iterations = 1;
}

void choose_copy_engines(Options& o, const config::Machine& machine) {
  using comm::CopyEngines;
  const char* missing = config::missing_for_copy_engines(o.transport, machine);
  if (missing == nullptr && o.graph > 0) missing = "a run without --cudagraph (-G)";
  if (o.copy_engines == CopyEngines::on && missing != nullptr) {
    refuse("--copy-engines on needs {}: leave it out", missing);
  }
  if (!o.copy_engines) o.copy_engines = missing == nullptr ? CopyEngines::on : CopyEngines::off;
}

void choose_backend(Options& o, const config::Machine& machine) {
  config::choose_back_end(o.backend, o.transport, machine, "--transport");
  if (o.graph > 0 && o.transport != comm::Transport::nccl) {
    refuse(
        "--cudagraph (-G) {}: over {} the host takes part in every operation, which a CUDA graph "
        "does not hold: use --backend cuda --transport nccl, or leave it out",
        o.graph, enum_name(*o.transport));
  }
  if (o.graph > 0 && static_cast<Blocking>(o.blocking) == Blocking::line_up) {
    refuse(
        "--blocking (-z) {} with --cudagraph (-G) {}: ranks do not line up between the iterations "
        "of "
        "a graph: leave one out",
        o.blocking, o.graph);
  }
  config::choose_rail_lanes(o.rail_lanes, *o.transport, machine);
  choose_copy_engines(o, machine);
}

/// Every name is an algorithm of a chosen collective.
AlgorithmChoice choose_algorithms(const std::string& text,
                                  const std::vector<const Collective*>& collectives) {
  const std::string automatic = "auto";
  std::vector<std::string> known{automatic, "all"};
  for (const Collective* collective : collectives) {
    for (const Algorithm& algorithm : collective->algorithms()) {
      known.emplace_back(algorithm.name);
    }
  }
  const std::vector<std::string> names = list_of(text, "--algorithm");
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end()) {
      refuse("--algorithm: unknown \"{}\" (nearest: {}); zpp_info lists them", name,
             nearest(name, known));
    }
    if (names.size() > 1 && (name == automatic || is_all(name))) {
      refuse("--algorithm: {} stands alone: leave it or the other names out", name);
    }
  }
  using Kind = AlgorithmChoice::Kind;
  if (text == automatic) return {.kind = Kind::automatic, .names = {}};
  if (is_all(text)) return {.kind = Kind::all, .names = {}};
  return {.kind = Kind::named, .names = names};
}

/// Checks that everything that was asked for runs somewhere.
void check_variants(const Settings& settings) {
  std::set<std::string> codecs;
  std::set<std::string> algorithms;
  bool pipelined = false;
  for (const Collective* collective : settings.collectives) {
    for (const GroupKind group : settings.groups) {
      for (const Variant& variant : variants(settings, *collective, group)) {
        codecs.insert(codec::to_string(variant.codec));
        algorithms.insert(variant.algorithm);
        pipelined |= !runs_in_one_chunk(*collective, variant.algorithm);
      }
    }
  }
  if (settings.pipeline_depth > 1 && !pipelined) {
    refuse(
        "--pipeline-depth {} would have no effect: all that runs is the vendor's, with a pipeline "
        "of its own; leave it out, or choose other algorithms",
        settings.pipeline_depth);
  }
  for (const codec::CodecSpec& codec : settings.codecs) {
    const std::string name = codec::to_string(codec);
    if (codecs.contains(name)) continue;
    refuse(
        "--codec {}: none of the chosen algorithms carries it: leave it out, or choose other "
        "collectives or algorithms (zpp_info lists them)",
        name);
  }
  for (const std::string& name : settings.algorithms.names) {
    if (algorithms.contains(name)) continue;
    refuse(
        "--algorithm {} would not run: it carries none of the chosen codecs, or needs the group "
        "world and nodes with equal numbers of ranks (--node-size)",
        name);
  }
}

void check_groups(const Settings& settings, const config::Machine& machine) {
  if (machine.ranks_per_node > 0) return;
  for (const GroupKind group : settings.groups) {
    if (group == GroupKind::world) continue;
    refuse(
        "--group {} needs nodes with equal numbers of ranks: start the same number on each, or "
        "declare nodes with --node-size",
        enum_name(group));
  }
}

/// Algorithms of `collective` that were asked for on such a group.
std::vector<std::string> algorithm_names(const Settings& settings, const Collective& collective,
                                         GroupKind group) {
  switch (settings.algorithms.kind) {
    case AlgorithmChoice::Kind::automatic: {
      const bool levels = settings.levels && group == GroupKind::world;
      return {std::string(kVendors), std::string(collective.preferred(levels))};
    }
    case AlgorithmChoice::Kind::all: {
      std::vector<std::string> names;
      for (const Algorithm& algorithm : collective.algorithms()) names.push_back(algorithm.name);
      return names;
    }
    case AlgorithmChoice::Kind::named:
      break;
  }
  return settings.algorithms.names;
}

}  // namespace

std::vector<std::size_t> sizes(std::size_t minimum, std::size_t maximum, std::size_t step,
                               std::size_t factor) {
  std::vector<std::size_t> all;
  std::size_t size = minimum;
  while (size <= maximum) {
    all.push_back(size);
    const std::size_t room = std::numeric_limits<std::size_t>::max();
    if (factor > 1 ? size > room / factor : size > room - step) break;
    const std::size_t next = factor > 1 ? size * factor : size + step;
    if (next == size) break;  // 0 times a factor, or a step of 0
    size = next;
  }
  return all;
}

std::vector<Variant> variants(const Settings& settings, const Collective& collective,
                              GroupKind group) {
  const std::vector<std::string> names = algorithm_names(settings, collective, group);
  std::vector<Variant> chosen;
  for (const codec::CodecSpec& codec : settings.codecs) {
    for (const std::string& name : names) {
      const bool needs_levels = is_hierarchical(collective, name);
      if (needs_levels && !(settings.uniform && group == GroupKind::world)) continue;
      Variant variant{name, codec, settings.pipeline_depth};
      if (can_run(collective, variant)) chosen.push_back(std::move(variant));
    }
  }
  return chosen;
}

std::string type_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp16:
      return "half";
    case Dtype::bf16:
      return "bfloat16";
    case Dtype::fp32:
      break;
  }
  return "float";
}

Settings resolve(Options& o, const std::vector<config::Option>& given,
                 const config::Machine& machine, const std::vector<const Collective*>& table) {
  config::check_effects(given);
  refuse_what_is_not_offered(o);
  time_each_iteration(o);
  choose_backend(o, machine);
  config::check_effects(given);  // again: `auto` may have become a back end that leaves some idle
  if (o.minimum_bytes > o.maximum_bytes) {
    refuse("--minbytes (-b) {} is above --maxbytes (-e) {}: no size is left", o.minimum_bytes,
           o.maximum_bytes);
  }
  if (o.step_factor <= 1 && o.step_bytes == 0) {
    refuse(
        "--stepbytes (-i) 0 without --stepfactor (-f) never leaves the size {}, which nccl-tests "
        "repeats until it is killed: leave -i out, and give -N for the number of cycles",
        o.minimum_bytes);
  }
  if (o.step_factor > 1 && o.minimum_bytes == 0) {
    refuse("--minbytes (-b) 0 times --stepfactor (-f) stays 0: begin at 1 or more");
  }
  Settings settings;
  settings.sizes = sizes(o.minimum_bytes, o.maximum_bytes, o.step_bytes, o.step_factor);
  settings.levels = machine.node_count > 1 && machine.ranks_per_node > 1;
  settings.uniform = machine.ranks_per_node > 0;

  std::vector<std::string> names;
  names.reserve(table.size());
  for (const Collective* collective : table) names.emplace_back(collective->name());
  for (const std::string& name : choose(o.collective, names, "--collective", about_collective)) {
    settings.collectives.push_back(
        table[static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())]);
  }
  settings.codecs = config::codecs_of(o.codec, "--codec");
  settings.algorithms = choose_algorithms(o.algorithm, settings.collectives);
  settings.pipeline_depth = o.pipeline_depth;
  settings.groups = choose_groups(o.group);
  check_groups(settings, machine);
  check_variants(settings);
  settings.dtypes = choose_types(o.datatype);
  const bool rooted = std::ranges::any_of(
      settings.collectives, [](const Collective* collective) { return collective->has_root(); });
  if (!rooted && o.root != Options().root) {
    refuse("--root (-r) has no effect: no chosen collective has a root; leave it out");
  }
  settings.roots = choose_roots(o.root, settings.groups, machine);
  settings.bench = {
      .repetition = {.times = {.warmups = o.warmup_iterations,
                               .iterations = o.iterations,
                               .operations = o.aggregated_iterations,
                               .cycles = o.run_cycles == 0 && o.iterations > 0 ? 1 : o.run_cycles,
                               .seconds = o.maximum_seconds},
                     .blocking = static_cast<Blocking>(o.blocking),
                     .graph_launches = o.graph},
      .over_ranks = static_cast<OverRanks>(o.average),
      .checks = o.validation,
      .check_maximum_bytes = o.check_maximum_bytes,
      .seed = o.seed,
      .link_peak = o.link_peak};
  if (o.validation == 0 && config::is_given(given, "check_maximum_bytes")) {
    refuse("--check-maxbytes has no effect with --check (-c) 0: leave one out");
  }
  if (settings.bench.repetition.times.cycles > 0 && config::is_given(given, "maximum_seconds")) {
    refuse("--max-seconds has no effect where -n or -N say how often: leave it, or them, out");
  }
  return settings;
}

}  // namespace zeropp::sweep
