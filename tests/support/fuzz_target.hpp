// Frame of fuzz targets: input as text or as a file, and what a parser may do with any input, which
// is to take it or to throw an Error of one line.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "lib/base/error.hpp"

/// libFuzzer's entry: returns 0, aborts where something is wrong.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace zeropp::test {

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

[[noreturn]] inline void fuzz_failure(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

/// Runs `parse`, which may throw Error with one line. Any other exception leaves, which ends the
/// program.
template <class Parse>
void may_refuse(const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.empty() || message.find('\n') != std::string::npos) {
      fuzz_failure("a message is not one line: " + message);
    }
  }
}

/// Bytes as a file in memory, as long as it lives.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : file_(memfd_create("fuzz", 0)) {
    if (file_ < 0 || write(file_, data, size) != static_cast<ssize_t>(size)) {
      fuzz_failure("no file in memory");
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(file_); }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// An input in a file with a name of its own, for libraries that look for one (HDF5): one file a
/// process, in memory where /dev/shm is.
class NamedFile {
 public:
  NamedFile(const std::uint8_t* data, std::size_t size) : path_(free_name()) {
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    if (!file.flush()) fuzz_failure("cannot write " + path_.string());
  }
  NamedFile(const NamedFile&) = delete;
  NamedFile& operator=(const NamedFile&) = delete;
  ~NamedFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  static std::filesystem::path free_name() {
    std::error_code none;
    const std::filesystem::path memory = "/dev/shm";
    return (std::filesystem::is_directory(memory, none) ? memory
                                                        : std::filesystem::temp_directory_path()) /
           ("zeropp-fuzz-" + std::to_string(getpid()));
  }

  std::filesystem::path path_;
};

}  // namespace zeropp::test
