#include "lib/config/codec_schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "lib/base/nearest.hpp"
#include "lib/base/text.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {

namespace {

using nlohmann::json;
using zero::CodecEntry;

/// The keys of an entry that name codecs.
constexpr std::pair<const char*, std::optional<codec::CodecSpec> CodecEntry::*> kCodecs[] = {
    {"weight_codec", &CodecEntry::weight_codec},
    {"gradient_codec_intra", &CodecEntry::gradient_codec_intra},
    {"gradient_codec_inter", &CodecEntry::gradient_codec_inter},
};

void check_keys(const json& entry, const std::string& where) {
  std::vector<std::string> known{"from_step", "units"};
  for (const auto& [key, member] : kCodecs) known.emplace_back(key);
  for (const auto& [key, value] : entry.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string name = shown(key);
    refuse("{}: unknown key {} (nearest known: {})", where, name, nearest(name, known));
  }
}

std::vector<std::string> read_units(const json& value, const std::string& where) {
  const auto is_name = [](const json& name) {
    return name.is_string() && !name.get<std::string>().empty();
  };
  if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_name)) {
    refuse("{}.units: must be an array of kinds or names of units, not {}; leave it out for all",
           where, shown_value(value));
  }
  return value.get<std::vector<std::string>>();
}

codec::CodecSpec read_codec(const json& value, const std::string& where) {
  if (!value.is_string())
    refuse("{}: must be a codec, FORMAT[:BLOCK], not {}", where, shown_value(value));
  try {
    return codec::parse_codec(value.get<std::string>());
  } catch (const std::invalid_argument& error) {
    refuse("{}: {}", where, error.what());
  }
}

CodecEntry read_entry(const json& value, const std::string& where) {
  if (!value.is_object()) refuse("{}: must be an object, not {}", where, shown_value(value));
  check_keys(value, where);
  CodecEntry entry;
  if (value.contains("from_step")) {
    const json& step = value["from_step"];
    if (!step.is_number_integer() || step < 0) {
      refuse("{}.from_step: must be a whole number of steps, not {}", where, shown_value(step));
    }
    entry.from_step = step.get<std::size_t>();
  }
  if (value.contains("units")) entry.units = read_units(value["units"], where);
  bool any = false;
  for (const auto& [key, member] : kCodecs) {
    if (!value.contains(key)) continue;
    entry.*member = read_codec(value[key], where + "." + key);
    any = true;
  }
  if (!any) {
    refuse("{}: names no codec: give weight_codec, gradient_codec_intra or gradient_codec_inter",
           where);
  }
  return entry;
}

}  // namespace

std::vector<CodecEntry> read_codec_schedule(const json& value, const std::string& where) {
  if (!value.is_array())
    refuse("{}: must be an array of entries, not {}", where, shown_value(value));
  std::vector<CodecEntry> schedule;
  for (const json& entry : value) {
    const std::string at = fmt::format("{}[{}]", where, schedule.size());
    schedule.push_back(read_entry(entry, at));
    if (schedule.size() < 2) continue;
    const std::size_t before = schedule[schedule.size() - 2].from_step;
    if (schedule.back().from_step < before) {
      refuse(
          "{}.from_step: {} comes before the {} of the entry above: put entries in the order of "
          "their steps",
          at, schedule.back().from_step, before);
    }
  }
  return schedule;
}

json codec_schedule_json(const std::vector<CodecEntry>& schedule) {
  json list = json::array();
  for (const CodecEntry& entry : schedule) {
    json object{{"from_step", entry.from_step}};
    if (!entry.units.empty()) object["units"] = entry.units;
    for (const auto& [key, member] : kCodecs) {
      if (entry.*member) object[key] = codec::to_string(*(entry.*member));
    }
    list.push_back(std::move(object));
  }
  return list;
}

Structured codec_schedule_field(std::vector<CodecEntry>& schedule) {
  return {.set = [&schedule](
                     const json& value,
                     const std::string& where) { schedule = read_codec_schedule(value, where); },
          .value = [&schedule] { return codec_schedule_json(schedule); },
          .description =
              "a JSON array of {from_step, units, weight_codec, gradient_codec_intra, "
              "gradient_codec_inter}"};
}

}  // namespace zeropp::config
