#include "lib/checkpoint/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "lib/base/atomic_file.hpp"
#include "lib/base/error.hpp"
#include "lib/base/file.hpp"

namespace zeropp::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kHiddenPrefix = ".step-";
constexpr std::string_view kRemoved = ".removed";
constexpr const char* kManifest = "manifest.json";
constexpr std::uint64_t kLargestManifest = std::uint64_t{1} << 30U;

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail_io("remove", folder, error.value());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_io("rename to", to, errno);
}

/// The names in a folder; none where it is not there.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    fail_io("list", folder, error.value());
  }
  return names;
}

bool is_gone(const fs::path& path) {
  std::error_code ignored;
  return fs::status(path, ignored).type() == fs::file_type::not_found;
}

std::string name_of(std::uint64_t step) { return fmt::format("{}{:09}", kPrefix, step); }

/// Step of a name that commit() has given; names of others, as `step-7`, are theirs.
std::optional<std::uint64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  std::uint64_t step = 0;
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || at != end || name != name_of(step)) return std::nullopt;
  return step;
}

}  // namespace

std::optional<std::uint64_t> step_of_checkpoint(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path / kManifest, error)) return std::nullopt;
  return step_of(path.filename().string());
}

fs::path Folder::complete(std::uint64_t step) const { return root_ / name_of(step); }

fs::path Folder::partial(std::uint64_t step) const {
  return root_ / fmt::format(".{}.{}.partial", name_of(step), writer_);
}

void Folder::prepare() const { preflight_write(root_ / kManifest, 0); }

void Folder::begin(std::uint64_t step) const {
  remove_folder(partial(step));
  std::error_code error;
  fs::create_directory(partial(step), error);
  if (!error) return;
  if (is_gone(root_)) throw Error(ExitCode::io, taken_away(step));
  fail_io("create", partial(step), error.value());
}

std::string Folder::taken_away(std::uint64_t step) const {
  if (is_gone(root_)) {
    return fmt::format(
        "cannot save the checkpoint after {} steps: the folder {} is no longer "
        "there; another job or somebody renamed, removed or unmounted it during the "
        "run: bring it back, or begin with another, and start again",
        step, root_.string());
  }
  if (!is_gone(partial(step))) return {};
  return fmt::format(
      "cannot save the checkpoint after {} steps: what was written of it was removed "
      "from {}; another job saves there too, or somebody cleans up: give every run a "
      "folder of its own, and start again",
      step, root_.string());
}

void Folder::adopt() {
  const auto found = steps();
  own_.insert(found.begin(), found.end());
}

void Folder::commit(const Manifest& manifest) {
  require_own(manifest.step);
  const fs::path from = partial(manifest.step);
  const fs::path to = complete(manifest.step);
  const std::string text = to_text(manifest);
  (void)parse_manifest(text, from.string());  // what a reader would refuse is no checkpoint
  File file(from / kManifest, O_WRONLY | O_CREAT | O_EXCL, "create");
  file.write(std::as_bytes(std::span(text)));
  file.sync();
  file.close();
  sync_folder(from);
  // A folder does not replace one that holds files: where another run was faster, its stays.
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    if (errno == EEXIST || errno == ENOTEMPTY) fail_beside_another(manifest.step, manifest.step);
    fail_io("rename to", to, errno);
  }
  own_.insert(manifest.step);
  sync_folder(root_);
}

void Folder::fail_beside_another(std::uint64_t step, std::uint64_t found) const {
  throw Error(
      ExitCode::io,
      fmt::format("cannot save the checkpoint after {} steps: {} holds one after {} by now; "
                  "another job saves there too: give every run a folder of its own, and "
                  "start again",
                  step, root_.string(), found));
}

void Folder::require_own(std::uint64_t step) const {
  for (const std::uint64_t found : steps()) {
    if (!own_.contains(found) || found >= step) fail_beside_another(step, found);
  }
}

void Folder::give_up(std::uint64_t step) const noexcept {
  std::error_code ignored;
  fs::remove_all(partial(step), ignored);
}

void Folder::set_aside(std::uint64_t step) const {
  const fs::path aside = root_ / fmt::format("damaged-{:09}", step);
  remove_folder(aside);
  rename_folder(complete(step), aside);
  sync_folder(root_);
}

std::vector<fs::path> Folder::retire(std::size_t keep) const {
  std::vector<fs::path> retired;
  // The name of a folder goes first: a removal that is cut short leaves nothing that looks
  // complete, and who still writes there finds it taken away.
  const auto retire = [&](const fs::path& folder, const std::string& hidden) {
    const fs::path aside = root_ / fmt::format("{}{}", hidden, kRemoved);
    remove_folder(aside);
    rename_folder(folder, aside);
    retired.push_back(aside);
  };
  for (const std::string& name : names_in(root_)) {
    if (!name.starts_with(kHiddenPrefix)) continue;
    if (name.ends_with(kRemoved)) {
      retired.push_back(root_ / name);
    } else {
      retire(root_ / name, name);
    }
  }
  const auto all = steps();
  for (std::size_t i = std::max<std::size_t>(keep, 1); i < all.size(); ++i) {
    retire(complete(all[i]), fmt::format(".{}", name_of(all[i])));
  }
  sync_folder(root_);
  return retired;
}

void Folder::remove(const std::vector<fs::path>& retired) {
  for (const fs::path& folder : retired) remove_folder(folder);
}

std::vector<std::uint64_t> Folder::steps() const {
  std::vector<std::uint64_t> found;
  for (const std::string& name : names_in(root_)) {
    if (const auto step = step_of(name)) found.push_back(*step);
  }
  std::ranges::sort(found, std::greater<>{});
  return found;
}

Manifest Folder::manifest(std::uint64_t step) const {
  const fs::path path = complete(step) / kManifest;
  const File file(path, O_RDONLY, "open");
  const std::uint64_t size = file.size();
  if (size > kLargestManifest) {
    throw Error(ExitCode::io, fmt::format("{} has {} bytes, more than any manifest: use another "
                                          "checkpoint",
                                          path.string(), size));
  }
  std::string text(size, '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  Manifest manifest = parse_manifest(text, path.string());
  if (manifest.step == step) return manifest;
  throw Error(ExitCode::io,
              fmt::format("{} is of the checkpoint after {} steps: it was copied or renamed; give "
                          "it back the name {}",
                          path.string(), manifest.step, name_of(manifest.step)));
}

}  // namespace zeropp::checkpoint
