// What follows from a comparison, in sentences: paragraphs without line breaks, empty where there
// is nothing to say.
#pragma once

#include <string>
#include <vector>

#include "apps/plan/compare_outputs.hpp"

namespace zeropp::plan_app {

/// Name of a feature as the tables show it.
std::string shown_name(const std::string& feature, const Compared& about);

/// Whether `row` needs more memory than a rank may take.
bool is_too_large(const ComparedRow& row, const Compared& about);

/// Says whether ZeRO++ pays on the cluster, whose rates are known.
std::string whether_it_pays(const Comparison& comparison, const Compared& about);
std::string what_fits(const Comparison& comparison, const Compared& about);
std::string why_this_factor(const Comparison& comparison, const Compared& about);
/// What a deterministic job adds to ZeRO-3's bytes; empty of another.
std::string about_ordered_sums(const Compared& about);
/// What hybrid sharding is and how to turn it on, or why it has no rows.
std::string about_hybrids(const Comparison& comparison, const Compared& about);
/// What saves bytes and has no effect on the loss: hpZ, and weight differences or why not.
std::string without_loss(const Comparison& comparison, const Compared& about);
/// What a job without overlap_comm takes with it; empty of another, and without times.
std::string about_overlap(const Comparison& comparison);
/// What DeepSpeed does with several micro-steps.
std::string what_deepspeed_does(const Compared& about);
/// Threads of DeepSpeed's and what they say that its ZeRO++ does with a job like this.
std::vector<std::string> deepspeed_problems(const Compared& about);

}  // namespace zeropp::plan_app
