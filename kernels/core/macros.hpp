// Marks functions that both the host and the CUDA compiler translate, so that both back ends run
// the same maths.
#pragma once

#ifdef __CUDACC__
#define ZEROPP_HD __host__ __device__ __forceinline__
#else
#define ZEROPP_HD inline
#endif
