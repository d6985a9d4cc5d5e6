# cuDNN's headers and those of its C++ front end, for programs that open the library when they run. Looks
# for cudnn.h in CUDNN_ROOT (CMake or environment variable) and beside the CUDA toolkit; for the front end
# in ZEROPP_CUDNN_FRONTEND_DIR, which cmake/setup.sh fills. Sets CUDNN_LIBRARY_DIR: where the library lies
# here, or empty.
set(ZEROPP_CUDNN_FRONTEND_DIR "${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend"
    CACHE PATH "Folder of the C++ front end of cuDNN: include/cudnn_frontend.h lies in it")
find_path(CUDNN_INCLUDE_DIR cudnn.h
          HINTS ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
          HINTS ${ZEROPP_CUDNN_FRONTEND_DIR} PATH_SUFFIXES include)
find_file(CUDNN_LIBRARY NAMES libcudnn.so.9
          HINTS ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
set(CUDNN_LIBRARY_DIR "")
if(CUDNN_LIBRARY)
  cmake_path(GET CUDNN_LIBRARY PARENT_PATH CUDNN_LIBRARY_DIR)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cudnn REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR CUDNN_INCLUDE_DIR)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_FRONTEND_INCLUDE_DIR CUDNN_LIBRARY)
