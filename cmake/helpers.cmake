# zero_library(name SOURCES ... LIBRARIES ...): one room of the house as a static library.
# Floating point is never contracted nor reordered, so that results do not depend on compiler or ISA.
set(zero_compile_options -Wall -Wextra $<$<BOOL:${ZERO_WERROR}>:-Werror> -ffp-contract=off -fno-math-errno)

function(zero_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${zero_compile_options})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/zero>)
  target_link_libraries(${name} PUBLIC ${arg_LIBRARIES})
  # Eight files are one for the compiler, which reads what they include once; those with options of their own stay
  # apart. So what a file keeps for itself has a name that no other of its library has.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${ZERO_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  if(ZERO_UNITY)
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)  # which is about headers
  endif()
endfunction()

# zero_test(name SOURCES ... LIBRARIES ... [LABELS ...]): one GoogleTest program, one ctest entry per program.
function(zero_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${zero_compile_options})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${arg_LABELS}")
endfunction()
