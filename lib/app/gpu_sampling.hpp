// The readings of every rank's GPU while a program works, in its trace, and a warning where clocks
// were held back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/app/app.hpp"
#include "lib/device/gpu_sampler.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::app {

class GpuSampling {
 public:
  /// Begins to read this rank's GPU. `period` in seconds; 0, or another back end than cuda: nothing
  /// is read.
  GpuSampling(const Context& context, Backend backend, double period);

  /// Ends the readings, gives rank 0 those of all ranks in `data.gpus`, and warns there of what
  /// held clocks back. Collective, once.
  void finish(trace::TraceData& data);

 private:
  const Context& context_;
  double period_;
  std::optional<GpuSampler> sampler_;
};

/// One line on throttling: on which GPUs a limit held clocks back, and on which most; "" where on
/// none. `rows` are those of all ranks, `ranks` tells their hosts.
std::string describe_throttling(const std::vector<trace::GpuRow>& rows,
                                const std::vector<trace::RankRow>& ranks);

}  // namespace zeropp::app
