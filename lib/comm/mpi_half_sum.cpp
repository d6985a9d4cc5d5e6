#include "lib/comm/mpi_half_sum.hpp"

#include "kernels/core/half.hpp"
#include "lib/comm/mpi_check.hpp"

namespace zeropp::comm {

namespace {

template <class Half, Half (*round)(float)>
void sum(void* in, void* in_out, int* count, MPI_Datatype* /*uint16*/) {
  const auto* addend = static_cast<const Half*>(in);
  auto* total = static_cast<Half*>(in_out);
  for (int i = 0; i < *count; ++i) total[i] = round(to_float(addend[i]) + to_float(total[i]));
}

}  // namespace

OpHandle make_half_sum(Dtype dtype) {
  MPI_Op op = MPI_OP_NULL;
  check(MPI_Op_create(dtype == Dtype::bf16 ? sum<Bf16, round_to_bf16> : sum<Fp16, round_to_fp16>,
                      /*commute=*/1, &op));
  return OpHandle(op);
}

}  // namespace zeropp::comm
