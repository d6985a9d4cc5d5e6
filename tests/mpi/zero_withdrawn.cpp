// ctest: name=zero_withdrawn np=2 timeout=60 labels=sanitize
// An error that passes through an engine while weights are under way: the collectives are withdrawn
// before the memory that they write is freed. Messages are long, and MPI copies them piece by
// piece: pieces are left to arrive when the engine goes.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <stdexcept>

#include "tests/support/engine_case.hpp"
#include "tests/support/wrapped_model.hpp"

namespace zeropp::test {
namespace {

class Failing final : public WrappedModel {
 public:
  using WrappedModel::WrappedModel;

  void forward(std::size_t /*layer*/, std::span<const ConstView> /*weights*/,
               StreamHandle /*stream*/) override {
    throw std::runtime_error("the first layer fails");
  }
};

TEST(Withdrawn, WeightsThatAreUnderWay) {
  const auto make = [](const model::Context& context) {
    model::Options options;
    options.num_layers = 4;
    options.hidden_size = 256;
    options.num_attention_heads = 4;
    options.seq_length = 16;
    return std::make_unique<Failing>(model::make_model(options, context));
  };
  for (int i = 0; i < 5; ++i) {
    zero::Options options;
    options.stage = 3;
    options.compute = Dtype::bf16;
    EXPECT_THROW(EngineCase(options, 2, make).step(0), std::runtime_error);
    world().control().barrier();
  }
}

}  // namespace
}  // namespace zeropp::test
