#include "kernels/nn/cuda/products.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/cuda/check.hpp"
#include "kernels/nn/cuda/cublaslt.hpp"
#include "kernels/nn/cuda/fastest.hpp"

namespace zeropp::nn::cuda_ops {

namespace {

void check(cublasStatus_t status,
           const std::source_location& where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cuda::fail(std::string("cuBLASLt: ") + cublaslt().status_string(status), where);
}

/// One for the process, never destroyed: CUDA may be gone before static objects are.
cublasLtHandle_t handle() {
  static const cublasLtHandle_t instance = [] {
    cublasLtHandle_t made = nullptr;
    check(cublaslt().create(&made));
    return made;
  }();
  return instance;
}

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return CUDA_R_16BF;
    case Dtype::fp16:
      return CUDA_R_16F;
    case Dtype::fp32:
      break;
  }
  return CUDA_R_32F;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::d_gelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// The alignment of an address as far as algorithms ask for it: at most 16 bytes, so that the
/// choice does not depend on how much better an allocation happens to be aligned. In a batch, the
/// alignment that all its matrices share, `distance` bytes apart.
std::uint32_t alignment_of(const void* address, std::size_t distance = 0) {
  constexpr std::uintptr_t kMost = 16;
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | distance | kMost;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// All that the choice of an algorithm depends on.
struct Key {
  Key(const NnContext& context, const Product& p)
      : m(p.m),
        n(p.n),
        k(p.k),
        a_stride(p.a.stride),
        b_stride(p.b.stride),
        d_stride(p.d_stride),
        gelu_stride(p.gelu_stride),
        batch(p.batch),
        a_batch_stride(p.a.batch_stride),
        b_batch_stride(p.b.batch_stride),
        d_batch_stride(p.d_batch_stride),
        inputs(p.inputs),
        output(p.output),
        epilogue(p.epilogue),
        a_transposed(p.a.transposed),
        b_transposed(p.b.transposed),
        adds(p.c != nullptr),
        in_place(p.c != nullptr && p.c == p.d),
        measured(context.autotune),
        a_alignment(alignment_of(p.a.data, p.a.batch_stride * size_of(p.inputs))),
        b_alignment(alignment_of(p.b.data, p.b.batch_stride * size_of(p.inputs))),
        c_alignment(alignment_of(p.c)),
        d_alignment(alignment_of(p.d, p.d_batch_stride * size_of(p.output))),
        bias_alignment(alignment_of(p.bias)),
        gelu_alignment(alignment_of(p.gelu_input)) {}

  std::size_t m, n, k;
  std::size_t a_stride, b_stride, d_stride, gelu_stride;
  std::size_t batch, a_batch_stride, b_batch_stride, d_batch_stride;
  Dtype inputs, output;
  Epilogue epilogue;
  bool a_transposed, b_transposed, adds, in_place, measured;
  std::uint32_t a_alignment, b_alignment, c_alignment, d_alignment, bias_alignment, gelu_alignment;

  auto operator<=>(const Key&) const = default;
};

/// The library's descriptors: cheap objects in host memory.
template <auto Destroy>
struct Destroyer {
  template <class Object>
  void operator()(Object* object) const noexcept {
    (void)(cublaslt().*Destroy)(object);
  }
};
template <class Handle, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, &CublasLt::operation_destroy>;
using Layout = Owned<cublasLtMatrixLayout_t, &CublasLt::layout_destroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &CublasLt::preference_destroy>;

/// `columns` rows of `rows` elements in the eyes of row-major code, `batch` times.
Layout make_layout(Dtype dtype, std::size_t rows, std::size_t columns, std::size_t stride,
                   std::size_t batch, std::size_t batch_stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublaslt().layout_create(&made, type_of(dtype), rows, columns,
                                 static_cast<std::int64_t>(stride)));
  Layout layout(made);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    check(cublaslt().layout_set(layout.get(), attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(batch_stride));
  return layout;
}

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublaslt().operation_set(operation.get(), attribute, &value, sizeof value));
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  check(cublaslt().preference_set(preference.get(), attribute, &value, sizeof value));
}

/// The library's matrices are column-major: a row-major d = a b is its d^T = b^T a^T. Its first
/// operand is therefore b and its second a, both as they lie in memory.
struct Plan {
  Operation operation;
  Layout first, second, result;
  cublasLtMatmulAlgo_t algorithm;
};

void set_pointers(const Operation& operation, const Product& p) {
  if (p.bias != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.gelu_input != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.gelu_input);
  }
}

Operation make_operation(const Product& p) {
  cublasLtMatmulDesc_t description = nullptr;
  check(cublaslt().operation_create(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Operation operation(description);
  const auto transposition = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposition(p.b.transposed));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposition(p.a.transposed));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue));
  if (p.bias != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.inputs));
  }
  if (p.gelu_input != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.gelu_stride));
  }
  set_pointers(operation, p);
  return operation;
}

Preference make_preference(const Key& key) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublaslt().preference_create(&made));
  Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kProductWorkspace);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      key.adds ? key.c_alignment : key.d_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d_alignment);
  return preference;
}

cudaStream_t stream_of(const NnContext& context) {
  return static_cast<cudaStream_t>(context.stream.native);
}

/// Enqueues the product with one of its algorithms; `plan` has its pointers.
cublasStatus_t enqueue(const NnContext& context, const Plan& plan, const Product& p,
                       const cublasLtMatmulAlgo_t& algorithm) {
  const float beta = p.c == nullptr ? 0.0F : 1.0F;
  return cublaslt().matmul(handle(), plan.operation.get(), &p.alpha, p.b.data, plan.first.get(),
                           p.a.data, plan.second.get(), &beta, p.c == nullptr ? p.d : p.c,
                           plan.result.get(), p.d, plan.result.get(), &algorithm,
                           context.workspace.data, kProductWorkspace, stream_of(context));
}

using Algorithms = std::vector<cublasLtMatmulAlgo_t>;

/// Up to `most` algorithms that the heuristics name, what they expect to be fastest first.
Algorithms candidates(const Plan& plan, const Key& key, std::size_t most) {
  const Preference preference = make_preference(key);
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  const cublasStatus_t status = cublaslt().heuristic(
      handle(), plan.operation.get(), plan.first.get(), plan.second.get(), plan.result.get(),
      plan.result.get(), preference.get(), static_cast<int>(most), found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status);
  found.resize(static_cast<std::size_t>(count));
  Algorithms algorithms;
  for (const auto& entry : found) {
    if (entry.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(entry.algo);
  }
  return algorithms;
}

/// Device memory for a while, in the stream's order, from the device's own pool: it is given back
/// to the system by the next wait, and is none of what a model keeps. Null where there is too
/// little.
class Scratch {
 public:
  Scratch(std::size_t bytes, cudaStream_t stream) : stream_(stream) {
    const cudaError_t status = cudaMallocAsync(&data_, bytes, stream);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // too little memory is no failure that a launch may find
      data_ = nullptr;
      return;
    }
    cuda::check(status);
    const cudaError_t cleared = cudaMemsetAsync(data_, 0, bytes, stream);
    if (cleared != cudaSuccess) release();
    cuda::check(cleared);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(); }

  [[nodiscard]] void* data() const { return data_; }

 private:
  void release() noexcept {
    if (data_ == nullptr) return;
    (void)cudaFreeAsync(data_, stream_);
    (void)cudaStreamSynchronize(stream_);
    data_ = nullptr;
  }

  cudaStream_t stream_;
  void* data_ = nullptr;
};

/// From the first to the last element of d.
std::size_t output_bytes(const Product& p) {
  const std::size_t last = (p.batch - 1) * p.d_batch_stride + (p.m - 1) * p.d_stride + p.n;
  return last * size_of(p.output);
}

/// The fastest of `algorithms`. A product does not change its inputs, so that it may run many times
/// before its result counts. A product that adds to d is timed with another d.
const cublasLtMatmulAlgo_t& choose(const NnContext& context, const Plan& plan, const Product& p,
                                   const Algorithms& algorithms) {
  if (algorithms.size() == 1) return algorithms.front();
  const auto time = [&](const Product& trial) -> const cublasLtMatmulAlgo_t& {
    return algorithms[fastest(stream_of(context), algorithms.size(), [&](std::size_t i) {
      return enqueue(context, plan, trial, algorithms[i]) == CUBLAS_STATUS_SUCCESS;
    })];
  };
  if (p.c == nullptr || p.c != p.d) return time(p);
  const Scratch scratch(output_bytes(p), stream_of(context));
  if (scratch.data() == nullptr) return algorithms.front();
  Product elsewhere = p;
  elsewhere.c = scratch.data();
  elsewhere.d = scratch.data();
  return time(elsewhere);
}

/// Empty when the library has no algorithm for the product.
std::optional<Plan> make_plan(const NnContext& context, const Product& p, const Key& key) {
  constexpr std::size_t kMostCandidates = 16;
  const auto operand = [&](const Matrix& matrix, std::size_t rows, std::size_t columns) {
    if (matrix.transposed) std::swap(rows, columns);
    return make_layout(p.inputs, columns, rows, matrix.stride, p.batch, matrix.batch_stride);
  };
  Plan plan{.operation = make_operation(p),
            .first = operand(p.b, p.k, p.n),
            .second = operand(p.a, p.m, p.k),
            .result = make_layout(p.output, p.n, p.m, p.d_stride, p.batch, p.d_batch_stride),
            .algorithm = {}};
  const Algorithms algorithms = candidates(plan, key, key.measured ? kMostCandidates : 1);
  if (algorithms.empty()) return std::nullopt;
  plan.algorithm = choose(context, plan, p, algorithms);
  return plan;
}

/// Plans live as long as the process, like the handle.
const std::optional<Plan>& plan_of(const NnContext& context, const Product& p) {
  static auto* const plans = new std::map<Key, std::optional<Plan>>;
  const Key key(context, p);
  const auto known = plans->find(key);
  if (known != plans->end()) return known->second;
  return plans->emplace(key, make_plan(context, p, key)).first->second;
}

}  // namespace

bool try_multiply(const NnContext& context, const Product& p) {
  if (context.workspace.kind != MemoryKind::device ||
      context.workspace.bytes() < kProductWorkspace) {
    throw std::invalid_argument("matrix product: the workspace has " +
                                std::to_string(context.workspace.bytes()) + " bytes and needs " +
                                std::to_string(kProductWorkspace) + " of device memory");
  }
  const std::optional<Plan>& plan = plan_of(context, p);
  if (!plan) return false;
  set_pointers(plan->operation, p);
  check(enqueue(context, *plan, p, plan->algorithm));
  return true;
}

void multiply(const NnContext& context, const Product& p) {
  if (try_multiply(context, p)) return;
  cuda::fail("cuBLASLt has no algorithm for a product of " + std::to_string(p.m) + " x " +
             std::to_string(p.n) + " x " + std::to_string(p.k) + " in " +
             std::string(name_of(p.inputs)) + " with rows " + std::to_string(p.a.stride) + ", " +
             std::to_string(p.b.stride) + ", " + std::to_string(p.d_stride) + " apart");
}

}  // namespace zeropp::nn::cuda_ops
