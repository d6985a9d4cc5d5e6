// The CUDA tables of the registered formats.
#include "kernels/codec/registry.hpp"

namespace zeropp::codec {

// Each is defined in a source generated from cuda_format.cu.in.
#define ZEROPP_ENTRY(name)      \
  namespace format::name {      \
  const CodecOps* cuda_table(); \
  }
#include "codec_formats.inc"
#undef ZEROPP_ENTRY

const CodecOps* cuda_ops(std::string_view format) {
#define ZEROPP_ENTRY(name) \
  if (format == #name) return format::name::cuda_table();
#include "codec_formats.inc"
#undef ZEROPP_ENTRY
  return nullptr;
}

}  // namespace zeropp::codec
