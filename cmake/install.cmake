# `cmake --install build --prefix P`: the program, the libraries, the headers that users include, and a package, so
# that another project says
#
#   find_package(zero REQUIRED)
#   target_link_libraries(app zero::engine)      # or zero::launcher: the engine and every verb of the command line
#
# Inside this tree the same names work.
include(CMakePackageConfigHelpers)

add_library(zero::engine ALIAS zero_engine)
add_library(zero::launcher ALIAS zero_launcher)

set(zero_libraries zero_base zero_offload zero_checkpoint zero_engine_core zero_mpi zero_torch zero_engine zero_data
                   zero_launcher_core zero_launcher)
foreach(library ${zero_libraries})
  string(REPLACE "zero_" "" short_name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${short_name})
  target_compile_features(${library} INTERFACE cxx_std_20)
endforeach()
# Users link MPI's C library alone, whose header would pull in C++ bindings.
target_compile_definitions(zero_mpi INTERFACE $<INSTALL_INTERFACE:OMPI_SKIP_MPICXX>)

set(zero_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/zero)
install(TARGETS zero_launch zero_program zero_mpi_part)
if(ZERO_HAS_CUDA)
  install(TARGETS zero_cuda)
endif()
install(TARGETS ${zero_libraries} EXPORT zero_targets)
install(EXPORT zero_targets FILE zero-targets.cmake NAMESPACE zero:: DESTINATION ${zero_package_dir})

# The tokenizer's process, which the program looks for beside itself.
install(DIRECTORY scripts/tokens DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zero FILES_MATCHING PATTERN "*.py")

# The public headers of the engine, <zero/engine.h> and its like.
install(DIRECTORY engine/include/zero DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# What else users include, and what these headers are made of. All other headers may change any day.
set(zero_parts ${CMAKE_INSTALL_INCLUDEDIR}/zero/parts)  # zero_library() tells users' compilers
set(zero_headers
  base/dtype.h base/files.h base/host_device.h base/names.h base/no_copy.h
  checkpoint/error.h checkpoint/find.h
  launcher/launch.h launcher/model.h launcher/run_log.h
  offload/exact_sum.h offload/optimizer.h offload/stored_values.h)
foreach(header ${zero_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${zero_parts}/${folder})
endforeach()

# Where public headers were before: these go with the next version. OLD NEW
set(zero_moved_headers
  checkpoint/dtype.h              base/dtype.h
  engine/chunked_loss.h           zero/chunked_loss.h
  engine/comm/ranks.h             zero/ranks.h
  engine/device/gpu.h             zero/gpu.h
  engine/engine.h                 zero/engine.h
  engine/errors.h                 zero/errors.h
  engine/init/check_initialised.h zero/deferred_init.h
  engine/init/deferred_init.h     zero/deferred_init.h
  engine/init/init_functions.h    zero/init_functions.h
  engine/init/init_report.h       zero/reports.h
  engine/init/init_spec.h         zero/init_spec.h
  engine/load_safetensors.h       zero/save_load.h
  engine/offloaded_bytes.h        zero/reports.h
  engine/options.h                zero/options.h
  engine/plan/memory_plan.h       zero/reports.h
  engine/save_load.h              zero/save_load.h
  engine/save_seed.h              zero/save_load.h
  engine/step/loss_scale.h        zero/loss_scale.h
  engine/step/lr_schedule.h       zero/lr_schedule.h
  engine/step_report.h            zero/reports.h
  engine/stream_seconds.h         zero/reports.h
  engine/traffic.h                zero/reports.h
  engine/unit.h                   zero/unit.h
  engine/visit_tensors.h          zero/visit_tensors.h
  offload/adagrad.h               offload/optimizer.h
  offload/adamw.h                 offload/optimizer.h
  offload/bf16.h                  base/dtype.h
  offload/host_device.h           base/host_device.h
  offload/lion.h                  offload/optimizer.h
  offload/sgd.h                   offload/optimizer.h)
while(zero_moved_headers)
  list(POP_FRONT zero_moved_headers old new)
  get_filename_component(folder ${old} DIRECTORY)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package/moved/${old}
       CONTENT "// Moved: include <@new@>. This file goes with the next version.\n#pragma once\n#include <@new@>\n" @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/moved/${old} DESTINATION ${zero_parts}/${folder})
endwhile()

configure_package_config_file(cmake/zero-config.cmake.in ${PROJECT_BINARY_DIR}/package/zero-config.cmake
                              INSTALL_DESTINATION ${zero_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/zero-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/zero-config.cmake ${PROJECT_BINARY_DIR}/package/zero-config-version.cmake
        DESTINATION ${zero_package_dir})
