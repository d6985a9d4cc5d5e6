// zpp_plan savings: what ZeRO++ saves of the traffic of a step, from the number of parameters alone
// (lib/plan/savings.hpp), or the table of codecs.
#include "lib/plan/savings.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "apps/plan/commands.hpp"
#include "lib/app/app.hpp"
#include "lib/base/atomic_file.hpp"
#include "lib/base/error.hpp"
#include "lib/base/standard_output.hpp"
#include "lib/config/effects.hpp"
#include "lib/config/lists.hpp"
#include "lib/trace/sinks/json_sink.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

struct Request {
  bool table = false;
  std::string codecs = "int8:64,int6:64,int4:64";
  std::size_t model_params = 0;
  std::size_t world_size = 0;
  std::string baseline;
  std::string passes = "once";
  plan::SavingsConfig config;
};

std::vector<config::Option> options(Request& r) {
  std::vector<config::Option> table{{.path = "table",
                                     .flag = "--table",
                                     .field = &r.table,
                                     .help = "Print bytes per parameter by codec"},
                                    {.path = "codec",
                                     .flag = "--codec",
                                     .field = &r.codecs,
                                     .help = "Codecs of the table; several with commas",
                                     .in_effect = [&] { return r.table; },
                                     .effect_needs = "--table"}};
  const auto of_call = [&](config::Option option) {
    option.in_effect = [&] { return !r.table; };
    option.effect_needs = "--no-table";
    table.push_back(std::move(option));
  };
  of_call({.path = "model_params",
           .flag = "--model-params",
           .field = &r.model_params,
           .help = "Parameters of the model, as in 18e9"});
  of_call({.path = "world_size", .flag = "--world-size", .field = &r.world_size, .help = "Ranks"});
  of_call({.path = "baseline",
           .flag = "--baseline",
           .field = &r.baseline,
           .help = "Type of what a step without ZeRO++ sends; the overview counts from fp32, mixed "
                   "precision sends 16 bits",
           .choices = {"fp32", "bf16", "fp16"}});
  of_call({.path = "passes",
           .flag = "--passes",
           .field = &r.passes,
           .help = "Passes over the weights: once is one gather and one reduce-scatter, zero3 two "
                   "gathers, of which hpZ keeps one inside nodes",
           .choices = {"once", "zero3"}});
  of_call({.path = "weight_codec",
           .flag = "--weight-codec",
           .field = &r.config.weights,
           .help = "Codec of weights, FORMAT[:BLOCK][+OPTION...]"});
  table.back().in_effect = [&] { return !r.table && !r.config.weight_differences; };
  table.back().effect_needs = "--no-table and --no-weight-differences";
  of_call({.path = "gradient_codec",
           .flag = "--gradient-codec",
           .field = &r.config.gradients,
           .help = "Codec of gradients, FORMAT[:BLOCK][+OPTION...]"});
  of_call({.path = "hpz",
           .flag = "--hpz",
           .field = &r.config.hpz,
           .help = "Keep the gather of backward inside nodes, where it is not counted"});
  of_call({.path = "weight_differences",
           .flag = "--weight-differences",
           .field = &r.config.weight_differences,
           .help = "Send how weights differ from the nodes' copies; the whole weights of the first "
                   "step are not counted"});
  of_call({.path = "weight_difference_codec",
           .flag = "--weight-difference-codec",
           .field = &r.config.differences,
           .help = "Codec of the differences, FORMAT[:BLOCK][+OPTION...]"});
  table.back().in_effect = [&] {
    return !r.table && r.config.weight_differences && r.config.exact_bits == 0;
  };
  table.back().effect_needs = "--no-table, --weight-differences and no --exact-planned-bits";
  of_call({.path = "exact_planned_bits",
           .flag = "--exact-planned-bits",
           .field = &r.config.exact_bits,
           .help =
               "Bits per weight of differences without loss, instead of a codec; runs took 3 to "
               "6.5; 0: the codec",
           .unit = "bits",
           .range = config::between(0, 16)});
  table.back().in_effect = [&] { return !r.table && r.config.weight_differences; };
  table.back().effect_needs = "--no-table and --weight-differences";
  return table;
}

/// A rule for those that have no default.
void require_given(const std::vector<config::Option>& given) {
  for (const config::Option& option : given) {
    const bool needed =
        option.path == "model_params" || option.path == "world_size" || option.path == "baseline";
    if (needed && !option.given) {
      throw Error(ExitCode::usage,
                  fmt::format("{} is missing: give it, or --table for bytes per parameter by codec",
                              option.flag));
    }
  }
}

nlohmann::json table_json(const std::vector<plan::WidthRow>& rows) {
  nlohmann::json listed = nlohmann::json::array();
  for (const plan::WidthRow& row : rows) {
    listed.push_back({{"codec", row.codec},
                      {"bytes_per_value", row.bytes_per_value},
                      {"scale_overhead", row.scale_overhead},
                      {"bytes_per_step", row.bytes_per_step},
                      {"reduction_fp32", row.reduction_fp32},
                      {"reduction_16bit", row.reduction_16bit}});
  }
  return {{"rows", listed}};
}

std::string table_text(const std::vector<plan::WidthRow>& rows) {
  trace::TextTable table({"codec", "bytes per value", "scales over codes", "bytes per step",
                          "vs fp32 (8)", "vs 16 bit (4)"});
  for (const plan::WidthRow& row : rows) {
    table.add({row.codec, fmt::format("{:.4f}", row.bytes_per_value),
               fmt::format("{:.2f} %", 100 * row.scale_overhead),
               fmt::format("{:.4f}", row.bytes_per_step),
               fmt::format("{:.2f}x", row.reduction_fp32),
               fmt::format("{:.2f}x", row.reduction_16bit)});
  }
  return table.str() + "\nA step: one gather and one reduce-scatter of every parameter.\n";
}

nlohmann::json call_json(const plan::Savings& found) {
  return {{"baseline_gb", found.baseline_gb},
          {"zero_plusplus_gb", found.zero_plusplus_gb},
          {"reduction_factor", found.reduction_factor},
          {"savings_percent", found.savings_percent}};
}

std::string call_text(const plan::Savings& found) {
  return fmt::format(
      "baseline        {:.4f} GB\nZeRO++          {:.4f} GB\nreduction       {:.4f}x\nsavings   "
      "      {:.3f} %\n\nSent by one rank in a step; GB are 1e9 bytes.\n",
      found.baseline_gb, found.zero_plusplus_gb, found.reduction_factor, found.savings_percent);
}

ExitCode answer(const Request& r, const app::Call& call) {
  refuse_output(call);
  if (call.json) preflight_write(*call.json, 0);
  std::string text;
  nlohmann::json value;
  if (r.table) {
    const std::vector<plan::WidthRow> rows =
        plan::savings_table(config::codecs_of(r.codecs, "--codec"));
    text = table_text(rows);
    value = table_json(rows);
  } else {
    const plan::Savings found =
        plan::savings(r.model_params, r.world_size, r.config, plan::parse_baseline(r.baseline),
                      plan::parse_passes(r.passes));
    text = call_text(found);
    value = call_json(found);
  }
  standard_output::write(text);
  value["schema"] = "zeropp-savings";
  value["schema_version"] = "1.0";
  value["config"] = nlohmann::json::parse(call.config_json());
  if (call.json) trace::write_json(value, *call.json);
  return ExitCode::ok;
}

}  // namespace

std::vector<std::string> savings_flags() { return flags_for<Request>(); }

int run_savings(int argc, char** argv) {
  Request request;
  app::App app{
      .name = "plan",
      .options = options(request),
      .config_flags = kConfigFlags,
      .training_ignored = "savings are counted from the number of parameters and the flags alone"};
  describe(app, "savings");
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine&) {
    config::check_effects(given);
    if (request.table) {
      (void)config::codecs_of(request.codecs, "--codec");
    } else {
      require_given(given);
    }
  };
  app.run_alone = [&](const app::Call& call) { return answer(request, call); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::plan_app
