// Stands before a loop of a function for host and device over an array that has to stay in a
// device's registers.
#pragma once

#ifdef __CUDA_ARCH__
#define ZEROPP_UNROLL _Pragma("unroll")
#else
#define ZEROPP_UNROLL
#endif
