// ctest: name=gpu_nn_linear timeout=300 joined=no
// Linear layers on the GPU against the host's, in both dtypes: odd sizes, which take the plain
// paths, and even ones, which the library fuses; outputs of which the last columns are multiplied
// apart; rows apart; every combination of bias, residual and GELU; and the same bits in a second
// run.
#include <utility>

#include "lib/device/compute_device.hpp"
#include "tests/support/device_array.hpp"

namespace zeropp::nn {
namespace {

using namespace zeropp::test;

const ComputeDevice& gpu() {
  static const ComputeDevice device = Device::cuda(0);
  return device;
}

double tolerance(Dtype dtype) { return dtype == Dtype::fp32 ? 1e-5 : 1e-2; }

std::string text_of(const LinearShape& s) {
  return std::to_string(s.rows) + " x " + std::to_string(s.in) + " -> " + std::to_string(s.out) +
         " stride " + std::to_string(s.stride());
}

/// Dense rows of `out` elements, `stride` apart, NaN between them.
Floats spread(const Floats& dense, const LinearShape& shape) {
  Floats wide = poisoned(shape.rows * shape.stride());
  for (std::size_t i = 0; i < dense.size(); ++i) {
    wide[i / shape.out * shape.stride() + i % shape.out] = dense[i];
  }
  return wide;
}

/// The dense rows again; what lies between them must be NaN as before.
Floats gather(const Floats& wide, const LinearShape& shape, const std::string& what) {
  Floats dense;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (i % shape.stride() < shape.out) {
      dense.push_back(wide[i]);
    } else {
      EXPECT_TRUE(std::isnan(wide[i])) << what << " wrote between the rows, at [" << i << ']';
    }
  }
  return dense;
}

/// Inputs of one shape, rounded to the dtype, on both sides.
struct Case {
  Case(const LinearShape& shape_, Dtype dtype_)
      : shape(shape_),
        dense{shape.rows, shape.in, shape.out},
        dtype(dtype_),
        x(rounded(normals(shape.rows * shape.in, 1), dtype)),
        weight(rounded(normals(shape.in * shape.out, 2, 0.5F), dtype)),
        bias(rounded(normals(shape.out, 3), dtype)),
        residual(rounded(normals(shape.rows * shape.out, 4), dtype)),
        dy(rounded(normals(shape.rows * shape.out, 5), dtype)),
        gelu_input(rounded(normals(shape.rows * shape.in, 6), dtype)),
        d_weight(normals(shape.in * shape.out, 7)),
        d_bias(normals(shape.out, 8)),
        workspace(gpu(), poisoned(gpu().nn->linear_workspace(shape, dtype)), Dtype::fp32) {}

  [[nodiscard]] DeviceArray up(const Floats& values) const { return {gpu(), values, dtype}; }
  [[nodiscard]] DeviceArray up_rows(const Floats& values) const {
    return {gpu(), spread(values, shape), dtype};
  }
  [[nodiscard]] NnContext context() const { return {.stream = {}, .workspace = workspace.view()}; }

  LinearShape shape;
  LinearShape dense;
  Dtype dtype;
  Floats x, weight, bias, residual, dy, gelu_input, d_weight, d_bias;
  DeviceArray workspace;
};

void check_forward(const Case& c, bool with_bias, bool with_residual) {
  const std::string what = "y of " + text_of(c.shape) + (with_bias ? " with bias" : "") +
                           (with_residual ? " with residual" : "");
  Floats expected = poisoned(c.shape.rows * c.shape.out);
  host_nn_ops().linear_forward({}, c.dense, view(c.x), view(c.weight),
                               with_bias ? view(c.bias) : ConstView{},
                               with_residual ? view(c.residual) : ConstView{}, view(expected));
  const DeviceArray x = c.up(c.x);
  const DeviceArray weight = c.up(c.weight);
  const DeviceArray bias = c.up(c.bias);
  const DeviceArray residual = c.up_rows(c.residual);
  const auto run = [&] {
    const DeviceArray y = c.up(poisoned(c.shape.rows * c.shape.stride()));
    gpu().nn->linear_forward(c.context(), c.shape, x.read(), weight.read(),
                             with_bias ? bias.read() : ConstView{},
                             with_residual ? residual.read() : ConstView{}, y.view());
    return gather(y.download(), c.shape, what);
  };
  const Floats y = run();
  expect_norm_close(y, expected, tolerance(c.dtype), what);
  expect_same_bits(run(), y, what + ", again");
}

void check_gelu_forward(const Case& c) {
  const std::string what = text_of(c.shape) + " with GELU";
  Floats expected_pre = poisoned(c.shape.rows * c.shape.out);
  Floats expected = expected_pre;
  host_nn_ops().linear_gelu_forward({}, c.dense, view(c.x), view(c.weight), view(c.bias),
                                    view(expected_pre), view(expected));
  const DeviceArray x = c.up(c.x);
  const DeviceArray weight = c.up(c.weight);
  const DeviceArray bias = c.up(c.bias);
  const auto run = [&] {
    const DeviceArray pre = c.up(poisoned(c.shape.rows * c.shape.stride()));
    const DeviceArray y = c.up(poisoned(c.shape.rows * c.shape.stride()));
    gpu().nn->linear_gelu_forward(c.context(), c.shape, x.read(), weight.read(), bias.read(),
                                  pre.view(), y.view());
    return std::pair(gather(pre.download(), c.shape, "pre of " + what),
                     gather(y.download(), c.shape, "y of " + what));
  };
  const auto [pre, y] = run();
  expect_norm_close(pre, expected_pre, tolerance(c.dtype), "pre of " + what);
  expect_norm_close(y, expected, tolerance(c.dtype), "y of " + what);
  const auto [pre_again, y_again] = run();
  expect_same_bits(pre_again, pre, "pre of " + what + ", again");
  expect_same_bits(y_again, y, "y of " + what + ", again");
}

struct Gradients {
  Floats dx, d_weight, d_bias;
};

void check_backward(const Case& c, bool with_bias, bool with_gelu) {
  const std::string what =
      " of " + text_of(c.shape) + (with_bias ? " with bias" : "") + (with_gelu ? " with GELU" : "");
  Gradients expected{poisoned(c.x.size()), c.d_weight, c.d_bias};
  host_nn_ops().linear_backward({}, c.dense, view(c.dy), view(c.x), view(c.weight),
                                with_gelu ? view(c.gelu_input) : ConstView{}, view(expected.dx),
                                true, view(expected.d_weight),
                                with_bias ? view(expected.d_bias) : View{});
  const DeviceArray dy = c.up_rows(c.dy);
  const DeviceArray x = c.up(c.x);
  const DeviceArray weight = c.up(c.weight);
  const DeviceArray gelu_input = c.up(c.gelu_input);
  const auto run_on = [&](bool accumulate, const Floats& weight_before, const Floats& bias_before) {
    const DeviceArray dx = c.up(poisoned(c.x.size()));
    const DeviceArray d_weight(gpu(), weight_before, Dtype::fp32);
    const DeviceArray d_bias(gpu(), bias_before, Dtype::fp32);
    gpu().nn->linear_backward(c.context(), c.shape, dy.read(), x.read(), weight.read(),
                              with_gelu ? gelu_input.read() : ConstView{}, dx.view(), accumulate,
                              d_weight.view(), with_bias ? d_bias.view() : View{});
    return Gradients{dx.download(), d_weight.download(), d_bias.download()};
  };
  const auto run = [&] { return run_on(true, c.d_weight, c.d_bias); };
  const Gradients actual = run();
  expect_norm_close(actual.dx, expected.dx, tolerance(c.dtype), "dx" + what);
  // Sums of exact inputs in fp32, whatever the inputs' dtype; tensor cores do not round each one.
  expect_norm_close(actual.d_weight, expected.d_weight, c.dtype == Dtype::fp32 ? 1e-5 : 1e-4,
                    "weight gradient" + what);
  expect_norm_close(actual.d_bias, expected.d_bias, 1e-5, "bias gradient" + what);
  const Gradients again = run();
  expect_same_bits(again.dx, actual.dx, "dx" + what + ", again");
  expect_same_bits(again.d_weight, actual.d_weight, "weight gradient" + what + ", again");
  expect_same_bits(again.d_bias, actual.d_bias, "bias gradient" + what + ", again");

  // Written instead of added: the bits of a sum that begins with zeros. Without a bias its gradient
  // is left alone.
  const std::size_t outputs = c.d_bias.size();
  const Gradients added = run_on(true, Floats(c.d_weight.size()), Floats(outputs));
  const Gradients written =
      run_on(false, poisoned(c.d_weight.size()), with_bias ? poisoned(outputs) : Floats(outputs));
  expect_same_bits(written.dx, actual.dx, "dx" + what + ", written");
  expect_same_bits(written.d_weight, added.d_weight, "weight gradient" + what + ", written");
  expect_same_bits(written.d_bias, added.d_bias, "bias gradient" + what + ", written");

  // In the weights' dtype: rounded once, of sums that the library may add in another order.
  const DeviceArray dx = c.up(poisoned(c.x.size()));
  const DeviceArray narrow_weight = c.up(poisoned(c.d_weight.size()));
  const DeviceArray narrow_bias = c.up(with_bias ? poisoned(outputs) : Floats(outputs));
  gpu().nn->linear_backward(c.context(), c.shape, dy.read(), x.read(), weight.read(),
                            with_gelu ? gelu_input.read() : ConstView{}, dx.view(), false,
                            narrow_weight.view(), with_bias ? narrow_bias.view() : View{});
  expect_norm_close(narrow_weight.download(), written.d_weight, tolerance(c.dtype),
                    "narrow weight gradient" + what);
  expect_same_bits(narrow_bias.download(), rounded(written.d_bias, c.dtype),
                   "narrow bias gradient" + what);
}

class Linear : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(, Linear, testing::Values(Dtype::fp32, Dtype::bf16, Dtype::fp16),
                         [](const auto& entry) { return std::string(name_of(entry.param)); });

TEST_P(Linear, AgreesWithTheHost) {
  for (const LinearShape shape : {LinearShape{1, 1, 1},
                                  {3, 5, 7},
                                  {17, 33, 65},
                                  {2, 8, 1500},
                                  {64, 64, 256},
                                  {33, 48, 257, 320},
                                  {19, 24, 13, 64},
                                  {7, 12, 10, 11},
                                  {300, 96, 384},
                                  {1024, 256, 768},
                                  // odd columns that are multiplied apart, in rows of whole packs
                                  {21, 16, 5, 8},
                                  {21, 16, 8, 16},
                                  {1, 8, 9, 16},
                                  {65, 72, 263, 264},
                                  {40, 48, 50257, 50304},
                                  {2000, 40, 1000, 1024}}) {
    const Case c(shape, GetParam());
    for (const bool with_bias : {false, true}) {
      for (const bool with_other : {false, true}) {
        check_forward(c, with_bias, with_other);
        check_backward(c, with_bias, with_other);
      }
    }
    check_gelu_forward(c);
  }
}

/// Nor do they add anything; what is written is zero.
TEST_P(Linear, NoRowsChangeNothing) {
  const Case c({0, 8, 16}, GetParam());
  const Floats before = poisoned(1);
  const DeviceArray none(gpu(), before, c.dtype);
  const DeviceArray weight = c.up(c.weight);
  const DeviceArray bias = c.up(c.bias);
  const DeviceArray d_weight(gpu(), c.d_weight, Dtype::fp32);
  const DeviceArray d_bias(gpu(), c.d_bias, Dtype::fp32);
  const NnOps& ops = *gpu().nn;
  ops.linear_forward(c.context(), c.shape, none.read(), weight.read(), bias.read(), {},
                     none.view());
  ops.linear_gelu_forward(c.context(), c.shape, none.read(), weight.read(), bias.read(),
                          none.view(), none.view());
  ops.linear_backward(c.context(), c.shape, none.read(), none.read(), weight.read(), {},
                      none.view(), true, d_weight.view(), d_bias.view());
  expect_same_bits(none.download(), before, "what has no rows");
  expect_same_bits(d_weight.download(), c.d_weight, "weight gradient");
  expect_same_bits(d_bias.download(), c.d_bias, "bias gradient");
  ops.linear_backward(c.context(), c.shape, none.read(), none.read(), weight.read(), {},
                      none.view(), false, d_weight.view(), d_bias.view());
  expect_same_bits(d_weight.download(), Floats(c.d_weight.size()), "weight gradient, written");
  expect_same_bits(d_bias.download(), Floats(c.d_bias.size()), "bias gradient, written");
}

TEST_P(Linear, TheWorkspaceServesSmallerShapes) {
  for (const std::size_t out : {1U, 257U, 3072U}) {
    std::size_t largest = 0;
    for (const std::size_t rows : {1U, 100U, 4096U, 65536U}) {
      const std::size_t elements = gpu().nn->linear_workspace({rows, 768, out}, GetParam());
      EXPECT_GE(elements, largest) << rows << " rows of " << out;
      largest = elements;
    }
  }
}

TEST_P(Linear, RefusesWrongViews) {
  const Case c({4, 8, 8}, GetParam());
  const DeviceArray x = c.up(c.x);
  const DeviceArray weight = c.up(c.weight);
  const DeviceArray y = c.up(c.dy);
  const auto run = [&](const NnContext& context, ConstView input) {
    gpu().nn->linear_forward(context, c.shape, input, weight.read(), {}, {}, y.view());
  };
  EXPECT_NO_THROW(run(c.context(), x.read()));
  EXPECT_THROW(run(c.context(), x.read().part(0, 31)), std::invalid_argument);
  EXPECT_THROW(run(c.context(), view(c.x)), std::invalid_argument) << "host memory";
  EXPECT_THROW(run({}, x.read()), std::invalid_argument) << "no workspace";
}

TEST(Mean, AddsUpUntilTaken) {
  const ComputeDevice& device = gpu();
  const Floats many(100'003, 0.1F);
  const DeviceArray first(device, many, Dtype::fp32);
  const DeviceArray second(device, {2.0F, 3.0F}, Dtype::fp32);
  const Buffer memory = Buffer::zeros(2, Dtype::fp32, device.memory);
  auto* const total = memory.view(2, Dtype::fp32).as<double>();
  const NnContext context;
  device.nn->add_mean(context, first.read(), total);
  device.nn->add_mean(context, second.read(), total);
  const Buffer pinned(2 * sizeof(double), device.staging());
  auto* const taken = reinterpret_cast<double*>(pinned.data());
  device.nn->take_total(context, total, taken);
  device.nn->take_total(context, total, taken + 1);
  device.runtime->synchronize(nullptr);
  EXPECT_NEAR(taken[0], d(0.1F) + 2.5, 1e-12);
  EXPECT_EQ(taken[1], 0.0);
}

}  // namespace
}  // namespace zeropp::nn
