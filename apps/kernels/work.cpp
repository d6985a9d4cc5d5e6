#include "apps/kernels/work.hpp"

namespace zeropp::kernels {

namespace {

Limit memory_limit(const Work& work, const Ceilings& ceilings) {
  constexpr double kOneSided = 8;
  if (kOneSided * work.written < work.read) return {"read", work.moved() / ceilings.read};
  if (kOneSided * work.read < work.written) return {"write", work.moved() / ceilings.write};
  return {"copy", work.moved() / ceilings.copy};
}

}  // namespace

Limit limit_of(const Work& work, const Ceilings& ceilings) {
  const Limit memory = memory_limit(work, ceilings);
  const Limit compute = work.arithmetic == Arithmetic::bf16
                            ? Limit{"bf16", work.operations / ceilings.bf16}
                            : Limit{"fp32", work.operations / ceilings.fp32};
  return compute.seconds > memory.seconds ? compute : memory;
}

}  // namespace zeropp::kernels
