// The keys of a DeepSpeed configuration that are no option here: which values change nothing, and
// why. Such a value is ignored, and one warning names all ignored keys of a file; any other value
// is refused, because the run would train or plan something else. Together with the options that
// have DeepSpeed's names, and the other names of options (aliases.hpp), this is every key that is
// known.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/option.hpp"

namespace zeropp::config {

struct DeepSpeedKey {
  /// Values that are ignored.
  enum class Ignores : std::uint8_t {
    anything,
    off,    ///< false, or a section that turns nothing on
    these,  ///< those of `values`, texts in any case; none: the key has to be left out
  };
  std::string path = {};  ///< JSON path; of a section, all that is below it
  std::string why = {};   ///< half a sentence, for messages and the table of keys
  Ignores ignores = Ignores::anything;
  std::vector<nlohmann::json> values = {};  ///< of Ignores::these
  std::string flag = {};                    ///< of Megatron's, for the same; empty: none
};

/// Paths are unique.
const std::vector<DeepSpeedKey>& deepspeed_keys();

/// Whether a program with these options reads DeepSpeed's configuration: the trainer's.
bool reads_deepspeed(const std::vector<Option>& options);

/// Key of that path; null where there is none.
const DeepSpeedKey* find_deepspeed_key(std::string_view path);

/// Throws Error(usage) with the reason and the remedy where the key's value is not ignored. `name`
/// stands for the key.
void check_ignored(const DeepSpeedKey& key, const nlohmann::json& value, const std::string& name);

/// Line that names what a file of DeepSpeed's leaves out although DeepSpeed would train or send
/// something else; empty where there is nothing. A file with a section "zeropp" is one of ours. Ask
/// once everything is read, flags too.
std::string left_out_line(const std::vector<Option>& options);

/// Every key that is known and what it means here, as a table in Markdown: DeepSpeed's keys that
/// work, which are among `options`, other names of options, and deepspeed_keys().
std::string describe_keys(const std::vector<Option>& options);

}  // namespace zeropp::config
