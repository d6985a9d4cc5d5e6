#include "apps/converge/matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "apps/converge/codec_lists.hpp"
#include "apps/converge/fields.hpp"
#include "apps/converge/levels.hpp"
#include "lib/base/error.hpp"
#include "lib/base/nearest.hpp"
#include "lib/config/options.hpp"
#include "lib/data/options.hpp"

namespace zeropp::converge {

namespace {

using nlohmann::json;

/// Values that a level sets for its settings.
struct Level {
  json config = json::object();
  std::vector<std::uint64_t> seeds;
  std::size_t ranks = 0;
};

/// The base with what the flags say. Flags name the base's keys: a level or setting may differ.
json base_of(const Fields& root, const Options& options) {
  json base = root.has("base") ? root.object("base") : json::object();
  if (!options.backend.empty()) base["zeropp"]["backend"] = options.backend;
  if (!options.transport.empty()) base["zeropp"]["transport"] = options.transport;
  return base;
}

std::map<std::string, Level> levels_of(const Fields& root, const std::string& file,
                                       const json& base, const std::vector<std::uint64_t>& seeds) {
  const std::vector<std::string> names = level_names();
  const json none = json::object();
  const json& given = root.has("levels") ? root.object("levels") : none;
  const Fields all(given, file + ": levels", names);
  std::map<std::string, Level> levels;
  for (const std::string& name : names) {
    Level level{base, seeds, 0};
    if (given.contains(name)) {
      const Fields fields(given[name], fmt::format("{}: levels.{}", file, name),
                          {"config", "seeds", "ranks"});
      if (fields.has("config")) level.config.merge_patch(fields.object("config"));
      if (fields.has("seeds")) level.seeds = fields.wholes("seeds");
      if (fields.has("ranks")) level.ranks = fields.whole("ranks");
    }
    levels[name] = std::move(level);
  }
  return levels;
}

/// Keys of the trainer that a run of a matrix does not read.
void refuse_what_no_run_reads(const Fields& entry, const json& config) {
  constexpr std::pair<const char*, const char*> kUnread[] = {
      {"seed", "a run's seed is one of \"seeds\""},
      {"hash_parameters", "every run's parameters are hashed"},
      {"log_interval", "a run is reported once, when it ends"},
      {"verify_action", "a run with a damaged step ends, and is no result"},
      {"gpu_sampling", "GPUs are not sampled in a matrix"}};
  for (const auto& [key, why] : kUnread) {
    if (!config.contains("zeropp") || !config["zeropp"].contains(key)) continue;
    entry.refuse(fmt::format("zeropp.{}", key).c_str(),
                 fmt::format("is set: {}; leave it out", why));
  }
}

/// A file of one run has keys of the trainer's at its root, where a matrix has none.
void refuse_trainers_file(const json& document, const std::string& file) {
  config::TrainConfig config;
  for (const config::Option& option : config::options(config)) {
    const std::string key = option.path.substr(0, option.path.find('.'));
    if (!document.contains(key)) continue;
    throw Error(
        ExitCode::usage,
        fmt::format("{0}: {1} is a key of zpp_train's, and a matrix has its like in \"base\": "
                    "start zpp_train --config {0}, or give a matrix as "
                    "inputs/convergence/reduced.json",
                    file, key));
  }
}

/// Sets the data options of the flags in a configuration whose token source reads a file.
void set_data(json& config, const Options& options) {
  const json::json_pointer at("/zeropp/data");
  if (!config.contains(at / "source") || !config[at / "source"].is_string()) return;
  data::Options asked;
  asked.source = config[at / "source"];
  if (!data::reads_file(asked)) return;
  json& data = config[at];
  if (!options.data_source.empty()) data = {{"source", options.data_source}};
  if (!options.data_path.empty()) data["path"] = options.data_path;
  if (options.data_vocab_size > 0) data["vocab_size"] = options.data_vocab_size;
  if (options.held_out_fraction > 0) data["held_out_fraction"] = options.held_out_fraction;
}

/// The setting of an entry, or those of its lists of codecs.
void add_settings(const Fields& entry, const std::map<std::string, Level>& levels,
                  const Options& options, std::vector<Setting>& settings) {
  Setting setting;
  setting.name = entry.text("name");
  setting.level = entry.text("level");
  const auto found = levels.find(setting.level);
  if (found == levels.end()) {
    entry.refuse("level", fmt::format("is \"{}\": use one of {} (nearest: {})", setting.level,
                                      fmt::join(level_names(), ", "),
                                      nearest(setting.level, level_names())));
  }
  const Level& level = found->second;
  setting.config = level.config;
  setting.seeds = entry.has("seeds") ? entry.wholes("seeds") : level.seeds;
  if (setting.seeds.empty()) entry.refuse("seeds", "are given nowhere: give some");
  setting.ranks = entry.has("ranks") ? entry.whole("ranks") : level.ranks;
  if (entry.has("baseline")) setting.baseline = entry.text("baseline");
  if (entry.has("config")) setting.config.merge_patch(entry.object("config"));
  set_data(setting.config, options);
  refuse_what_no_run_reads(entry, setting.config);

  std::vector<ListedCodec> choices;
  const auto add = [&](const char* key, auto read) {
    if (!entry.has(key)) return;
    for (ListedCodec& choice : read(entry.value(key), entry.where() + ": " + key)) {
      choices.push_back(std::move(choice));
    }
  };
  if (entry.has("weight_codecs") && entry.has("gradient_codecs")) {
    entry.refuse("weight_codecs", "and gradient_codecs stand together: make two entries of them");
  }
  add("weight_codecs", weight_codecs);
  add("gradient_codecs", gradient_codecs);
  if (choices.empty()) settings.push_back(setting);
  for (const ListedCodec& choice : choices) {
    Setting one = setting;
    one.name += " " + choice.name;
    one.config.merge_patch(choice.config);
    settings.push_back(std::move(one));
  }
}

const Setting& find(const std::vector<Setting>& settings, const std::string& name,
                    const Fields& fields, const char* key) {
  std::vector<std::string> names;
  for (const Setting& setting : settings) {
    if (setting.name == name) return setting;
    names.push_back(setting.name);
  }
  fields.refuse(
      key, fmt::format("is \"{}\", which is no setting (nearest: {})", name, nearest(name, names)));
}

void check_names(const std::vector<Setting>& settings, const std::string& file) {
  std::set<std::string> stems;
  for (const Setting& setting : settings) {
    if (stems.insert(file_stem(setting.name)).second) continue;
    throw Error(ExitCode::usage,
                fmt::format("{}: two settings are named {} (or nearly so): rename one", file,
                            setting.name));
  }
}

void check_baselines(const std::vector<Setting>& settings, const Fields& root) {
  for (const Setting& setting : settings) {
    if (setting.baseline.empty()) continue;
    const Setting& baseline = find(settings, setting.baseline, root, "baseline");
    if (baseline.level != setting.level) {
      root.refuse("settings", fmt::format("{}: its baseline {} is of another level: name one of "
                                          "its own",
                                          setting.name, baseline.name));
    }
    if (!baseline.baseline.empty()) {
      root.refuse("settings", fmt::format("{}: its baseline {} has a baseline itself: name a "
                                          "setting without one, such as the same codec again",
                                          setting.name, baseline.name));
    }
    if (baseline.seeds != setting.seeds) {
      root.refuse("settings",
                  fmt::format("{}: its baseline {} has other seeds, and runs are paired "
                              "by seed",
                              setting.name, baseline.name));
    }
  }
}

std::vector<Check> checks_of(const Fields& root, const std::string& file,
                             const std::vector<Setting>& settings) {
  std::vector<Check> checks;
  if (!root.has("checks")) return checks;
  for (const json& value : root.array("checks")) {
    const Fields fields(value, fmt::format("{}: checks[{}]", file, checks.size()),
                        {"name", "first", "second", "limit"});
    Check check{fields.text("name"), fields.text("first"), fields.text("second"),
                fields.has("limit") ? fields.number("limit") : 0.0};
    for (const char* key : {"first", "second"}) {
      if (find(settings, fields.text(key), fields, key).level != kContract) {
        fields.refuse(key, "is of another level than contract: checks compare settings of that");
      }
    }
    const auto& first = find(settings, check.first, fields, "first").seeds;
    const auto& second = find(settings, check.second, fields, "second").seeds;
    if (std::ranges::find_first_of(first, second) == first.end()) {
      fields.refuse("second", "has no seed that \"first\" has: there would be nothing to compare");
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace

std::string file_stem(const std::string& name) {
  std::string stem = name;
  std::ranges::replace_if(
      stem, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; }, '_');
  return stem;
}

Matrix read_matrix(const json& document, const std::string& file, const Options& options) {
  refuse_trainers_file(document, file);
  const Fields root(document, file, {"description", "base", "levels", "settings", "checks"});
  const std::map<std::string, Level> levels =
      levels_of(root, file, base_of(root, options), options.seeds);
  Matrix matrix;
  std::size_t index = 0;
  for (const json& value : root.array("settings")) {
    const Fields entry(value, fmt::format("{}: settings[{}]", file, index++),
                       {"name", "level", "baseline", "config", "seeds", "ranks", "weight_codecs",
                        "gradient_codecs"});
    add_settings(entry, levels, options, matrix.settings);
  }
  check_names(matrix.settings, file);
  check_baselines(matrix.settings, root);
  matrix.checks = checks_of(root, file, matrix.settings);
  return matrix;
}

}  // namespace zeropp::converge
