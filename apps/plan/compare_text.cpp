#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "apps/plan/byte_unit.hpp"
#include "apps/plan/compare_outputs.hpp"
#include "apps/plan/compare_sentences.hpp"
#include "apps/plan/flags_text.hpp"
#include "apps/plan/rates_text.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan_app {

namespace {

constexpr std::size_t kColumns = 120;

/// A paragraph of lines that are no longer than a terminal is wide.
std::string wrapped(std::string_view text) {
  if (text.empty()) return "";
  std::string made;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (column > 0) made += column + 1 + word.size() > kColumns ? '\n' : ' ';
    column = column == 0 || made.back() == '\n' ? word.size() : column + 1 + word.size();
    made += word;
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return made + '\n';
}

std::string pays_below(const ComparedRow& row, const plan::Cluster& cluster) {
  if (row.feature == kFeatures.front().name) return "-";
  return pays_below_text(row.pays, cluster.rails.links_per_node, cluster);
}

/// What the row leaves of the memory of a rank; less than nothing where it does not fit.
std::string left_of(const ComparedRow& row, const Compared& about, const ByteUnit& unit) {
  return in_unit(about.memory - static_cast<double>(row.memory), unit);
}

ByteUnit sent_unit(std::uint64_t largest) { return decimal_unit(static_cast<double>(largest)); }

ByteUnit memory_unit(const Comparison& comparison) {
  return binary_unit(
      static_cast<double>(std::ranges::max(all_rows(comparison), {}, &ComparedRow::memory).memory));
}

std::string table_of(const Comparison& comparison, const Compared& about) {
  const ByteUnit sent = sent_unit(comparison.rows.front().out_of_node);
  const ByteUnit held = memory_unit(comparison);
  const bool timed = about.cluster != nullptr;
  std::vector<std::string> header{"step of", fmt::format("{} out of a node", sent.name), "factor",
                                  fmt::format("{} a GPU", held.name)};
  if (about.memory > 0) header.push_back(fmt::format("{} left", held.name));
  if (timed) header.insert(header.end(), {"step ms", "speed-up", "pays below", "bound by"});
  trace::TextTable table(header);
  for (const ComparedRow& row : all_rows(comparison)) {
    std::vector<std::string> cells{
        shown_name(row.feature, about), in_unit(static_cast<double>(row.out_of_node), sent),
        fmt::format("{:.2f}", row.reduction), in_unit(static_cast<double>(row.memory), held)};
    if (about.memory > 0) cells.push_back(left_of(row, about, held));
    if (timed) {
      cells.insert(cells.end(),
                   {fmt::format("{:.1f}", row.seconds * 1e3), fmt::format("{:.2f}", row.speedup),
                    pays_below(row, *about.cluster), row.bound});
    }
    table.add(std::move(cells));
  }
  return table.str();
}

std::string name_in_deepspeed(const std::string& feature, const Compared& about) {
  if (feature == kFeatures.back().name) return "ZeRO++ (all)";
  return feature == kHybrids.front().name ? "hybrid (MiCS)" : shown_name(feature, about);
}

std::string table_in_turn(const Comparison& comparison, const Compared& about) {
  const bool timed = about.cluster != nullptr;
  const ByteUnit sent = sent_unit(comparison.in_turn.front().out_of_node);
  std::vector<std::string> header{"step in DeepSpeed", fmt::format("{} out of a node", sent.name),
                                  "factor"};
  if (timed) header.insert(header.end(), {"step ms", "speed-up"});
  trace::TextTable table(header);
  for (const InTurnRow& row : comparison.in_turn) {
    std::vector<std::string> cells{name_in_deepspeed(row.feature, about),
                                   in_unit(static_cast<double>(row.out_of_node), sent),
                                   fmt::format("{:.2f}", row.reduction)};
    if (timed) {
      cells.push_back(fmt::format("{:.1f}", row.seconds * 1e3));
      cells.push_back(fmt::format("{:.2f}", row.speedup));
    }
    table.add(std::move(cells));
  }
  return table.str();
}

std::string head_of(const Comparison& comparison, const Compared& about) {
  const config::TrainConfig& config = about.all;
  std::string text = wrapped(fmt::format(
      "{}: {} of {:.3g} billion parameters in {}, {:.0f} tokens a step in {} micro-step{}, "
      "activations {}",
      about.topology.describe(), config.model.name,
      static_cast<double>(comparison.parameters) * 1e-9, name_of(config.zero.compute),
      comparison.tokens_per_step, config.gradient_accumulation_steps,
      config.gradient_accumulation_steps == 1 ? "" : "s",
      config.model.recompute_activations ? "computed again"
                                         : "all kept (--recompute-activations takes less memory)"));
  if (about.cluster == nullptr) return text;
  return text + wrapped(fmt::format("cluster: {}", about.cluster->name)) +
         wrapped(fmt::format("rates: {}", about.cluster->source));
}

/// What is said of times.
std::string about_times(const Comparison& comparison, const Compared& about) {
  std::string text = wrapped(whether_it_pays(comparison, about));
  text += wrapped(fmt::format("Rates between nodes are Gbit/s that all links of a node {}.",
                              about.cluster->rails.sold_share < 1
                                  ? "are sold as together, as --node-gbit takes them"
                                  : "carry together, as measured"));
  if (comparison.vendors_are_faster) {
    text += wrapped(fmt::format(
        "ZeRO-3 is timed with NCCL's own {} faster here; its bytes are those of zeropp's.",
        about.all.zero.deterministic ? "all-gather, which is" : "collectives, which are"));
  }
  return text;
}

std::string to_turn_it_on(const zero::Options& all) {
  std::string hpz_flag;
  std::string hpz_key;
  if (all.hpz_partition_size > 1) {  // nodes of one rank have no hpZ
    hpz_flag = fmt::format(" --zero-hpz-partition-size {}", all.hpz_partition_size);
    hpz_key = fmt::format(R"("zero_hpz_partition_size": {}, )", all.hpz_partition_size);
  }
  std::string own_flags;
  std::vector<std::string> own_keys;
  if (all.has_secondary() && all.hpz_device == zero::HpzDevice::cpu) {
    own_flags += " --hpz-device cpu";
    own_keys.emplace_back(R"("hpz_device": "cpu")");
  }
  if (all.weight_differences.enabled) {
    own_flags += " --weight-differences";
    own_keys.emplace_back(R"("weight_differences": true)");
  }
  return fmt::format(
      "To turn on all parts: --zero-quantized-weights{} --zero-quantized-gradients{}, or in a "
      "DeepSpeed JSON, under zero_optimization: \"zero_quantized_weights\": true, {}"
      "\"zero_quantized_gradients\": true{}{}.",
      hpz_flag, own_flags, hpz_key,
      own_keys.empty() ? "" : ", and under zeropp: ", fmt::join(own_keys, ", "));
}

std::string about_deepspeed(const Comparison& comparison, const Compared& about) {
  if (about.all.gradient_accumulation_steps == 1) return "";
  std::string text = wrapped(what_deepspeed_does(about));
  // Without times and weight differences its rows would be those of the first table.
  if (about.cluster == nullptr && !about.all.zero.weight_differences.enabled) return text;
  return fmt::format("\n{}\n{}\n", text, table_in_turn(comparison, about));
}

std::string known_problems(const Compared& about) {
  if (!about.from_file) return "";
  const std::vector<std::string> problems = deepspeed_problems(about);
  if (problems.empty()) return "";
  std::string text =
      "Known problems of DeepSpeed with a job like this (docs/howto/deepspeed-versions.md):\n";
  for (const std::string& problem : problems) text += wrapped("- " + problem);
  return text;
}

}  // namespace

std::string to_text(const Comparison& comparison, const Compared& about) {
  std::string text = head_of(comparison, about);
  text += fmt::format("\n{}\n", table_of(comparison, about));
  if (!about.vocabulary.empty()) text += wrapped(about.vocabulary + ".");
  if (!about.batch.empty()) {
    text += wrapped(about.batch + "; with more ZeRO++ saves a smaller share of the step.");
  }
  if (about.cluster != nullptr) text += about_times(comparison, about);
  text += wrapped(what_fits(comparison, about));
  text += wrapped(about_overlap(comparison));
  text += wrapped("Memory is zpp_train's; DeepSpeed's own is not predicted.");
  text += wrapped(why_this_factor(comparison, about));
  const std::string ordered = about_ordered_sums(about);
  if (!ordered.empty()) text += wrapped(ordered);
  text += about_deepspeed(comparison, about);
  text += wrapped(without_loss(comparison, about));
  text += wrapped(to_turn_it_on(about.all.zero) +
                  " The planner cannot predict the effect on the loss: "
                  "docs/howto/safe-compression.md has what was measured.");
  text += known_problems(about);
  const std::string model = flags_text(about.all, kModelPaths);
  if (about.all.model.mlp_width > 0) {
    text +=
        wrapped("zpp_train has no blocks as the config.json has them: it cannot train this model.");
  } else if (!model.empty()) {
    text += wrapped(fmt::format("The model in zpp_train's flags: {}.", model));
  }
  text += wrapped(about_hybrids(comparison, about));
  text += wrapped(
      "Stages 1 and 2, which hold all weights on every GPU and can be faster where they fit, are "
      "not compared: zpp_plan search has rows of them.");
  if (about.cluster == nullptr) {
    text += wrapped(
        "For step times and whether it pays add the GPU and what the links of a node carry "
        "together (--gpu h100 --node-gbit 400), or a file (--cluster FILE).");
  }
  return text;
}

}  // namespace zeropp::plan_app
