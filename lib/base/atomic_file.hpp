// A file that appears under its final name only when it is complete: written without a name in the
// same folder, fsync, checked by the caller, named, and the folder fsynced. A process that is
// killed leaves nothing there. Where another file has the name, the new one passes through
// `.NAME.UNIQUE.partial`, which is renamed at once; where the file system knows no nameless files
// (NFS), it is written under that name. UNIQUE is new in every call, so that two runs into one
// folder cannot mix their bytes. A link is followed; only a regular file is replaced: devices,
// pipes, sockets and folders are refused. POSIX calls, every return value checked. Throws Error(io)
// that names the path and the remedy; nothing of the new file is left then, and what was under the
// final name stays.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

namespace zeropp {

/// `verify` gets a path under which the new file can be read before it has its name, and throws
/// when it is not what it should be.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                      const std::function<void(const std::filesystem::path&)>& verify = {});

/// Makes sure, before the work begins, that `path` can be written at its end: creates its folder
/// and, for a moment, a file of `bytes` bytes there.
void preflight_write(const std::filesystem::path& path, std::size_t bytes);

}  // namespace zeropp
