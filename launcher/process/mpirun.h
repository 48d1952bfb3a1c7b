#pragma once
#include <string>
#include <vector>

#include "launcher/process/start_ranks.h"

// Ranks on several hosts, which OpenMPI's mpirun starts.
namespace zero::launcher {

// The command that starts them: mpirun with what a user should not have to know. Other
// hosts get the ZERO_ variables among `environment`.
std::vector<std::string> mpirun_words(const RanksToStart& ranks,
                                      const std::string& program,
                                      const std::vector<std::string>& environment);
// Variables for it, "NAME=value", besides those that are set: root, containers.
std::vector<std::string> mpirun_variables(const std::vector<std::string>& environment,
                                          bool is_root);

// With which mpirun starts more ranks on hosts than they have slots.
inline constexpr char kOversubscribeVariable[] = "OMPI_MCA_rmaps_base_oversubscribe";
bool may_oversubscribe(const std::vector<std::string>& environment);

// start_ranks() by mpirun. No process of this host is left behind it.
int start_by_mpirun(const RanksToStart& ranks,
                    const std::vector<std::string>& environment);

}  // namespace zero::launcher
