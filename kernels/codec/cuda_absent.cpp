// Stands for kernels/codec/cuda in a build without CUDA.
#include "kernels/codec/fused.hpp"
#include "kernels/codec/registry.hpp"

namespace zeropp::codec {
const CodecOps* cuda_ops(std::string_view) { return nullptr; }
ReduceEncode::Fused find_fused_cuda(std::string_view, std::string_view) { return nullptr; }
}  // namespace zeropp::codec
