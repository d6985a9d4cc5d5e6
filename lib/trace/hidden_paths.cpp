#include "lib/trace/hidden_paths.hpp"

#include <algorithm>
#include <string_view>

namespace zeropp::trace {
namespace {

constexpr std::string_view before_paths = ":,;= '\"";
constexpr std::string_view after_paths = ":,;'\"";

bool begins_path(std::string_view text, std::size_t at) {
  const bool first = at == 0 || before_paths.find(text[at - 1]) != std::string_view::npos;
  return first && text[at] == '/' && text.substr(at, 2) != "//";
}

std::string hidden(const std::string& path, const std::filesystem::path& folder) {
  if (folder == folder.root_path()) return "<path>";  // everything lies inside the root
  const std::filesystem::path inside =
      std::filesystem::path(path).lexically_normal().lexically_relative(folder);
  return inside.empty() || *inside.begin() == ".." ? "<path>" : inside.string();
}

}  // namespace

std::string hide_paths(const std::string& text, const std::filesystem::path& folder) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_path(text, at)) {
      shown += text[at++];
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(after_paths, at), text.size());
    shown += hidden(text.substr(at, end - at), folder);
    at = end;
  }
  return shown;
}

}  // namespace zeropp::trace
