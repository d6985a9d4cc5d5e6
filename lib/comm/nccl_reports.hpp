// Public reports of versions of NCCL that hang or give wrong data, each with the versions that have
// the fault. From NCCL's own threads, release notes and sources at its tags.
#pragma once

#include <string>
#include <vector>

namespace zeropp::comm {

struct NcclReport {
  int first = 0;  ///< version that has it first, as ncclGetVersion() says it: 22803 is 2.28.3
  int fixed = 0;  ///< version that has it no more; 0: none is known
  std::string thread = {};  ///< "NVIDIA/nccl#2241"
  std::string seen = {};    ///< where, and what: a sentence without a full stop
  std::string remedy = {};  ///< beside another version: a sentence without a full stop
};

/// All reports, by their first version.
const std::vector<NcclReport>& nccl_reports();
/// Whether `version` has the fault.
bool concerns(const NcclReport& report, int version);

}  // namespace zeropp::comm
