#include "apps/converge/run_record.hpp"

namespace zeropp::trace {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ErrorRow, step, kind, unit_kind, relative_l2, cosine, largest,
                                   norm_ratio)

}  // namespace zeropp::trace

namespace zeropp::converge {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CurveRow, loss, grad_norm, skipped)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeldOutRow, step, loss)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DistanceRow, step, distance, bound)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DistanceSummary, violations, largest_ratio, steps, rows)

namespace {

/// Calls visit(key, member) for every member of a record, which may be const.
template <class Record, class Visit>
void for_each_member(Record& r, const Visit& visit) {
  visit("setting", r.setting);
  visit("seed", r.seed);
  visit("world_size", r.world_size);
  visit("node_size", r.node_size);
  visit("steps", r.steps);
  visit("skipped", r.skipped);
  visit("final_train_loss", r.final_train_loss);
  visit("final_held_out_loss", r.final_held_out_loss);
  visit("bits_per_byte", r.bits_per_byte);
  visit("seconds", r.seconds);
  visit("seconds_per_step", r.seconds_per_step);
  visit("bytes_inter_node", r.bytes_inter_node);
  visit("bytes_predicted_inter_node", r.bytes_predicted_inter_node);
  visit("data_hash", r.data_hash);
  visit("parameters_hash", r.parameters_hash);
  visit("verdict", r.verdict);
  visit("diverged", r.diverged);
  visit("curve", r.curve);
  visit("evaluations", r.evaluations);
  visit("held_out_parts", r.held_out_parts);
  visit("errors", r.errors);
  visit("quadratic", r.quadratic);
}

}  // namespace

void to_json(nlohmann::json& json, const RunRecord& record) {
  json = nlohmann::json::object();
  for_each_member(record, [&](const char* key, const auto& value) { json[key] = value; });
}

void from_json(const nlohmann::json& json, RunRecord& record) {
  for_each_member(record, [&](const char* key, auto& value) { json.at(key).get_to(value); });
}

}  // namespace zeropp::converge
