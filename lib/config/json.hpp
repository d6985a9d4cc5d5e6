// Configuration as JSON: reads a DeepSpeed-style file into an option table, and writes the
// effective configuration in canonical form.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/effects.hpp"
#include "lib/config/option.hpp"

namespace zeropp::config {

/// The text of a configuration file, or of another that is read like one. Throws Error(io) when it
/// cannot be read, which says `what` it is and that `remedy` is to be checked; Error(usage) when it
/// is far too large for one.
std::string read_config_text(const std::filesystem::path& path,
                             std::string_view what = "the configuration",
                             std::string_view remedy = "--config");

/// Parses `text`, which may have comments and commas after last entries; `name` stands for the file
/// in messages. Throws Error(usage) for malformed JSON (file:line:column), a duplicate key, nesting
/// without end, and what is no object.
nlohmann::json parse_object(const std::string& text, const std::string& name);

/// Sets options from a JSON file. Throws Error(io) when the file cannot be read, Error(usage) for
/// malformed JSON (file:line:column), a duplicate key, and, all of them at once, for unknown keys
/// (the full path and the nearest known one) and values that are refused. The trainer's options
/// have other names (aliases.hpp), keys of DeepSpeed's that are none of them (deepspeed_keys.hpp),
/// and keys that nobody knows (unknown_key.hpp). Returns the keys that are ignored.
/// `training_ignored`: for options that are not the trainer's, why the sections of a training
/// configuration are ignored; empty: they are unknown keys.
std::vector<Ignored> read_file(const std::filesystem::path& path, std::vector<Option>& options,
                               const std::string& training_ignored = {});

/// Reads options from text; `name` stands for the file in messages.
std::vector<Ignored> read_text(const std::string& text, const std::string& name,
                               std::vector<Option>& options);

/// Reads options from an object that was parsed already.
std::vector<Ignored> read_object(const nlohmann::json& object, const std::string& name,
                                 std::vector<Option>& options);

/// The effective configuration: every option that is in effect, with its value, keys sorted, no
/// spaces. read_text() of it gives the same configuration.
std::string canonical_json(const std::vector<Option>& options);

}  // namespace zeropp::config
