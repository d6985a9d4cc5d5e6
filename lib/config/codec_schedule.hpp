// zeropp.codec_schedule as JSON: an array of entries in the order of their steps,
//   [{"from_step": 100, "units": ["embedding", "h.[0-3]"], "gradient_codec_intra": "int8:128"}]
// "from_step" (default 0) and "units" (default all) say where the codecs of the entry hold: any of
// weight_codec, gradient_codec_intra, gradient_codec_inter, at least one.
// lib/zero/plan/codec_table.hpp explains them; this header does not include it, since lib/config
// knows only the options of lib/zero.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/config/option.hpp"
#include "lib/zero/plan/options.hpp"

namespace zeropp::config {

/// Reads a codec schedule from a JSON value. `where` names the key in messages. Throws
/// Error(usage): what is no such array, an unknown key (with the nearest known one), a value that
/// is none, an entry without a codec or out of order.
std::vector<zero::CodecEntry> read_codec_schedule(const nlohmann::json& value,
                                                  const std::string& where);
/// JSON of a schedule; read_codec_schedule() of it gives the schedule again.
nlohmann::json codec_schedule_json(const std::vector<zero::CodecEntry>& schedule);

/// The option zeropp.codec_schedule's value.
Structured codec_schedule_field(std::vector<zero::CodecEntry>& schedule);

}  // namespace zeropp::config
