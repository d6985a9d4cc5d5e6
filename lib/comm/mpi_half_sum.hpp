// Sums of the 16-bit floating-point formats as MPI reduction operations: MPI has neither type.
// Elements travel as MPI_UINT16_T; every addition is done in fp32 and rounded to the format.
#pragma once

#include "kernels/core/dtype.hpp"
#include "lib/comm/mpi_handle.hpp"

namespace zeropp::comm {

/// A sum over `dtype`, bf16 or fp16.
OpHandle make_half_sum(Dtype dtype);

}  // namespace zeropp::comm
