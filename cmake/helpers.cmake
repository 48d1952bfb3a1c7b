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
