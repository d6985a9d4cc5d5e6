// Groups of options: the headings of --help and of the reference page. The beginning of its JSON
// path puts an option into one group, so that most new options need nothing more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeropp::config {

struct OptionGroup {
  std::string name;                     ///< "model": printed by --help model
  std::string title;                    ///< "Model"
  std::string summary;                  ///< a sentence, for the reference page
  std::vector<std::string> paths = {};  ///< beginnings of the paths of its options
};

/// The group that has the longest beginning of `path`. Throws std::logic_error where none has one.
const OptionGroup& group_of(std::string_view path, const std::vector<OptionGroup>& groups);

/// Groups of the trainer's options, those that people need first at the begin.
const std::vector<OptionGroup>& option_groups();

/// Flags of the trainer that most people need.
const std::vector<std::string>& common_flags();

}  // namespace zeropp::config
