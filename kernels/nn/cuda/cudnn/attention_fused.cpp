// Attention by cuDNN's fused kernels, through its C++ front end (header-only; this is the
// one file that includes it). libcudnn is opened when attention is first asked for, so that
// programs start where there is neither cuDNN nor a driver.
//
// The engine of a shape and pass is planned once and kept until the process ends; a process uses
// one GPU, the one it planned on, and enqueues from one thread. Reads queries, keys and values
// where they lie, by strides.
//
// Source: Dao et al., FlashAttention, arXiv 2205.14135 and 2307.08691.
#include <cudnn_frontend.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/core/cuda/check.hpp"
#include "kernels/nn/cuda/attention_path.hpp"
#include "kernels/nn/cuda/open_library.hpp"
#include "kernels/nn/cuda/views.hpp"
#include "kernels/nn/cuda_sizes.hpp"

/// Handle of libcudnn that cuDNN's front end calls functions through. The front end declares it and
/// leaves the definition to the program.
void* cudnn_frontend::cudnn_dlhandle = nullptr;  // NOLINT: the front end's variable

namespace zeropp::nn::cuda_ops {

namespace {

namespace fe = cudnn_frontend;

/// Folders of the toolkit's and cuDNN's libraries at build time, for machines whose loader does not
/// find them.
constexpr const char* kToolkitFolder = ZEROPP_CUDA_LIBRARY_FOLDER;
constexpr const char* kCudnnFolder = ZEROPP_CUDNN_LIBRARY_FOLDER;

enum class Pass : std::uint8_t {
  forward,
  backward,          ///< adds shares of dQ in any order
  backward_ordered,  ///< the same bits in every run
};

/// Key of a cached plan: everything that the plan depends on.
struct Key {
  std::int64_t sequences;
  std::int64_t length;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t width;
  Dtype dtype;
  Pass pass;
  auto operator<=>(const Key&) const = default;
};

/// The scores of all heads of a sequence lie in the workspace of an ordered backward: it runs one
/// sequence at a time, so that they are not as many as there are sequences.
Key key_of(const AttentionShape& shape, Dtype dtype, Pass pass) {
  const auto number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  return {pass == Pass::backward_ordered ? 1 : number(shape.sequences),
          number(shape.length),
          number(shape.heads),
          number(shape.kv_heads),
          number(shape.head_width),
          dtype,
          pass};
}

Pass backward_of(const AttentionShape& shape) {
  return shape.deterministic ? Pass::backward_ordered : Pass::backward;
}

/// Passes that a use of the shape runs: the other backward is not planned, and its workspace, which
/// in an ordered one grows with the square of the length, not asked for.
std::array<Pass, 2> passes_of(const AttentionShape& shape) {
  return {Pass::forward, backward_of(shape)};
}

enum Tensor : std::int64_t { kQ = 1, kK, kV, kO, kStats, kGradO, kGradQ, kGradK, kGradV };

fe::DataType_t type_of(Dtype dtype) {
  return dtype == Dtype::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

struct Plan {
  fe::graph::Graph graph;
  std::size_t workspace_bytes = 0;
  std::string refusal;  ///< why there is no engine; empty when there is one
};

/// [S, heads, T, width] in memory where tokens lie `row` elements apart.
void lay_out(fe::graph::Tensor_attributes& tensor, Tensor id, const Key& key, std::int64_t heads,
             std::int64_t row) {
  tensor.set_uid(id)
      .set_dim({key.sequences, heads, key.length, key.width})
      .set_stride({key.length * row, key.width, row, 1})
      .set_data_type(type_of(key.dtype));
}

/// log-sum-exp of the rows of scores, [S, heads, T, 1] in fp32.
void lay_out_stats(fe::graph::Tensor_attributes& tensor, const Key& key) {
  tensor.set_uid(kStats)
      .set_dim({key.sequences, key.heads, key.length, 1})
      .set_stride({key.heads * key.length, key.length, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

/// The graph of a pass; its nodes are cuDNN's.
void describe(fe::graph::Graph& graph, const Key& key) {
  const std::int64_t out = key.heads * key.width;
  const std::int64_t row = out + 2 * key.kv_heads * key.width;  // of qkv
  const float scale = 1.0F / std::sqrt(static_cast<float>(key.width));
  const auto input = [&](Tensor id, std::int64_t heads, std::int64_t apart) {
    fe::graph::Tensor_attributes tensor;
    lay_out(tensor, id, key, heads, apart);
    return graph.tensor(tensor);
  };
  graph.set_io_data_type(type_of(key.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto q = input(kQ, key.heads, row);
  const auto k = input(kK, key.kv_heads, row);
  const auto v = input(kV, key.kv_heads, row);
  if (key.pass == Pass::forward) {
    const auto [o, stats] = graph.sdpa(q, k, v,
                                       fe::graph::SDPA_attributes()
                                           .set_name("attention")
                                           .set_generate_stats(true)
                                           .set_causal_mask(true)
                                           .set_attn_scale(scale));
    lay_out(o->set_output(true), kO, key, key.heads, out);
    lay_out_stats(stats->set_output(true), key);
    return;
  }
  const auto o = input(kO, key.heads, out);
  const auto d_o = input(kGradO, key.heads, out);
  fe::graph::Tensor_attributes saved;
  lay_out_stats(saved, key);
  const auto stats = graph.tensor(saved);
  const auto [d_q, d_k, d_v] =
      graph.sdpa_backward(q, k, v, o, d_o, stats,
                          fe::graph::SDPA_backward_attributes()
                              .set_name("attention_backward")
                              .set_causal_mask(true)
                              .set_attn_scale(scale)
                              .set_deterministic_algorithm(key.pass == Pass::backward_ordered));
  lay_out(d_q->set_output(true), kGradQ, key, key.heads, row);
  lay_out(d_k->set_output(true), kGradK, key, key.kv_heads, row);
  lay_out(d_v->set_output(true), kGradV, key, key.kv_heads, row);
}

using Pointers = std::unordered_map<std::int64_t, void*>;

/// cuDNN takes inputs and outputs through one kind of pointer.
void* pointer(const void* data) { return const_cast<void*>(data); }  // NOLINT
void* at(ConstView view, std::size_t element) { return pointer(view.part(element, 0).data); }

class CudnnAttention final : public AttentionPath {
 public:
  explicit CudnnAttention(cudnnHandle_t handle) : handle_(handle) {}

  [[nodiscard]] std::string name() const override {
    const std::size_t version = fe::detail::get_backend_version();
    return "cudnn " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
  }

  /// cuDNN reads 16 bytes at a time, and has no backward of a single token.
  [[nodiscard]] std::string refusal(const AttentionShape& shape, Dtype compute) const override {
    if (size_of(compute) != 2) return "cuDNN's attention is of 16-bit types";
    if (shape.head_width % 8 != 0) return "the head's width is not a multiple of 8";
    if (shape.length < 2) return "a sequence has a single token";
    for (const Pass pass : passes_of(shape)) {
      const std::string& why = plan(key_of(shape, compute, pass)).refusal;
      if (!why.empty()) return why;
    }
    return {};
  }

  [[nodiscard]] std::size_t saved_bytes(const AttentionShape& shape, Dtype) const override {
    return cuda_sizes::fused_attention_saved(shape);
  }

  [[nodiscard]] std::size_t workspace_bytes(const AttentionShape& shape,
                                            Dtype compute) const override {
    std::size_t most = 0;
    for (const Pass pass : passes_of(shape)) {
      most = std::max(
          most, copied_bytes(shape, pass) + plan(key_of(shape, compute, pass)).workspace_bytes);
    }
    return most + cuda_sizes::kSmallArrays;
  }

  void forward(const NnContext& context, const AttentionShape& shape, ConstView qkv, View saved,
               View y) const override {
    const std::size_t rows = shape.rows();
    require(qkv, rows * shape.qkv(), qkv.dtype, "attention qkv");
    require(y, rows * shape.queries(), qkv.dtype, "attention output");
    Pointers pointers{{kQ, at(qkv, 0)},
                      {kK, at(qkv, shape.queries())},
                      {kV, at(qkv, shape.queries() + shape.keys())},
                      {kO, at(y, 0)},
                      {kStats, elements<float>(saved, rows * shape.heads, "attention statistics")}};
    execute(context, key_of(shape, qkv.dtype, Pass::forward), context.workspace, pointers);
  }

  void backward(const NnContext& context, const AttentionShape& shape, ConstView dy, ConstView qkv,
                ConstView saved, ConstView y, View d_qkv) const override {
    const std::size_t rows = shape.rows();
    const std::size_t keys = shape.queries();  // begin there in a row of qkv
    const std::size_t values = keys + shape.keys();
    require(qkv, rows * shape.qkv(), qkv.dtype, "attention qkv");
    require(y, rows * shape.queries(), qkv.dtype, "attention output");
    require(dy, rows * shape.queries(), qkv.dtype, "attention gradient");
    require(d_qkv, rows * shape.qkv(), qkv.dtype, "attention qkv gradient");
    const float* const stats = elements<float>(saved, rows * shape.heads, "attention statistics");
    const Pass pass = backward_of(shape);
    const Key key = key_of(shape, qkv.dtype, pass);
    const std::size_t calls = shape.sequences / static_cast<std::size_t>(key.sequences);
    const std::size_t copied = copied_bytes(shape, pass);
    require(context.workspace, (copied + plan(key).workspace_bytes) / sizeof(float), Dtype::fp32,
            "attention workspace");
    const View scratch = context.workspace.part(copied / sizeof(float),
                                                context.workspace.count - copied / sizeof(float));
    for (std::size_t call = 0; call < calls; ++call) {
      const std::size_t row = call * shape.length;
      const float* statistics = stats + row * shape.heads;
      if (copied > 0) {
        cuda::check(cudaMemcpyAsync(context.workspace.data, statistics,
                                    shape.length * shape.heads * sizeof(float),
                                    cudaMemcpyDeviceToDevice, stream_of(context)));
        statistics = context.workspace.as<float>();
      }
      const std::size_t first = row * shape.qkv();
      const std::size_t out = row * shape.queries();
      Pointers pointers{{kQ, at(qkv, first)},
                        {kK, at(qkv, first + keys)},
                        {kV, at(qkv, first + values)},
                        {kO, at(y, out)},
                        {kGradO, at(dy, out)},
                        {kStats, pointer(statistics)},
                        {kGradQ, at(d_qkv, first)},
                        {kGradK, at(d_qkv, first + keys)},
                        {kGradV, at(d_qkv, first + values)}};
      execute(context, key, scratch, pointers);
    }
  }

 private:
  const Plan& plan(const Key& key) const {
    std::unique_ptr<Plan>& planned = plans_[key];
    if (planned == nullptr) planned = make_plan(key);
    return *planned;
  }

  [[nodiscard]] std::unique_ptr<Plan> make_plan(const Key& key) const {
    auto made = std::make_unique<Plan>();
    try {
      describe(made->graph, key);
      auto status = made->graph.build(handle_, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
      if (status.is_bad()) made->refusal = "cuDNN: " + status.get_message();
      if (status.is_good()) {
        made->workspace_bytes = static_cast<std::size_t>(made->graph.get_workspace_size());
      }
    } catch (const std::exception& error) {  // the front end throws what it has no code for
      made->refusal = std::string("cuDNN: ") + error.what();
    }
    return made;
  }

  /// Bytes at the begin of the workspace for the statistics of one sequence, in an ordered
  /// backward: it reads 16 bytes at a time, and those of a sequence begin at any fp32.
  static std::size_t copied_bytes(const AttentionShape& shape, Pass pass) {
    if (pass != Pass::backward_ordered) return 0;
    return (shape.heads * shape.length * sizeof(float) + 255) / 256 * 256;
  }

  static cudaStream_t stream_of(const NnContext& context) {
    return static_cast<cudaStream_t>(context.stream.native);
  }

  void execute(const NnContext& context, const Key& key, View workspace, Pointers& pointers) const {
    const Plan& planned = plan(key);
    if (!planned.refusal.empty()) {
      cuda::fail("attention of " + std::to_string(key.sequences) + " x " +
                 std::to_string(key.length) + " tokens, " + std::to_string(key.heads) + " heads (" +
                 std::to_string(key.kv_heads) + " of keys) of " + std::to_string(key.width) + ": " +
                 planned.refusal +
                 ": cuDNN takes the model's longest sequences and not these: give sequences of "
                 "that length");
    }
    require(workspace, (planned.workspace_bytes + sizeof(float) - 1) / sizeof(float), Dtype::fp32,
            "attention workspace");
    if (fe::detail::set_stream(handle_, stream_of(context)) != CUDNN_STATUS_SUCCESS) {
      cuda::fail("attention: cuDNN does not take the stream");
    }
    auto status = planned.graph.execute(handle_, pointers, workspace.data);
    if (status.is_bad()) cuda::fail("attention: cuDNN: " + status.get_message());
  }

  cudnnHandle_t handle_;
  mutable std::map<Key, std::unique_ptr<Plan>> plans_;
};

FusedAttention open_cudnn() {
  // The front end and cuDNN look for these by name; what is loaded is found.
  const std::string toolkit = std::to_string(CUDART_VERSION / 1000);
  open_library("libcudart.so." + toolkit, kToolkitFolder);
  open_library("libnvrtc.so." + toolkit, kToolkitFolder);
  open_library("libcublasLt.so." + toolkit, kToolkitFolder);
  const OpenedLibrary cudnn =
      open_library("libcudnn.so." + std::to_string(CUDNN_MAJOR), kCudnnFolder);
  if (cudnn.handle == nullptr) return {nullptr, "cuDNN is not available: " + cudnn.why_not};
  fe::cudnn_dlhandle = cudnn.handle;
  cudnnHandle_t handle = nullptr;
  try {
    const cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status != CUDNN_STATUS_SUCCESS) {
      return {nullptr, "cuDNN is not available: status " + std::to_string(status)};
    }
  } catch (const std::exception& error) {  // a library without the functions
    return {nullptr, std::string("cuDNN is not available: ") + error.what()};
  }
  return {new CudnnAttention(handle), {}};
}

}  // namespace

const FusedAttention& fused_attention() {
  // Never destroyed: at the end of the process the driver may be gone before cuDNN's handle.
  static const FusedAttention& opened = *new FusedAttention(open_cudnn());
  return opened;
}

}  // namespace zeropp::nn::cuda_ops
