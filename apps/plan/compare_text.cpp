#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "apps/plan/compare_outputs.hpp"
#include "apps/plan/rates_text.hpp"
#include "lib/base/units.hpp"
#include "lib/trace/sinks/table.hpp"

namespace zeropp::plan {

namespace {

constexpr std::size_t kColumns = 120;

/// Name of a row of the table.
std::string shown_name(const ComparedRow& row) {
  if (row.feature == kFeatures.front().name) return "ZeRO-3";
  return row.feature == kFeatures.back().name ? "ZeRO++ (all)" : "+" + row.feature;
}

/// A paragraph of lines that are no longer than a terminal is wide.
std::string wrapped(std::string_view text) {
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

bool pays(const ComparedRow& row, const Comparison& comparison, double gain) {
  return row.seconds < (1 - gain) * comparison.rows.front().seconds;
}

std::string pays_below(const ComparedRow& row, const Cluster& cluster) {
  if (row.feature == kFeatures.front().name) return "-";
  return pays_text(row.pays, cluster.rails.links_per_node, cluster);
}

std::string table_of(const Comparison& comparison, const Compared& about) {
  std::vector<std::string> header{"step of", "GB out of a node", "factor", "GiB a GPU"};
  if (about.cluster != nullptr) {
    header.insert(header.end(), {"step ms", "speed-up", "pays below Gbit/s", "bound by"});
  }
  trace::TextTable table(header);
  for (const ComparedRow& row : comparison.rows) {
    std::vector<std::string> cells{
        shown_name(row), fmt::format("{:.3f}", static_cast<double>(row.out_of_node) * 1e-9),
        fmt::format("{:.2f}", row.reduction),
        fmt::format("{:.3f}", static_cast<double>(row.memory) / kGibibyte)};
    if (about.cluster != nullptr) {
      cells.insert(cells.end(),
                   {fmt::format("{:.1f}", row.seconds * 1e3), fmt::format("{:.2f}", row.speedup),
                    pays_below(row, *about.cluster), row.bound});
    }
    table.add(std::move(cells));
  }
  return table.str();
}

std::string whether_it_pays(const Comparison& comparison, const Compared& about) {
  const Cluster& cluster = *about.cluster;
  const ComparedRow& all = comparison.rows.back();
  const double links = cluster.rails.links_per_node;
  const double here = cluster.rails.with(1).rate;
  std::string text;
  if (static_cast<double>(all.memory) > cluster.gpu.memory) {
    text = "ZeRO++ does not fit here. If it did: ";
  }
  const double shorter = 100 * (1 - all.seconds / comparison.rows.front().seconds);
  if (pays(all, comparison, about.gain)) {
    text += fmt::format("ZeRO++ pays here: it makes a step {:.2f} times as fast.", all.speedup);
  } else {
    text += fmt::format(
        "ZeRO++ does not pay here: it makes a step {:.1f} % {}, and {:.1f} % shorter is asked for "
        "(--gain).",
        std::abs(shorter), shorter < 0 ? "longer" : "shorter", 100 * about.gain);
  }
  const std::string_view sold = as_sold(cluster);
  std::string carried = fmt::format("{} Gbit/s", gbit_as_sold(here * links, cluster));
  if (links != 1) {
    carried += fmt::format(" ({:g} links of {})", links, gbit_as_sold(here, cluster));
  }
  if (!all.pays.empty() && !always_pays(all.pays)) {
    return text +
           fmt::format(
               " It pays where the links of a node carry {} Gbit/s{} together, and here they "
               "carry {}.",
               pays_phrase(all.pays, links, cluster), sold, carried);
  }
  text += all.pays.empty() ? " No rate between nodes that was tried makes it pay."
                           : " It pays at every rate between nodes that was tried, since it saves "
                             "time inside nodes too.";
  return text + fmt::format(" Here the links of a node carry {}{}.", carried, sold);
}

std::string what_fits(const Comparison& comparison, const Cluster& cluster) {
  std::vector<std::string> too_large;
  for (const ComparedRow& row : comparison.rows) {
    if (static_cast<double>(row.memory) > cluster.gpu.memory) too_large.push_back(shown_name(row));
  }
  if (too_large.empty()) return "";
  return wrapped(
      fmt::format("{}: this needs more than the {:.1f} GiB of a {} and does not run there; "
                  "zpp_plan search finds what fits.",
                  fmt::join(too_large, ", "), cluster.gpu.memory / kGibibyte, cluster.gpu.name));
}

const ComparedRow& row_of(const Comparison& comparison, std::string_view feature) {
  return *std::ranges::find(comparison.rows, feature, &ComparedRow::feature);
}

std::string sent_as(const codec::CodecSpec& codec, Dtype uncompressed) {
  return codec == codec::CodecSpec{} ? std::string(name_of(uncompressed)) : codec::to_string(codec);
}

std::string why_this_factor(const Comparison& comparison, const config::TrainConfig& all) {
  const std::size_t steps = all.gradient_accumulation_steps;
  const double factor = comparison.rows.back().reduction;
  const std::uint64_t without_hpz = comparison.rows.front().out_of_node;
  if (row_of(comparison, "hpZ").out_of_node >= without_hpz) {
    return fmt::format(
        "The factor is {:.2f}, by codecs alone: hpZ keeps nothing inside a node here, because a "
        "node "
        "has one rank, or weights stay gathered.",
        factor);
  }
  const std::string weights = sent_as(all.zero.weight_codec, all.zero.compute);
  const std::string gradients = sent_as(all.zero.gradient_codec_inter, all.zero.compute);
  if (steps == 1) {
    return fmt::format(
        "The factor is {:.2f} with one micro-step a step: ZeRO-3 sends the weights across nodes "
        "twice and the gradients once, in {}; ZeRO++ sends the weights once, in {}, and the "
        "gradients once, in {}. More micro-steps make it larger in zpp_train, because the "
        "secondary "
        "copy of hpZ serves later forwards too; in DeepSpeed it stays, because every forward "
        "gathers across nodes.",
        factor, name_of(all.zero.compute), weights, gradients);
  }
  return fmt::format(
      "The factor is {:.2f} with {} micro-steps a step (gradient accumulation) and {:.2f} with "
      "one: ZeRO-3 gathers the weights across nodes {} times a step, and ZeRO++ once, in {}, "
      "because "
      "the "
      "secondary copy of hpZ serves all later forwards and backwards; gradients cross nodes once a "
      "micro-step, in {}. In DeepSpeed every forward gathers across nodes, so that the factor is "
      "that of one micro-step.",
      factor, steps, comparison.reduction_of_one_micro_step, 2 * steps, weights, gradients);
}

}  // namespace

std::string to_text(const Comparison& comparison, const Compared& about) {
  const config::TrainConfig& config = about.all;
  std::string text = wrapped(fmt::format(
      "{}: {} of {:.3g} billion parameters in {}, {:.0f} tokens a step in {} micro-step{}",
      about.topology.describe(), config.model.name,
      static_cast<double>(comparison.parameters) * 1e-9, name_of(config.zero.compute),
      comparison.tokens_per_step, config.gradient_accumulation_steps,
      config.gradient_accumulation_steps == 1 ? "" : "s"));
  if (about.cluster != nullptr) {
    text += wrapped(fmt::format("cluster: {}", about.cluster->name));
    text += wrapped(fmt::format("rates: {}", about.cluster->source));
  }
  text += fmt::format("\n{}\n", table_of(comparison, about));
  if (about.cluster != nullptr) {
    text += wrapped(whether_it_pays(comparison, about));
    if (about.cluster->rails.sold_share < 1) {
      text += wrapped(
          "Rates between nodes are those that all links of a node are sold as together, as "
          "--node-gbit takes them.");
    }
    text += what_fits(comparison, *about.cluster);
    if (comparison.vendors_are_faster) {
      text += wrapped(
          "ZeRO-3 is timed with NCCL's own collectives, which are faster here; its bytes are those "
          "of zeropp's.");
    }
  }
  text += wrapped(why_this_factor(comparison, config));
  text += wrapped(
      fmt::format("To turn it on: --zero-quantized-weights --zero-hpz-partition-size {0} "
                  "--zero-quantized-gradients, or in a DeepSpeed JSON, under zero_optimization: "
                  "\"zero_quantized_weights\": true, \"zero_hpz_partition_size\": {0}, "
                  "\"zero_quantized_gradients\": true.",
                  config.zero.hpz_partition_size));
  if (about.cluster == nullptr) {
    text += wrapped(
        "For step times and whether it pays add the GPU and what the links of a node carry "
        "together (--gpu h100 --node-gbit 400), or a file (--cluster FILE).");
  }
  return text;
}

}  // namespace zeropp::plan
