// The keys of a DeepSpeed configuration that are no option here: what becomes of each, and why. A
// value that changes nothing here is accepted with one warning, any other is refused. Together with
// the options that have DeepSpeed's names, and the other names of options (aliases.hpp), this is
// every key that is known.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

struct DeepSpeedKey {
  /// Values of a DeepSpeed key that pass.
  enum class Accepts : std::uint8_t {
    anything,
    these,     ///< those of `values`
    disabled,  ///< false, or an object that is not enabled
    nothing,
  };
  std::string path = {};      ///< JSON path; of a section, all that is below it
  std::string type = {};      ///< as in DeepSpeed's documentation: "boolean", "section"
  std::string fallback = {};  ///< DeepSpeed's default
  Accepts accepts = Accepts::nothing;
  std::vector<nlohmann::json> values = {};  ///< of Accepts::these
  std::string why = {};                     ///< half a sentence, for both messages and the table
  std::string flag = {};                    ///< of Megatron's, for the same; empty: none
};

/// Keys in the order of DeepSpeed's documentation. Paths are unique.
const std::vector<DeepSpeedKey>& deepspeed_keys();

/// Whether a program with these options reads DeepSpeed's configuration: the trainer's.
bool reads_deepspeed(const std::vector<Option>& options);

/// Key of that path; null where there is none.
const DeepSpeedKey* find_deepspeed_key(std::string_view path);

/// The warning of a key that is there. `name` stands for the file. Throws Error(usage): its value
/// is refused.
std::string accept(const DeepSpeedKey& key, const nlohmann::json& value, const std::string& name);

/// Every key that is known and what it means here, as a table in Markdown: DeepSpeed's keys that
/// work, which are among `options`, other names of options, and deepspeed_keys().
std::string describe_keys(const std::vector<Option>& options);

}  // namespace zeropp::config
