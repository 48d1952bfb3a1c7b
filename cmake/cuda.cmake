# CUDA: its runtime, that of the wheel which holds LibTorch, so that a process has one, else that of a toolkit; and its
# compiler, from the same places. With both libzero_cuda.so is built (ZERO_HAS_CUDA), without the compiler all else,
# the tests on a GPU of threads included (ZERO_HAS_CUDA_HEADERS). No other part of the program is linked with CUDA.
set(ZERO_HAS_CUDA OFF)
set(ZERO_HAS_CUDA_HEADERS OFF)
set(ZERO_HAS_NCCL OFF)
if(ZERO_CUDA STREQUAL "OFF")
  return()
endif()

set(cuda_folders ${ZERO_TORCH}/../nvidia/cu13 $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda-13.0 /usr/local/cuda)
find_path(ZERO_CUDART_INCLUDE cuda_runtime_api.h HINTS ${cuda_folders} PATH_SUFFIXES include)
find_library(ZERO_CUDART_LIBRARY NAMES libcudart.so.13 HINTS ${cuda_folders} PATH_SUFFIXES lib lib64)

# Only a compiler of the runtime's release will do: the oldest driver for that one cannot translate what a later one
# writes for GPUs that come. Others may lie about, too.
function(zero_is_nvcc result file)
  execute_process(COMMAND ${file} --version OUTPUT_VARIABLE version ERROR_VARIABLE version)
  if(NOT version MATCHES "release 13\\.0,")
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(ZERO_NVCC nvcc HINTS ${cuda_folders} PATH_SUFFIXES bin VALIDATOR zero_is_nvcc DOC "CUDA's compiler, release 13.0")
set(has_nvcc ${ZERO_NVCC})
if(has_nvcc)
  zero_is_nvcc(has_nvcc ${ZERO_NVCC})  # it may have been given
endif()

# NCCL, the one that LibTorch loads, so that a process has one; without it GPUs talk by way of the host's memory.
find_path(ZERO_NCCL_INCLUDE nccl.h HINTS ${ZERO_TORCH}/../nvidia/nccl PATH_SUFFIXES include)
find_library(ZERO_NCCL_LIBRARY NAMES libnccl.so.2 HINTS ${ZERO_TORCH}/../nvidia/nccl PATH_SUFFIXES lib)
if(ZERO_NCCL_INCLUDE AND ZERO_NCCL_LIBRARY)
  set(ZERO_HAS_NCCL ON)
  add_library(zero_nccl INTERFACE)
  target_include_directories(zero_nccl SYSTEM INTERFACE ${ZERO_NCCL_INCLUDE})
  target_link_libraries(zero_nccl INTERFACE ${ZERO_NCCL_LIBRARY})
endif()

set(cuda_missing "")
if(ZERO_CUDART_INCLUDE)
  set(ZERO_HAS_CUDA_HEADERS ON)
endif()
if(NOT ZERO_CUDART_INCLUDE OR NOT ZERO_CUDART_LIBRARY)
  list(APPEND cuda_missing "the runtime (cuda_runtime_api.h, libcudart.so.13)")
endif()
if(NOT has_nvcc)
  list(APPEND cuda_missing "the compiler (nvcc of release 13.0)")
endif()

if(cuda_missing)
  list(JOIN cuda_missing ", " cuda_missing)
  set(cuda_cure "CUDA 13 lacks ${cuda_missing}, beside LibTorch and in toolkits: run scripts/setup.sh, or name the "
                "compiler with -DZERO_NVCC=<file>")
  if(ZERO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ZERO_CUDA=ON, but " ${cuda_cure})
  endif()
  message(STATUS "libzero_cuda.so is left out: " ${cuda_cure})
  return()
endif()

set(ZERO_HAS_CUDA ON)
add_library(zero_cudart INTERFACE)
target_include_directories(zero_cudart SYSTEM INTERFACE ${ZERO_CUDART_INCLUDE})
target_link_libraries(zero_cudart INTERFACE ${ZERO_CUDART_LIBRARY})

# The arithmetic is the host's, bit by bit: nothing is contracted, quotients and roots are rounded rightly, small numbers
# stay. Machine code for A100 and H100, and code that the driver of a later GPU translates.
set(zero_nvcc_arithmetic --fmad=false --prec-div=true --prec-sqrt=true --ftz=false)
set(zero_nvcc_options
  -std=c++20 -O3 -DNDEBUG --expt-relaxed-constexpr ${zero_nvcc_arithmetic} $<$<BOOL:${ZERO_WERROR}>:-Werror=all-warnings>
  -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler -fPIC,-Wall,-Wextra,-ffp-contract=off,-fno-math-errno
  -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/engine/include -isystem ${ZERO_CUDART_INCLUDE})
set(zero_nvcc_targets --compress-mode=none  # a test reads them
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90)

# zero_nvcc(OUTPUT SOURCE OPTION ...): make OUTPUT from SOURCE, again when it or a header has changed.
function(zero_nvcc output source)
  cmake_path(ABSOLUTE_PATH source)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${ZERO_NVCC} ${zero_nvcc_options} ${ARGN} -MD -MF ${output}.d -o ${output} ${source}
    DEPENDS ${source} ${ZERO_NVCC}
    DEPFILE ${output}.d
    COMMENT "Building CUDA object ${output}"
    COMMAND_EXPAND_LISTS VERBATIM)
endfunction()

# zero_compile_cuda(TARGET SOURCE.cu ...): compile them into a target.
function(zero_compile_cuda target)
  foreach(source ${ARGN})
    cmake_path(GET source FILENAME name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    zero_nvcc(${object} ${source} -c ${zero_nvcc_targets})
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
endfunction()
