#include "base/files.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/text.h"

namespace zero {
namespace {

std::string join(const std::string& file, const std::string& fqn,
                 const std::string& problem, const std::string& cure) {
  std::string text;
  if (!file.empty()) text += printable(file) + ": ";
  if (!fqn.empty()) text += printable(fqn) + ": ";
  text += problem;
  if (!cure.empty()) text += "; " + cure;
  return text;
}

bool contains(const std::string& comma_separated, const std::string& wanted) {
  std::istringstream names(comma_separated);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

// A group and all above it.
void add_all(const std::string& mount, std::string group, int version,
             std::vector<ControlGroup>& groups) {
  if (group == "/") group.clear();
  while (true) {
    groups.push_back({mount + group, version});
    if (group.empty()) return;
    group.resize(group.rfind('/'));
  }
}

std::string problem_of(const std::string& action, int error) {
  return "cannot " + action + ": " + std::generic_category().message(error);
}

}  // namespace

FileError::FileError(std::string file, std::string fqn, std::string problem,
                     std::string cure)
    : std::runtime_error(join(file, fqn, problem, cure)),
      file_(std::move(file)),
      fqn_(std::move(fqn)),
      problem_(std::move(problem)),
      cure_(std::move(cure)) {}

std::string FileError::without_cure() const { return join(file_, fqn_, problem_, ""); }

std::string cure_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, or keep fewer checkpoints";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f unlimited)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "make the folder writable, or choose another one";
    case ELOOP:
      return "symbolic links are not followed here: put the file itself there; cp -rL "
             "FOLDER COPY copies a folder with what its links lead to, as those of a "
             "cache of Hugging Face do";
    default:
      return "";
  }
}

void throw_errno(const std::string& path, const std::string& action, int error) {
  throw FileError(path, "", problem_of(action, error), cure_of(error));
}

void throw_unreadable(const std::string& path, const std::string& action, int error) {
  const bool is_forbidden = error == EACCES || error == EPERM;
  throw FileError(path, "", problem_of(action, error),
                  is_forbidden
                      ? "make it readable (chmod u+rX), or start as the user whose it is"
                      : cure_of(error));
}

std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> read_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t number = 0;
    if (words >> name >> number && name == key) return number;
  }
  return std::nullopt;
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Lines of /proc/self/cgroup: "0::/path" in version 2, "4:cpu,memory:/path" in 1.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  std::vector<ControlGroup> groups;
  std::string number, controllers, group;
  while (std::getline(file, number, ':') && std::getline(file, controllers, ':') &&
         std::getline(file, group)) {
    if (!group.starts_with('/')) continue;
    if (controllers.empty())
      add_all(mount, group, 2, groups);
    else if (contains(controllers, controller))
      add_all(mount + "/" + controller, group, 1, groups);
  }
  return groups;
}

}  // namespace zero
