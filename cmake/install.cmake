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

set(zero_libraries zero_offload zero_checkpoint zero_engine_core zero_torch zero_engine zero_data zero_launcher_core
                   zero_verbs zero_launcher)
foreach(library ${zero_libraries})
  string(REPLACE "zero_" "" short_name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${short_name})
  target_compile_features(${library} INTERFACE cxx_std_20)
endforeach()
# Users link MPI's C library alone, whose header would pull in C++ bindings.
target_compile_definitions(zero_engine_core INTERFACE $<INSTALL_INTERFACE:OMPI_SKIP_MPICXX>)

set(zero_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/zero)
install(TARGETS zero_launch zero_program)
if(ZERO_HAS_CUDA)
  install(TARGETS zero_cuda)
endif()
install(TARGETS ${zero_libraries} EXPORT zero_targets)
install(EXPORT zero_targets FILE zero-targets.cmake NAMESPACE zero:: DESTINATION ${zero_package_dir})

# The public headers and what they include. Whatever is not in this list may change any day.
set(zero_headers
  checkpoint/dtype.h
  checkpoint/error.h
  checkpoint/find.h
  engine/chunked_loss.h
  engine/comm/ranks.h
  engine/device/device.h
  engine/device/event.h
  engine/device/gpu.h
  engine/device/stream_clock.h
  engine/engine.h
  engine/errors.h
  engine/init/check_initialised.h
  engine/init/deferred_init.h
  engine/init/init_functions.h
  engine/init/init_report.h
  engine/init/init_spec.h
  engine/load_safetensors.h
  engine/offloaded_bytes.h
  engine/options.h
  engine/plan/memory_plan.h
  engine/plan/slot_plan.h
  engine/save_load.h
  engine/save_seed.h
  engine/step/loss_scale.h
  engine/step/lr_schedule.h
  engine/step_report.h
  engine/stream_seconds.h
  engine/traffic.h
  engine/unit.h
  engine/visit_tensors.h
  launcher/launch.h
  launcher/model.h
  offload/adagrad.h
  offload/adamw.h
  offload/bf16.h
  offload/fp16.h
  offload/exact_sum.h
  offload/host_device.h
  offload/lion.h
  offload/optimizer.h
  offload/sgd.h
  offload/stored_values.h)
foreach(header ${zero_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/zero/${folder})
endforeach()

configure_package_config_file(cmake/zero-config.cmake.in ${PROJECT_BINARY_DIR}/package/zero-config.cmake
                              INSTALL_DESTINATION ${zero_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/zero-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/zero-config.cmake ${PROJECT_BINARY_DIR}/package/zero-config-version.cmake
        DESTINATION ${zero_package_dir})
