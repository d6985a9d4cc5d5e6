// Finished runs as files, DIR/runs/STEM.seedN.KEY.cbor: a matrix whose job was interrupted resumes
// from them. A file is there whole or not at all. It holds the key of its run, a hash over
// everything that the run depends on; the first digits of the key are in the file's name. Matrices
// and versions may share a folder. A file whose key differs, or whose bytes do not verify, counts
// as missing. CBOR (RFC 8949) keeps every number as it is, NaN too.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/converge/run_record.hpp"

namespace zeropp::converge {

/// The record as bytes, and back. unpack() throws nlohmann::json::exception for other bytes.
std::string pack(const RunRecord& record);
RunRecord unpack(const std::string& bytes);

class RunStore {
 public:
  explicit RunStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// Checks that the folder can be written. Throws Error(io) where nothing can be.
  void preflight() const;
  /// The record of a run with this key; nothing where there is none.
  [[nodiscard]] std::optional<RunRecord> find(const std::string& setting, std::uint64_t seed,
                                              const std::string& key) const;
  /// Keeps the record under its key. Throws Error(io).
  void keep(const RunRecord& record, const std::string& key) const;

 private:
  [[nodiscard]] std::filesystem::path path(const std::string& setting, std::uint64_t seed,
                                           const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace zeropp::converge
