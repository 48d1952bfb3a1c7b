# Everything from outside. Each has one home among our libraries (see README.md, "Map").
include(CheckCXXSymbolExists)
find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_path(ZERO_TOMLPLUSPLUS toml++/toml.h REQUIRED)  # headers alone, in the compiler's own path

find_package(HDF5 REQUIRED COMPONENTS C)
find_package(MPI REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
add_library(xxhash::xxhash ALIAS PkgConfig::xxhash)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::xxhash)
check_cxx_symbol_exists(XXH3_64bits_dispatch "xxhash.h;xxh_x86dispatch.h" ZERO_XXHASH_DISPATCHES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(ZERO_TESTS)
  find_package(GTest REQUIRED)
endif()

# LibTorch: the CPU libraries of the wheel, without the wheel's own CMake package, which wants a whole toolkit.
set(zero_torch_version 2.11)
if(NOT ZERO_TORCH AND DEFINED ENV{ZERO_TORCH})
  set(ZERO_TORCH $ENV{ZERO_TORCH})
endif()
find_path(ZERO_TORCH_INCLUDE torch/headeronly/version.h HINTS ${ZERO_TORCH}/include NO_DEFAULT_PATH)
if(NOT ZERO_TORCH_INCLUDE)
  message(FATAL_ERROR "no LibTorch in ZERO_TORCH='${ZERO_TORCH}': run scripts/setup.sh, or pass -DZERO_TORCH=<folder "
                      "with include/ and lib/>")
endif()
file(STRINGS ${ZERO_TORCH_INCLUDE}/torch/headeronly/version.h version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" found_version "${version_lines}")
if(NOT found_version VERSION_EQUAL zero_torch_version)
  message(FATAL_ERROR "LibTorch in ${ZERO_TORCH} is ${found_version}, this project is made for ${zero_torch_version}")
endif()
add_library(zero_torch INTERFACE)
target_include_directories(zero_torch SYSTEM INTERFACE  # where it is installed, zero-config.cmake says this again
  $<BUILD_INTERFACE:${ZERO_TORCH_INCLUDE}> $<BUILD_INTERFACE:${ZERO_TORCH_INCLUDE}/torch/csrc/api/include>)
target_link_directories(zero_torch INTERFACE $<BUILD_INTERFACE:${ZERO_TORCH}/lib>)
target_link_options(zero_torch INTERFACE $<BUILD_INTERFACE:-Wl,-rpath,${ZERO_TORCH}/lib>)
target_link_libraries(zero_torch INTERFACE torch_cpu c10)  # not torch: that loads CUDA's too
# at::parallel_for() is a plain loop without it. It brings libgomp.so.1, whose threads are LibTorch's, too.
target_compile_options(zero_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_options(zero_torch INTERFACE -fopenmp)

message(STATUS "zero ${PROJECT_VERSION}: LibTorch ${found_version} (${ZERO_TORCH})")
