#include "checkpoint/hdf5_versions.h"

#include <hdf5.h>

namespace zero::checkpoint {
namespace {

std::string to_text(unsigned major, unsigned minor, unsigned release) {
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(release);
}

}  // namespace

std::pair<std::string, std::string> hdf5_versions() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {to_text(H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE),
          to_text(major, minor, release)};
}

}  // namespace zero::checkpoint
