#include "checkpoint/error.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

constexpr size_t kPrintedBytes = 2048;

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

CheckpointError::CheckpointError(std::string file, std::string fqn, std::string problem,
                                 std::string cure)
    : std::runtime_error(join(file, fqn, problem, cure)),
      file_(std::move(file)),
      fqn_(std::move(fqn)),
      problem_(std::move(problem)),
      cure_(std::move(cure)) {}

void throw_errno(const std::string& path, const std::string& action, int error) {
  throw CheckpointError(
      path, "", "cannot " + action + ": " + std::generic_category().message(error),
      cure_of(error));
}

std::string printable(std::string_view text) {
  std::string safe;
  while (!text.empty() && safe.size() < kPrintedBytes) {
    const Character next = first_character(text);
    if (next.bytes == 0 || next.is_control) {
      char escaped[5];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<uint8_t>(text[0]));
      safe += escaped;
      text.remove_prefix(1);
    } else {
      safe += text.substr(0, next.bytes);
      text.remove_prefix(next.bytes);
    }
  }
  return text.empty() ? safe : safe + "...";
}

}  // namespace zero::checkpoint
