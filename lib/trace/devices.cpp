#include "lib/trace/devices.hpp"

namespace zeropp::trace {

nlohmann::json devices(const TraceData& run) {
  nlohmann::json list = nlohmann::json::array();
  for (const RankRow& rank : run.ranks) {
    list.push_back({{"rank", list.size()},
                    {"group", 0},
                    {"pid", rank.pid},
                    {"hostname", rank.host},
                    {"node", rank.node},
                    {"device", rank.local_rank},
                    {"device_hex", rank.gpu_pci},
                    {"device_info", rank.gpu.empty() ? "host" : rank.gpu}});
  }
  return list;
}

}  // namespace zeropp::trace
