// The flight record of a rank as a file, for people after a hang: flight-record.RANK.json.
#pragma once

#include <filesystem>
#include <string>

#include "lib/comm/flight_record.hpp"

namespace zeropp::comm {

struct FlightHeader {
  int rank = 0;
  int ranks = 1;
  std::string cause;  ///< the line that the job ended with, where this rank knows it
};

/// "flight-record.0003.json"
std::string flight_file_name(int rank);

/// Schema zeropp-flight-record: rank, ranks, host, pid, written (UTC), cause, and `operations`,
/// oldest first, each with number, operation, group, sequence, bytes, state, and in seconds before
/// the file was written `began` and `changed`, when it came into its state. Made as a whole
/// (lib/base/atomic_file.hpp), with its folder where that is missing. Throws Error(io).
void write_flight_file(const std::filesystem::path& folder, const FlightHeader& header,
                       const FlightRecord& record);

}  // namespace zeropp::comm
