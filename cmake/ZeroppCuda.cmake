# The CUDA language and the vendor's libraries, for ZEROPP_ENABLE_CUDA; the language at the C++ standard of
# the rest.
set(CMAKE_CUDA_ARCHITECTURES "90" CACHE STRING "GPU architectures: 80 is A100, 90 is H100 and H200; \"80;90\" for a release")
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know that nvcc speaks C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
target_compile_options(zeropp_settings INTERFACE
  # The same bits as on the host, and its constexpr functions.
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false> $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
  # The host code of these files only starts kernels: optimizing it takes time and gains none.
  $<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -O1>)
if(ZEROPP_WARNINGS_AS_ERRORS)
  target_compile_options(zeropp_settings INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
endif()

find_package(CUDAToolkit REQUIRED)
find_package(NCCL REQUIRED)
add_library(zeropp_cuda_libraries INTERFACE)
target_link_libraries(zeropp_cuda_libraries INTERFACE CUDA::cudart_static CUDA::nvtx3 NCCL::NCCL)
# kernels/nn/cuda/cublaslt.cpp opens cuBLASLt at run time.
target_include_directories(zeropp_cuda_libraries SYSTEM INTERFACE
                           "$<BUILD_INTERFACE:$<TARGET_PROPERTY:CUDA::cublasLt,INTERFACE_INCLUDE_DIRECTORIES>>")

# Fused attention: compiled in where the headers are there; the library is looked for at run time.
find_package(Cudnn QUIET)
if(Cudnn_FOUND)
  target_include_directories(zeropp_cuda_libraries SYSTEM INTERFACE
                             "$<BUILD_INTERFACE:${CUDNN_FRONTEND_INCLUDE_DIR};${CUDNN_INCLUDE_DIR}>")
  message(STATUS "attention: cuDNN (front end in ${CUDNN_FRONTEND_INCLUDE_DIR})")
elseif(NOT CUDNN_FRONTEND_INCLUDE_DIR)
  message(STATUS "attention: cuBLASLt (no cuDNN front end)")
else()
  message(STATUS "attention: cuBLASLt (no cuDNN headers)")
endif()
