#include "lib/comm/nccl_reports.hpp"

namespace zeropp::comm {

const std::vector<NcclReport>& nccl_reports() {
  static const std::vector<NcclReport> reports{
      {.first = 21003,
       .fixed = 21206,
       .thread = "NVIDIA/nccl#596",
       .seen = "all-gathers between nodes give wrong data where one of a GPU's NVLinks is down",
       .remedy = "NCCL_PROTO=^LL128 avoids it"},
      {.first = 22703,
       .thread = "NVIDIA/nccl#2001",
       .seen = "all-reduces of about 1 MiB give wrong sums in some runs on GH200 over Slingshot",
       .remedy = "there, run zpp_sweep --collective all_reduce -b 512K -e 2M before training"},
      {.first = 22803,
       .fixed = 23102,
       .thread = "NVIDIA/nccl#2241",
       .seen = "the first collective of copy engines hangs between two ranks with NVLS",
       .remedy = "NCCL_NVLS_ENABLE=0, which zeropp sets, avoids it"},
      {.first = 22803,
       .thread = "NVIDIA/nccl#2331",
       .seen = "windows that are registered over and over on one allocation use up addresses",
       .remedy = "zeropp registers each allocation once"},
      {.first = 22902,
       .fixed = 22903,
       .thread = "pytorch/pytorch#174338",
       .seen = "programs hang that ran with versions before",
       .remedy = "take another version"},
      {.first = 22902,
       .fixed = 23102,
       .thread = "NVIDIA/nccl#2198",
       .seen = "one-sided transfers between nodes go to wrong places where several windows lie in "
               "one allocation",
       .remedy = "zeropp sends nothing one-sided between nodes"}};
  return reports;
}

bool concerns(const NcclReport& report, int version) {
  return version >= report.first && (report.fixed == 0 || version < report.fixed);
}

}  // namespace zeropp::comm
