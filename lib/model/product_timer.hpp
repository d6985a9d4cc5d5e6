// Puts the matrix products of the network's operations under Category::matmul of the trace's
// timers. The caller holds a Category::nn scope around the operations.
#pragma once

#include <optional>

#include "kernels/nn/nn_ops.hpp"
#include "lib/trace/recorder.hpp"

namespace zeropp::model {

class ProductTimer final : public nn::ProductObserver {
 public:
  explicit ProductTimer(trace::Timers& timers) : timers_(timers) {}
  void enter() override { scope_.emplace(timers_, trace::Timers::Category::matmul); }
  void leave() override { scope_.reset(); }

 private:
  trace::Timers& timers_;
  std::optional<trace::Timers::Scope> scope_;
};

}  // namespace zeropp::model
