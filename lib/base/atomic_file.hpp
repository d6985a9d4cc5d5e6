// A file that appears under its final name only when it is complete: written to
// `.NAME.UNIQUE.partial` beside it, fsync, checked by the caller, renamed, and the folder fsynced.
// UNIQUE is new in every call, so that two runs into one folder cannot mix their bytes. A link is
// followed; only a regular file is replaced: devices, pipes, sockets and folders are refused. POSIX
// calls, every return value checked. Throws Error(io) that names the path and the remedy; the
// partial file is removed then, and what was under the final name stays.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

namespace zeropp {

/// `verify` gets the partial file before it is renamed, and throws when it is not what it should
/// be.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                      const std::function<void(const std::filesystem::path&)>& verify = {});

/// Makes sure, before the work begins, that `path` can be written at its end: creates its folder
/// and, for a moment, a partial file of `bytes` bytes.
void preflight_write(const std::filesystem::path& path, std::size_t bytes);

}  // namespace zeropp
