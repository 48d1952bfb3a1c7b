# zero_library(name SOURCES ... LIBRARIES ...): one room of the house as a static library.
# Floating point is never contracted nor reordered, so that results do not depend on compiler or ISA.
set(zero_compile_options -Wall -Wextra $<$<BOOL:${ZERO_WERROR}>:-Werror> -ffp-contract=off -fno-math-errno)

function(zero_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${zero_compile_options})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/engine/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/zero/parts>)
  target_link_libraries(${name} PUBLIC ${arg_LIBRARIES})
  # Sixteen files are one for the compiler, which reads what they include once: in two thirds of the time that eight
  # take; those with options of their own stay apart. So what a file keeps for itself has a name that no other of its library has.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${ZERO_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  if(ZERO_UNITY)
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)  # which is about headers
  endif()
endfunction()

# What calls LibTorch is optimized little, in three quarters of the time: it is LibTorch that computes, or kernels in
# libraries with options of their own.
set(zero_torch_optimization $<$<CONFIG:RelWithDebInfo>:-O1>)

# zero_torch_header(name): compile it with zero_engine's precompiled header, and optimized as that, which GCC 12 needs.
function(zero_torch_header name)
  target_precompile_headers(${name} REUSE_FROM zero_engine)
  target_compile_options(${name} PRIVATE ${zero_torch_optimization})
endfunction()

# Programs that only slow tests need: scripts/test.sh --slow builds them, the default does not.
if(ZERO_TESTS)
  add_custom_target(slow_tests)
endif()

# zero_slow_program(TARGET ...): build them for slow tests alone.
function(zero_slow_program)
  set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(slow_tests ${ARGN})
endfunction()

# zero_test_sources(TARGET [TORCH]): compile a target of tests/. Quickly, as tests run once: up to 18 files are one, of
# which each keeps its names in a namespace of its own; -O0, as what takes time is in libraries; lines of failures need
# no debug information. TORCH: with the engine's precompiled header, which expects macros of a compiler that optimizes.
function(zero_test_sources name)
  target_compile_options(${name} PRIVATE ${zero_compile_options} -O0 -g0)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${ZERO_UNITY} UNITY_BUILD_BATCH_SIZE 18
                        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(ZERO_UNITY)
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if("TORCH" IN_LIST ARGN)
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-D__OPTIMIZE__;-U__NO_INLINE__>)
    target_precompile_headers(${name} REUSE_FROM zero_engine)
  endif()
endfunction()

# zero_test_program(name [TORCH] [OWN_MAIN] SOURCES ... LIBRARIES ...): a GoogleTest program.
function(zero_test_program name)
  cmake_parse_arguments(arg "TORCH;OWN_MAIN" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  if(arg_TORCH)
    zero_test_sources(${name} TORCH)
  else()
    zero_test_sources(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gmock GTest::gtest)
  if(NOT arg_OWN_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
endfunction()

# zero_test(name ...): as zero_test_program, and its ctest entry.
function(zero_test name)
  zero_test_program(${name} ${ARGN})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
endfunction()

# zero_half_tests(program word ...): entries program_1_of_2 and program_2_of_2, which run beside each other.
function(zero_half_tests program)
  foreach(half 1 2)
    math(EXPR index "${half} - 1")
    add_test(NAME ${program}_${half}_of_2 COMMAND ${program} ${ARGN})
    set_tests_properties(${program}_${half}_of_2 PROPERTIES
      TIMEOUT 900 ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
