# The folder is the registry: every file of a folder becomes an entry of a generated list, so that adding
# an entry is adding a file.
#
# zeropp_registry(OUT_SOURCES FOLDER folder PATTERN glob TEMPLATE file.cpp.in INDEX index.inc)
#   folder   where the entries lie; an entry's name is its file's name without the suffix
#   TEMPLATE optional: a source (file.cpp.in or file.cu.in) that is generated once per entry, with @ENTRY@ and
#            @HEADER@ replaced
#   INDEX    a generated file with one line ZEROPP_ENTRY(name) per entry, included by the registry's source
set(ZEROPP_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
target_include_directories(zeropp_settings INTERFACE ${ZEROPP_GENERATED_DIR})

function(zeropp_registry out_sources)
  cmake_parse_arguments(arg "" "FOLDER;PATTERN;TEMPLATE;INDEX" "" ${ARGN})
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/${arg_PATTERN})
  set(sources "")
  set(index "")
  foreach(file IN LISTS files)
    get_filename_component(ENTRY ${file} NAME_WE)
    file(RELATIVE_PATH HEADER ${PROJECT_SOURCE_DIR} ${file})
    if(arg_TEMPLATE)
      string(REGEX MATCH "[.][a-z]+[.]in$" suffix ${arg_TEMPLATE})
      string(REPLACE ".in" "" suffix ${suffix})
      set(source ${ZEROPP_GENERATED_DIR}/${arg_FOLDER}/${ENTRY}${suffix})
      configure_file(${PROJECT_SOURCE_DIR}/${arg_TEMPLATE} ${source} @ONLY)
      list(APPEND sources ${source})
    endif()
    string(APPEND index "ZEROPP_ENTRY(${ENTRY})\n")
  endforeach()
  file(CONFIGURE OUTPUT ${ZEROPP_GENERATED_DIR}/${arg_INDEX} CONTENT "${index}")
  set(${out_sources} ${sources} PARENT_SCOPE)
endfunction()

# zeropp_joined_kernels(OUT_SOURCES file...): joins the .cu files into a few sources, which nvcc compiles at once: nvcc
# reads its headers for seconds before each source. Each file rules_*.cu begins a source of its own, because these files
# define templates of one name; the other files are dealt to these sources. The code of a kernel does not depend on the
# other files of its source.
function(zeropp_joined_kernels out_sources)
  list(FILTER ARGN INCLUDE REGEX "[.]cu$")
  if(NOT ZEROPP_UNITY_BUILD)
    set(${out_sources} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(first ${ARGN})
  list(FILTER first INCLUDE REGEX "/rules_[a-z]+[.]cu$")
  list(FILTER ARGN EXCLUDE REGEX "/rules_[a-z]+[.]cu$")
  list(LENGTH first count)
  if(count EQUAL 0)
    message(FATAL_ERROR "zeropp_joined_kernels: no file is named rules_*.cu")
  endif()
  set(at 0)
  foreach(file IN LISTS first ARGN)
    string(APPEND text_${at} "#include \"${file}\"\n")
    math(EXPR at "(${at} + 1) % ${count}")
  endforeach()
  set(sources "")
  math(EXPR last "${count} - 1")
  foreach(at RANGE ${last})
    set(source ${ZEROPP_GENERATED_DIR}/joined/kernels_${at}.cu)
    file(CONFIGURE OUTPUT ${source} CONTENT "${text_${at}}")
    list(APPEND sources ${source})
  endforeach()
  set(${out_sources} ${sources} PARENT_SCOPE)
endfunction()
