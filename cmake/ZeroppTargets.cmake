# zeropp_add_app(name file...): one program of apps/, named zpp_<name>; `cmake --install` puts it into bin/. What a
# folder has beside main.cpp is a library, zeropp_app_<name>, which tests may link.
function(zeropp_add_app name)
  set(main ${ARGN})
  set(parts ${ARGN})
  list(FILTER parts EXCLUDE REGEX "/main[.]cpp$")
  list(LENGTH ARGN files)
  if(files EQUAL 1)
    set(parts "")
  endif()
  if(parts)
    list(FILTER main INCLUDE REGEX "/main[.]cpp$")
    add_library(zeropp_app_${name} STATIC ${parts})
    target_link_libraries(zeropp_app_${name} PUBLIC zeropp)
  endif()
  add_executable(zpp_${name} ${main})
  target_link_libraries(zpp_${name} PRIVATE zeropp $<TARGET_NAME_IF_EXISTS:zeropp_app_${name}>)
  install(TARGETS zpp_${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# zeropp_test_devices(OUT transport...): where a test's entries run: host, and with CUDA cuda-<transport> each.
function(zeropp_test_devices out)
  set(devices host)
  if(ZEROPP_ENABLE_CUDA)
    list(TRANSFORM ARGN PREPEND cuda- OUTPUT_VARIABLE on_gpus)
    list(APPEND devices ${on_gpus})
  endif()
  set(${out} ${devices} PARENT_SCOPE)
endfunction()

# zeropp_on_gpus(OUT device np): what starts an entry with CUDA: needs_gpus skips it, with the reason, where GPUs
# are fewer than one, or over NCCL than one a rank.
function(zeropp_on_gpus out device np)
  set(launch "")
  if(device STREQUAL cuda-mpi)
    set(launch $<TARGET_FILE:needs_gpus> 1)
  elseif(device STREQUAL cuda-nccl)
    set(launch $<TARGET_FILE:needs_gpus> ${np})
  endif()
  set(${out} ${launch} PARENT_SCOPE)
endfunction()

# zeropp_add_test(NAME name MAIN library SOURCES file... [LINK library...] [NP n...] [CUDA transport...] [LABELS label...] [TIMEOUT s])
#   A GoogleTest program and its CTest entries. Without NP: one process, entry NAME, on a GPU when MAIN is
#   zeropp_gpu_main. With NP: one entry NAME.np<n> per rank count, under mpirun, on the host. CUDA: the same
#   program on GPUs, entries NAME.cuda-<transport>.np<n>, label gpu, skipped where there are none. Over MPI
#   ranks share GPUs, which is slow: at up to 4 ranks. Over NCCL one entry runs at a time: kernels of NCCL wait on
#   the GPU for other ranks, and jobs that share GPUs would take their turns with waiting.
#   What may take longer, by its TIMEOUT, begins earlier (COST), so that short ones fill the end.
#   LABELS without-cuda: ./check --without-cuda builds and runs it; sanitize: the preset cpu-asan runs it too. MPI entries
#   at more than 2 ranks never get the label sanitize.
function(zeropp_add_test)
  cmake_parse_arguments(arg "" "NAME;MAIN;TIMEOUT" "SOURCES;LINK;NP;CUDA;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(test_${arg_NAME} ${arg_SOURCES})
  target_link_libraries(test_${arg_NAME} PRIVATE zeropp ${arg_LINK} ${arg_MAIN} GTest::gmock)
  set_target_properties(test_${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  if("without-cuda" IN_LIST arg_LABELS)
    add_dependencies(without_cuda test_${arg_NAME})
  endif()
  if(NOT arg_NP)
    add_test(NAME ${arg_NAME} COMMAND test_${arg_NAME})
    set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                         COST ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
    zeropp_test_environment(${arg_NAME})
    return()
  endif()
  zeropp_test_devices(devices ${arg_CUDA})
  foreach(np IN LISTS arg_NP)
    foreach(device IN LISTS devices)
      if(device STREQUAL cuda-mpi AND np GREATER 4)
        continue()
      endif()
      set(entry ${arg_NAME}.${device}.np${np})
      set(labels "gpu;np${np};${arg_LABELS}")
      if(device STREQUAL host)
        set(entry ${arg_NAME}.np${np})
        set(labels "mpi;np${np};${arg_LABELS}")
      endif()
      if(np GREATER 2 OR NOT device STREQUAL host)
        list(REMOVE_ITEM labels sanitize)
      endif()
      zeropp_on_gpus(on_gpus ${device} ${np})
      add_test(NAME ${entry} COMMAND ${on_gpus} ${ZEROPP_MPIRUN} -n ${np} $<TARGET_FILE:test_${arg_NAME}>)
      set_tests_properties(${entry} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
                           PROCESSORS ${np} SKIP_RETURN_CODE 77)
      if(device STREQUAL cuda-nccl)
        set_tests_properties(${entry} PROPERTIES RESOURCE_LOCK nccl)
      endif()
      zeropp_test_environment(${entry} ZEROPP_TEST_DEVICE=${device} ZEROPP_TEST_RANKS=${np})
    endforeach()
  endforeach()
endfunction()

# zeropp_add_test_tool(file.cpp [library...]): a program that script tests call, in ZEROPP_TEST_BIN.
function(zeropp_add_test_tool source)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE zeropp ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
endfunction()

# zeropp_add_fuzz_target(file.cpp [library...]): fuzz_<file>, and its CTest entry, which replays the corpus.
function(zeropp_add_fuzz_target source)
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz_${name} ${source})
  target_link_libraries(fuzz_${name} PRIVATE zeropp ${ARGN})
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers fuzz_${name})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name})
  set(replay ${corpus})
  if(ZEROPP_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set(replay -runs=0 ${corpus})
  else()
    target_sources(fuzz_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/fuzz_main.cpp)
  endif()
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${replay})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS "unit;sanitize" TIMEOUT 60)
  zeropp_test_environment(fuzz_${name})
endfunction()

# zeropp_add_script_test(NAME name SCRIPT file [CUDA transport...] [ARGS ...] [LABELS ...] [TIMEOUT s] [PROCESSORS n])
#   A Python test program (exit 0 passes, 77 skips). CUDA: a second entry NAME.cuda-<transport> each, label gpu.
#   What has that label is skipped before Python starts where there is no GPU.
#   ZEROPP_BIN and ZEROPP_SOURCE name the programs' folder and the source tree, ZEROPP_TEST_BIN the folder of
#   test programs, ZEROPP_MPIRUN the launcher with its options, ZEROPP_LAUNCHER whose it is: openmpi or other.
function(zeropp_add_script_test)
  cmake_parse_arguments(arg "" "NAME;SCRIPT;TIMEOUT;PROCESSORS" "CUDA;ARGS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  if(NOT ZEROPP_PYTHON)
    message(FATAL_ERROR "No python3 with numpy, h5py, matplotlib and scipy was found: install "
                        "python3-numpy python3-h5py python3-matplotlib python3-scipy, or pass -DZEROPP_PYTHON=PATH")
  endif()
  zeropp_test_devices(devices ${arg_CUDA})
  foreach(device IN LISTS devices)
    set(entry ${arg_NAME}.${device})
    set(labels "gpu;${arg_LABELS}")
    if(device STREQUAL host)
      set(entry ${arg_NAME})
      set(labels "${arg_LABELS}")
    endif()
    set(on_gpus "")
    if(NOT device STREQUAL host OR gpu IN_LIST arg_LABELS)
      set(on_gpus $<TARGET_FILE:needs_gpus> 1)  # the script knows whether it needs more
    endif()
    add_test(NAME ${entry} COMMAND ${on_gpus} ${ZEROPP_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGS})
    set_tests_properties(${entry} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
                         PROCESSORS ${arg_PROCESSORS} SKIP_RETURN_CODE 77)
    if(device STREQUAL cuda-nccl OR gpu IN_LIST arg_LABELS)
      set_tests_properties(${entry} PROPERTIES RESOURCE_LOCK nccl)
    endif()
    zeropp_test_environment(${entry} ZEROPP_TEST_DEVICE=${device})
  endforeach()
endfunction()

# The launcher as tests call it: more ranks than cores, bound to none, and silent. MPICH's is so unless told otherwise.
set(ZEROPP_MPIRUN ${MPIEXEC_EXECUTABLE} ${MPIEXEC_PREFLAGS})
set(ZEROPP_LAUNCHER other)
if(MPI_C_LIBRARY_VERSION_STRING MATCHES "Open MPI")
  set(ZEROPP_LAUNCHER openmpi)
  list(APPEND ZEROPP_MPIRUN -q --oversubscribe --bind-to none)
endif()

function(zeropp_test_environment name)
  list(JOIN ZEROPP_MPIRUN " " mpirun)
  set_property(TEST ${name} PROPERTY ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 UBSAN_OPTIONS=print_stacktrace=1
    ASAN_OPTIONS=detect_leaks=0 ZEROPP_BIN=${PROJECT_BINARY_DIR}/bin
    ZEROPP_TEST_BIN=${PROJECT_BINARY_DIR}/tests/bin ZEROPP_SOURCE=${PROJECT_SOURCE_DIR}
    "ZEROPP_MPIRUN=${mpirun}" ZEROPP_LAUNCHER=${ZEROPP_LAUNCHER} PYTHONDONTWRITEBYTECODE=1 ${ARGN})
  # What a Python test imports beside the packages of the system.
  set_property(TEST ${name} PROPERTY ENVIRONMENT_MODIFICATION PYTHONPATH=path_list_prepend:${PROJECT_SOURCE_DIR}/tests/support
               PYTHONPATH=path_list_prepend:${PROJECT_SOURCE_DIR}/validation)
endfunction()
