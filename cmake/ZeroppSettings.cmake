# Language level, warnings, floating-point rules and sanitizers: one interface target that every own
# target links.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# x86-64-v3 (AVX2 and FMA, any server since 2013): std::fma must be one instruction, not a call.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(default_host_arch "x86-64-v3")
else()
  set(default_host_arch "")
endif()
set(ZEROPP_HOST_ARCH "${default_host_arch}" CACHE STRING "-march= of the host code; empty: the compiler's own")

add_library(zeropp_settings INTERFACE)
target_include_directories(zeropp_settings INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(zeropp_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
  # The same bits on every back end: no contraction that the source does not spell as fma.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
  # Values stay as written; only the exception flags and errno, which nobody reads, are given up: without
  # this a comparison of floats keeps a loop from becoming vector code.
  $<$<COMPILE_LANGUAGE:CXX>:-fno-trapping-math> $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>)
# GCC collects its garbage when its heap has grown to a size; where that is 512 MiB instead of 128, most sources are
# compiled before, in four fifths of the time.
target_compile_options(zeropp_settings INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
if(ZEROPP_HOST_ARCH)
  target_compile_options(zeropp_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=${ZEROPP_HOST_ARCH}>)
endif()
if(ZEROPP_WARNINGS_AS_ERRORS)
  target_compile_options(zeropp_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(ZEROPP_SANITIZE)
  target_compile_options(zeropp_settings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ZEROPP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  # GCC's own headers (std::regex) seem to use values that were never set once checks stand between: GCC bug 105562.
  target_compile_options(zeropp_settings INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(zeropp_settings INTERFACE -fsanitize=${ZEROPP_SANITIZE})
endif()
if(ZEROPP_FUZZ)
  target_compile_options(zeropp_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
