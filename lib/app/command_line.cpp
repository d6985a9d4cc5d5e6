#include "lib/app/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <ranges>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/app/help.hpp"
#include "lib/config/deepspeed_keys.hpp"
#include "lib/config/effects.hpp"
#include "lib/config/json.hpp"
#include "lib/config/other_names.hpp"

namespace zeropp::app {
namespace {

/// A flag as it was given. Applied after the file, which flags override.
struct GivenFlag {
  config::Option* option;
  std::string flag;
  std::string text;
};
using Given = std::vector<GivenFlag>;

std::string shown_value(const config::Option& option) {
  const auto value = config::value_of(option);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Text that stands for the value of a flag; empty for a boolean, which has none.
std::string placeholder_of(const config::Option& option) {
  struct Placeholder {
    const char* operator()(const bool*) const { return ""; }
    const char* operator()(const int*) const { return "N"; }
    const char* operator()(const std::size_t*) const { return "N"; }
    const char* operator()(const double*) const { return "X"; }
    const char* operator()(const std::string*) const { return "TEXT"; }
    const char* operator()(const codec::CodecSpec*) const { return "CODEC"; }
    const char* operator()(const config::EnumField&) const { return "NAME"; }
    const char* operator()(const config::Structured&) const { return "JSON"; }
  };
  return config::choices_of(option).empty() ? std::visit(Placeholder{}, option.field) : "NAME";
}

/// The first line is the option's own text.
std::string help_of(const config::Option& option) {
  std::string help = fmt::format("{}\n{} [{}]; JSON {}", option.help,
                                 config::describe_values(option), shown_value(option), option.path);
  if (!option.other_flags.empty()) {
    help += fmt::format("; also {}", fmt::join(option.other_flags, " "));
  }
  if (config::is_boolean(option)) help += fmt::format("; off: {}", config::negative_flag(option));
  return help;
}

/// The value of a boolean from the `text` of its flag; a negative flag (`on` is false) inverts it.
/// Text other than "true" and "false" is returned unchanged, for the message.
std::string truth(const std::string& text, bool on) {
  if (on || (text != "true" && text != "false")) return text;
  return text == "true" ? "false" : "true";
}

/// The flag itself is shown under the heading of its group; its other names are only taken.
void add_flag(CLI::App& cli, config::Option& option, const std::string& heading, Given& given) {
  const auto add = [&](const std::string& names, const std::string& flag, bool on) {
    CLI::Option* const added =
        config::is_boolean(option)
            ? cli.add_flag(flag)->each([&option, &given, flag, on](const std::string& text) {
                given.push_back({&option, flag, truth(text, on)});
              })
            : cli.add_option_function<std::string>(
                  names, [&option, &given, flag](const std::string& text) {
                    given.push_back({&option, flag, text});
                  });
    added->group("");
    return added;
  };
  add(option.letter.empty() ? option.flag : option.letter + "," + option.flag, option.flag, true)
      ->description(help_of(option))
      ->default_str(shown_value(option))
      ->group(heading)
      ->type_name(placeholder_of(option));
  for (const std::string& other : option.other_flags) add(other, other, true);
  if (config::is_boolean(option)) {
    const std::string negative = config::negative_flag(option);
    add(negative, negative, false);
  }
}

void add_flags(CLI::App& cli, App& app, Given& given) {
  for (const config::OptionGroup& group : app.groups) {
    for (config::Option& option : app.options) {
      if (config::group_of(option.path, app.groups).name == group.name) {
        add_flag(cli, option, heading_of(group), given);
      }
    }
  }
}

nlohmann::json number_or_text(const std::string& text) {
  const char* const end = text.data() + text.size();
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end) return number;
  return text;
}

/// Flags of Megatron's for what is not here: a value that changes nothing is taken, with a warning.
std::vector<TakenFlag> megatron_flags(const App& app) {
  std::vector<TakenFlag> flags;
  for (const config::DeepSpeedKey& key : config::deepspeed_keys()) {
    if (key.flag.empty()) continue;
    flags.push_back({.names = key.flag,
                     .help = "Flag of Megatron's that may say 1: " + key.why,
                     .group = config::group_of(key.path, app.groups).name,
                     .take = [&key](const std::string& text) {
                       config::check_ignored(key, number_or_text(text), key.flag);
                       return fmt::format("{} is ignored: {}", key.flag, key.why);
                     }});
  }
  return flags;
}

void add_taken_flags(CLI::App& cli, const App& app, const std::vector<TakenFlag>& flags,
                     std::vector<std::string>& known, std::vector<std::string>& warnings) {
  for (const TakenFlag& flag : flags) {
    const bool listed = !flag.group.empty();
    for (const auto& name : std::views::split(flag.names, ',')) {
      if (listed) known.emplace_back(name.begin(), name.end());
    }
    const auto group = std::ranges::find(app.groups, flag.group, &config::OptionGroup::name);
    cli.add_option_function<std::string>(
           flag.names,
           [take = flag.take, &warnings](const std::string& text) {
             if (std::string warning = take(text); !warning.empty()) {
               warnings.push_back(std::move(warning));
             }
           },
           flag.help)
        ->group(listed ? heading_of(*group) : "")
        ->type_name("N");
  }
}

/// Refuses words that CLI11 could not place.
[[noreturn]] void refuse(const std::vector<std::string>& rest,
                         const std::vector<std::string>& known, const App& app) {
  const auto flag = std::find_if(rest.begin(), rest.end(),
                                 [](const std::string& word) { return word.starts_with("-"); });
  if (flag == rest.end()) {
    throw Error(ExitCode::usage,
                fmt::format("unexpected argument \"{}\": it follows no flag that takes one more "
                            "value: see --help",
                            rest.front()));
  }
  const std::string name = flag->substr(0, flag->find('='));
  std::string hint = app.elsewhere ? app.elsewhere(name, "") : "";
  if (hint.empty()) hint = config::hint_for_flag(name, known, app.options);
  throw Error(ExitCode::usage, fmt::format("unknown flag {}{}: see --help", name,
                                           hint.empty() ? "" : fmt::format(" ({})", hint)));
}

/// Sets an option from its flag.
void set(const GivenFlag& given, const App& app) {
  try {
    config::set_from_text(*given.option, given.text, given.flag);
  } catch (const Error& refusal) {
    const std::string elsewhere = app.elsewhere ? app.elsewhere(given.flag, given.text) : "";
    if (elsewhere.empty()) throw;
    throw Error(refusal.code(), fmt::format("{}: {}", refusal.what(), elsewhere));
  }
}

/// Refuses a flag at the end of the command line that has no value, and says which there are.
[[noreturn]] void refuse_without_value(const CLI::App& cli, const App& app,
                                       const std::string& flag) {
  const auto option = std::ranges::find_if(app.options, [&](const config::Option& each) {
    return each.flag == flag || each.letter == flag ||
           std::ranges::find(each.other_flags, flag) != each.other_flags.end();
  });
  const CLI::Option* const own = cli.get_option(flag);
  throw Error(ExitCode::usage,
              fmt::format("{} has no value: give it {}: see --help", flag,
                          option != app.options.end() ? config::describe_values(*option)
                                                      : fmt::format("{} ({})", own->get_type_name(),
                                                                    own->get_description())));
}

/// CLI11 takes the word after a flag as its value, whatever it is.
void refuse_flag_as_value(const std::string& flag, const std::string& text) {
  if (!text.starts_with("--")) return;
  throw Error(ExitCode::usage,
              fmt::format("{} has no value: after it comes {}: see --help", flag, text));
}

void refuse_repeated(const CLI::App& cli, const Given& given) {
  for (const CLI::Option* option : cli.get_options()) {
    if (option->count() < 2) continue;
    throw Error(ExitCode::usage,
                fmt::format("--{} is given twice: leave one out", option->get_single_name()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (given[j].option != given[i].option || given[j].text == given[i].text) continue;
      throw Error(ExitCode::usage, fmt::format("{} and {} are given both: leave one out",
                                               given[j].flag, given[i].flag));
    }
  }
}

double seconds_of(const std::string& flag, const std::string& text) {
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !(value >= 0) || std::isinf(value)) {
    throw Error(ExitCode::usage,
                fmt::format("{} takes seconds, 0 or more, not \"{}\": see --help", flag, text));
  }
  return value;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Texts that the flags of every program were given; empty where one was not.
struct CommonFlags {
  std::string help_group;
  bool help_all = false;
  std::string config;
  std::string output;
  std::string json;
  std::string timeout;
};

/// Adds the flags that every program has, and those of parts that it does not have. Returns all
/// flags of the program but the negative ones, for hints to mistyped flags. `common` and `line`
/// outlive `cli`.
std::vector<std::string> add_common_flags(CLI::App& cli, const App& app, CommonFlags& common,
                                          CommandLine& line) {
  std::vector<std::string> known{"--help", "--help-all", "--version", "--output", "--json"};
  // Repeated flags are refused later, in words of our own.
  cli.option_defaults()
      ->group(heading_of(general_group()))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  cli.set_help_flag();  // CLI11's takes no group
  cli.add_option("-h,--help", common.help_group, "Print this, or all flags of one group, and exit")
      ->expected(0, 1)
      ->type_name("[GROUP]");
  cli.add_flag("--help-all", common.help_all, "Print all flags and exit");
  cli.set_version_flag("--version", "zpp_" + app.name + " " + trace::describe_version(),
                       "Print the version and exit");
  if (!app.options.empty()) {
    cli.add_option(app.config_flags, common.config,
                   app.config_file ? app.config_file->help
                                   : "JSON file with the keys that --help-all names; flags "
                                     "override it")
        ->type_name("FILE.json");
    for (const auto& flag : std::views::split(app.config_flags, ',')) {
      known.emplace_back(flag.begin(), flag.end());
    }
  }
  for (const Answer& answer : app.answers) {
    known.push_back(answer.flag);
    cli.add_flag_callback(
        answer.flag, [&line, &answer] { line.answer = answer.text(); }, answer.help);
  }
  if (config::reads_deepspeed(app.options)) {
    add_taken_flags(cli, app, megatron_flags(app), known, line.warnings);
  }
  add_taken_flags(cli, app, app.taken_flags, known, line.warnings);
  cli.add_option(
         "--output", common.output,
         "Folder of the results, made where missing; default: none, and no trace is written")
      ->type_name("DIR");
  cli.add_option(app.json_flags, common.json, "Write a summary there")->type_name("FILE");
  if (!app.run_alone) {
    known.emplace_back("--timeout");
    cli.add_option(app.timeout_flags, common.timeout,
                   "Longest wait of an operation for other ranks, in seconds; then all end with "
                   "exit code 124, and leave in --output what each did last; 0: no limit, "
                   "and ranks that stop are not looked for")
        ->default_str(fmt::format("{}", line.timeout))
        ->type_name("X");
  }
  for (const auto& flag : config::flags_of(app.options)) known.push_back(flag);
  return known;
}

/// The help that was asked for; nothing where none was.
std::optional<std::string> asked_help(const CLI::App& cli, const App& app,
                                      const CommonFlags& common) {
  if (cli.count("--help") > 0) {
    return common.help_group.empty() ? brief_help(cli, app)
                                     : group_help(cli, app, common.help_group);
  }
  if (common.help_all) return full_help(cli, app);
  return std::nullopt;
}

/// Refuses flags without a value, unknown words, and what is given twice.
void refuse_malformed(const CLI::App& cli, const App& app, const CommonFlags& common,
                      const Given& given, const std::vector<std::string>& known) {
  for (const GivenFlag& each : given) refuse_flag_as_value(each.flag, each.text);
  for (const auto& [flag, text] : {std::pair{"--config", common.config},
                                   {"--output", common.output},
                                   {"--json", common.json},
                                   {"--timeout", common.timeout}}) {
    refuse_flag_as_value(flag, text);
    const CLI::Option* option = cli.get_option_no_throw(flag);
    if (option != nullptr && option->count() > 0 && text.empty()) {
      throw Error(ExitCode::usage,
                  fmt::format("{} is empty: give it a value, or leave it out", flag));
    }
  }
  if (const auto rest = cli.remaining(); !rest.empty()) refuse(rest, known, app);
  refuse_repeated(cli, given);
}

/// Sets the options: from the file `config`, where it names one, then from the flags.
void set_options(App& app, const std::string& config, const Given& given,
                 std::vector<std::string>& warnings) {
  std::vector<config::Ignored> ignored;
  if (!config.empty() && app.config_file) {
    app.config_file->read(config);
  } else if (!config.empty()) {
    ignored = config::read_file(config, app.options, app.training_ignored);
  }
  for (const GivenFlag& each : given) set(each, app);
  if (config::reads_deepspeed(app.options)) {
    for (const std::string& line : config::leave_out_idle(app.options, ignored)) {
      warnings.push_back(fmt::format("{}: {}", config, line));
    }
  }
  if (!ignored.empty()) {
    warnings.push_back(fmt::format("{}: {}", config, config::ignored_line(ignored)));
  }
  if (config.empty() || !config::reads_deepspeed(app.options)) return;
  if (const std::string line = config::left_out_line(app.options); !line.empty()) {
    warnings.push_back(fmt::format("{} {}", config, line));
  }
}

}  // namespace

CommandLine parse_command_line(App& app, int argc, char** argv) {
  CLI::App cli;
  CommandLine line;
  CommonFlags common;
  Given given;
  const std::vector<std::string> known = add_common_flags(cli, app, common, line);
  add_flags(cli, app, given);
  cli.allow_extras();
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    line.answer = std::string(version.what()) + "\n";
    return line;
  } catch (const CLI::ArgumentMismatch&) {
    const std::string last = argv[argc - 1];
    refuse_without_value(cli, app, last.substr(0, last.find('=')));
  } catch (const CLI::ParseError& error) {
    throw Error(ExitCode::usage, one_line(error.what()) + ": see --help");
  }
  if (auto help = asked_help(cli, app, common)) line.answer = std::move(help);
  if (line.answer) return line;
  refuse_malformed(cli, app, common, given, known);
  set_options(app, common.config, given, line.warnings);
  if (!common.output.empty()) line.output = common.output;
  if (!common.json.empty()) line.json = common.json;
  if (!common.timeout.empty()) line.timeout = seconds_of("--timeout", common.timeout);
  return line;
}

}  // namespace zeropp::app
