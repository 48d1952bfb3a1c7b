#include "base/file_error.h"

#include <cerrno>
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

std::string cure_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, or keep fewer checkpoints";
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

}  // namespace

FileError::FileError(std::string file, std::string fqn, std::string problem,
                     std::string cure)
    : std::runtime_error(join(file, fqn, problem, cure)),
      file_(std::move(file)),
      fqn_(std::move(fqn)),
      problem_(std::move(problem)),
      cure_(std::move(cure)) {}

void throw_errno(const std::string& path, const std::string& action, int error) {
  throw FileError(path, "",
                  "cannot " + action + ": " + std::generic_category().message(error),
                  cure_of(error));
}

}  // namespace zero
