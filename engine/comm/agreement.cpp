#include "engine/comm/agreement.h"

#include <array>
#include <span>

#include "base/file_error.h"
#include "zero/errors.h"

namespace zero {
namespace {

// An error as texts: its kind ("" for a file's, else the exit code) and its parts.
using Parts = std::array<std::string, 5>;

Parts parts_of_current_exception() {
  try {
    throw;
  } catch (const FileError& error) {
    return {"", error.file(), error.fqn(), error.problem(), error.cure()};
  } catch (const Error& error) {
    return {std::to_string(static_cast<int>(error.code())), error.where(), "",
            error.problem(), error.cure()};
  } catch (const std::exception& error) {
    return {"", "", "", error.what(), ""};
  }
}

[[noreturn]] void rethrow(const Parts& parts) {
  const auto& [kind, where, fqn, problem, cure] = parts;
  if (kind.empty()) throw FileError(where, fqn, problem, cure);
  throw Error(static_cast<ExitCode>(std::stoi(kind)), problem, where, cure);
}

}  // namespace

void Agreement::run(const std::function<void()>& body) {
  Parts parts;
  bool failed = true;
  try {
    body();
    failed = false;
  } catch (...) {
    parts = parts_of_current_exception();
  }
  int64_t first = failed ? rank() : size();
  ranks_.all_reduce(std::span(&first, 1), ReduceOp::kMin, subject_);
  if (first == size()) return;
  const int culprit = static_cast<int>(first);
  for (std::string& part : parts) part = ranks_.broadcast(part, culprit);
  if (size() > 1 && (culprit > 0 || parts[0].empty()))
    parts[3] = "rank " + std::to_string(culprit) + ": " + parts[3];
  rethrow(parts);
}

}  // namespace zero
