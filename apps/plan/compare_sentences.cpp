#include "apps/plan/compare_sentences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "apps/plan/rates_text.hpp"
#include "lib/base/units.hpp"
#include "lib/config/deepspeed_reports.hpp"

namespace zeropp::plan_app {

namespace {

std::string sent_as(const codec::CodecSpec& codec, Dtype uncompressed) {
  return codec == codec::CodecSpec{} ? std::string(name_of(uncompressed)) : codec::to_string(codec);
}

std::string if_it_fits(const Comparison& comparison, const Compared& about) {
  const auto too_large = [&](const ComparedRow& row) { return is_too_large(row, about); };
  if (!too_large(comparison.rows.back())) return "";
  return std::ranges::all_of(all_rows(comparison), too_large)
             ? "No row fits, not even ZeRO-3. With enough memory: "
             : "ZeRO++ with all parts does not fit here. With enough memory: ";
}

/// The answer at the cluster's own rate.
std::string whether_it_pays_here(const Comparison& comparison, double gain, std::size_t steps) {
  const double before = comparison.rows.front().seconds;
  const ComparedRow& all = comparison.rows.back();
  const double shorter = 100 * (1 - all.seconds / before);
  if (all.seconds >= (1 - gain) * before) {
    return fmt::format(
        "ZeRO++ does not pay here: it makes a step {:.1f} % {}, and {:.1f} % shorter is asked for "
        "(--gain).",
        std::abs(shorter), shorter < 0 ? "longer" : "shorter", 100 * gain);
  }
  if (steps == 1) {
    return fmt::format("ZeRO++ pays here: it makes a step {:.2f} times as fast.", all.speedup);
  }
  return fmt::format(
      "ZeRO++ pays here: it makes a step {:.2f} times as fast in zpp_train, and {:.2f} times in "
      "DeepSpeed (below).",
      all.speedup, comparison.in_turn.at(kFeatures.size() - 1).speedup);
}

/// What the links of a node carry together.
std::string carried_here(const plan::Cluster& cluster) {
  const double links = cluster.rails.links_per_node;
  const double here = cluster.rails.with(1).rate;
  std::string carried = fmt::format("{} Gbit/s", gbit_as_sold(here * links, cluster));
  if (links != 1) {
    carried += fmt::format(" ({:g} links of {})", links, gbit_as_sold(here, cluster));
  }
  return carried;
}

/// The rates between nodes with which all parts together pay, beside the cluster's own.
std::string where_it_pays(const Comparison& comparison, const plan::Cluster& cluster) {
  const ComparedRow& all = comparison.rows.back();
  const double links = cluster.rails.links_per_node;
  const std::string_view sold = as_sold(cluster);
  const std::string carried = carried_here(cluster);
  if (!all.pays.empty() && !always_pays(all.pays)) {
    return fmt::format(
        "It pays where the links of a node carry {} Gbit/s{} together, and here they carry {}.",
        pays_phrase(all.pays, links, cluster), sold, carried);
  }
  const std::string tried = tried_text(links, cluster);
  return (all.pays.empty()
              ? fmt::format("No rate between nodes that was tried, {}, makes it pay.", tried)
              : fmt::format("It pays at every rate between nodes that was tried, {}, since it "
                            "saves time inside nodes too.",
                            tried)) +
         fmt::format(" Here the links of a node carry {}{}.", carried, sold);
}

/// A row with some parts alone that is faster than ZeRO-3 and than all parts, where its step is
/// shorter than that of all by more than a hundredth; else empty.
std::string whether_less_is_faster(const Comparison& comparison, const Compared& about) {
  constexpr double kSame = 0.99;
  const ComparedRow* fastest = &comparison.rows.back();
  const double limit = kSame * fastest->seconds;
  for (const ComparedRow& row : comparison.rows) {
    if (&row == &comparison.rows.front() || is_too_large(row, about)) continue;
    if (row.seconds < std::min(limit, fastest->seconds)) fastest = &row;
  }
  if (fastest == &comparison.rows.back() || fastest->speedup <= 1) return "";
  return fmt::format(" {} without the other parts makes a step {:.2f} times as fast.",
                     shown_name(fastest->feature, about), fastest->speedup);
}

/// The row of no part of ZeRO++ that fits and is faster than every part that fits; else empty.
/// Steps that are equal but for a hundredth are not.
std::string whether_others_are_faster(const Comparison& comparison, const Compared& about) {
  constexpr double kSame = 0.99;
  double limit = std::numeric_limits<double>::infinity();
  for (const ComparedRow& row : comparison.rows) {
    if (!is_too_large(row, about)) limit = std::min(limit, kSame * row.seconds);
  }
  const ComparedRow* fastest = nullptr;
  for (const ComparedRow& row : comparison.others) {
    if (is_too_large(row, about) || row.seconds >= limit) continue;
    limit = row.seconds;
    fastest = &row;
  }
  if (fastest == nullptr) return "";
  return fmt::format(" The fastest row here is {}, {:.2f} times as fast as ZeRO-3.",
                     shown_name(fastest->feature, about), fastest->speedup);
}

/// Row of a part of ZeRO++ that is on alone.
const ComparedRow& part_row(const Comparison& comparison, std::string_view feature) {
  return *std::ranges::find(comparison.rows, feature, &ComparedRow::feature);
}

/// Whether ZeRO-3 sums gradients in the order of ranks: each rank sends its own, where else those
/// of a node would be added up before they cross nodes.
bool sums_in_order(const Compared& about) {
  return about.all.zero.deterministic && about.topology.ranks_per_node > 1;
}

}  // namespace

std::string shown_name(const std::string& feature, const Compared& about) {
  if (feature == kFeatures.front().name) return "ZeRO-3";
  if (feature == kHybrids.front().name) return "hybrid";
  if (feature == kHybrids.back().name) return "hybrid +qgZ";
  if (feature == kDifferences) return "+differences";
  if (feature != kFeatures.back().name) return "+" + feature;
  return about.all.zero.weight_differences.enabled ? "+differences" : "ZeRO++ (all)";
}

bool is_too_large(const ComparedRow& row, const Compared& about) {
  return about.memory > 0 && static_cast<double>(row.memory) > about.memory;
}

std::string whether_it_pays(const Comparison& comparison, const Compared& about) {
  return if_it_fits(comparison, about) +
         whether_it_pays_here(comparison, about.gain, about.all.gradient_accumulation_steps) +
         whether_less_is_faster(comparison, about) + " " +
         where_it_pays(comparison, *about.cluster) + whether_others_are_faster(comparison, about);
}

std::string what_fits(const Comparison& comparison, const Compared& about) {
  std::vector<std::string> too_large;
  std::vector<std::string> by_the_copy;
  for (const ComparedRow& row : all_rows(comparison)) {
    if (!is_too_large(row, about)) continue;
    too_large.push_back(shown_name(row.feature, about));
    if (static_cast<double>(row.memory_without_copy) <= about.memory) {
      by_the_copy.push_back(too_large.back());
    }
  }
  if (too_large.empty()) return "";
  const std::string on_host =
      by_the_copy.empty()
          ? ""
          : fmt::format(
                "{} would run there with --hpz-device cpu, which leaves the secondary copy "
                "to the memory of the host; ",
                fmt::join(by_the_copy, " and "));
  return fmt::format(
      "{}: this needs more than the {:.1f} GiB of {} and does not run there; {}"
      "zpp_plan search finds what fits.",
      fmt::join(too_large, ", "), about.memory / kGibibyte,
      about.cluster != nullptr && about.memory == about.cluster->gpu.memory
          ? "the GPU " + about.cluster->gpu.name
          : "--memory-limit",
      on_host);
}

std::string about_ordered_sums(const Compared& about) {
  if (!sums_in_order(about)) return "";
  return "For --deterministic ZeRO-3 sends the gradients of each rank by themselves to the ranks "
         "that sum them: without the flag less crosses nodes, and the factor is smaller.";
}

std::string why_this_factor(const Comparison& comparison, const Compared& about) {
  const config::TrainConfig& all = about.all;
  const std::size_t steps = all.gradient_accumulation_steps;
  const double factor = comparison.rows.back().reduction;
  const zero::WeightDifferenceOptions& differences = all.zero.weight_differences;
  if (!comparison.copies_serve) {
    return fmt::format("The factor is {:.2f}, by codecs alone: {} here, because {}.", factor,
                       differences.enabled
                           ? "nothing is gathered from the copy that differences are added to"
                           : "hpZ keeps nothing inside a node",
                       all.zero.has_secondary() ? "weights stay gathered" : "a node has one rank");
  }
  const std::string weights =
      differences.enabled ? "as differences in " + sent_as(differences.codec, all.zero.compute)
                          : "in " + sent_as(all.zero.weight_codec, all.zero.compute);
  const char* const copy =
      differences.enabled ? "the copy that differences are added to" : "the secondary copy of hpZ";
  const std::string gradients = sent_as(all.zero.gradient_codec_inter, all.zero.compute);
  const char* const but = comparison.weights_stay ? ", but for weights that stay gathered," : "";
  const std::string again = steps == 1 ? "twice" : fmt::format("{} times", 2 * steps);
  std::string text = fmt::format(
      "The factor is {:.2f} with {} micro-step{} a step: ZeRO-3 sends the weights across nodes "
      "{}{} and the gradients {}, in {}; ZeRO++ sends the weights once, {}, and the gradients {}, "
      "in {}.",
      factor, steps, steps == 1 ? "" : "s", again, but,
      sums_in_order(about) ? "of each rank"
      : steps == 1         ? "once"
                           : "once a micro-step",
      name_of(all.zero.compute), weights, steps == 1 ? "once" : "once a micro-step", gradients);
  if (steps == 1) {
    text +=
        fmt::format(" With more micro-steps the factor grows: {} serves all later passes.", copy);
  }
  return text;
}

std::string about_hybrids(const Comparison& comparison, const Compared& about) {
  if (!comparison.why_no_hybrids.empty()) {
    return "Hybrid sharding has no rows, for zpp_train refuses it here: " +
           comparison.why_no_hybrids + ".";
  }
  if (other_row(comparison, kHybrids.front().name) == nullptr) return "";
  const int ranks = about.topology.ranks_per_node;
  return fmt::format(
      "Hybrid sharding keeps everything once in each node, sharded over its ranks: only gradients "
      "cross nodes, once a step. Its flag is --shard-group-size {} without ZeRO++'s, with qgZ "
      "--zero-quantized-gradients too. In a DeepSpeed JSON it is MiCS, under zero_optimization: "
      "\"mics_shard_size\": {}; the model has to be built under deepspeed.zero.MiCS_Init, which "
      "Hugging Face's Trainer does not do (accelerate #3442).",
      ranks, ranks);
}

std::string without_loss(const Comparison& comparison, const Compared& about) {
  const ComparedRow& hpz = part_row(comparison, "hpZ");
  std::string text;
  if (about.topology.ranks_per_node > 1 && hpz.reduction > 1) {
    text = fmt::format(
        "Without any effect on the loss: +hpZ alone, {:.2f} times fewer bytes{}, with "
        "--zero-hpz-partition-size {}, or \"zero_hpz_partition_size\": {} under zero_optimization.",
        hpz.reduction,
        about.cluster == nullptr ? ""
                                 : fmt::format(" and a step {:.2f} times as fast", hpz.speedup),
        about.topology.ranks_per_node, about.topology.ranks_per_node);
  }
  if (about.all.zero.weight_differences.enabled) return text;
  if (!text.empty()) text += ' ';
  if (other_row(comparison, kDifferences) != nullptr) {
    return text +
           "Weight differences (row +differences, in zpp_train alone) showed no effect either, and "
           "keep a copy of all weights in every node: add --weight-differences to the flags of all "
           "parts (under zeropp: \"weight_differences\": true).";
  }
  return text + "Weight differences have no row, for zpp_train refuses them here: " +
         comparison.why_no_differences + ".";
}

std::string about_overlap(const Comparison& comparison) {
  if (std::isnan(comparison.overlapped_all)) return "";
  return fmt::format(
      "This job has overlap_comm off. With it (--overlap-comm, \"overlap_comm\": true) ZeRO-3 "
      "takes {:.1f} ms in place of {:.1f}, and ZeRO++ {:.1f} in place of {:.1f}.",
      comparison.overlapped_before * 1e3, comparison.rows.front().seconds * 1e3,
      comparison.overlapped_all * 1e3, comparison.rows.back().seconds * 1e3);
}

std::string what_deepspeed_does(const Compared& about) {
  std::string text =
      "DeepSpeed sends the bytes of these rows: since January 2024 (its #4906) the secondary copy "
      "of hpZ serves every micro-step up to the optimizer's; before, each forward gathered across "
      "nodes.";
  if (about.all.zero.weight_differences.enabled) {
    text += " It has no weight differences: its ZeRO++ sends whole weights.";
  }
  if (about.cluster == nullptr) return text;
  return text +
         " Its micro-steps run one after the other. These are times of the cluster's engine; "
         "DeepSpeed's own hides less, and gains less (1.86 times in place of 2.31 for 18 billion "
         "parameters on 16 nodes of A100: docs/howto/planning-times.md).";
}

std::vector<std::string> deepspeed_problems(const Compared& about) {
  std::vector<std::string> found;
  for (const config::DeepSpeedReport& report : config::deepspeed_reports()) {
    if (!report.concerns(about.all, about.topology.node_count)) continue;
    found.push_back(report.mended ? fmt::format("{}: {} ({}).", report.setting, report.versions,
                                                report.threads.front())
                                  : fmt::format("{}: {}. {} ({}).", report.setting, report.seen,
                                                report.versions, fmt::join(report.threads, ", ")));
  }
  return found;
}

}  // namespace zeropp::plan_app
