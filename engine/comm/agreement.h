#pragma once

#include <functional>
#include <ios>
#include <sstream>
#include <string>
#include <type_traits>

#include "zero/ranks.h"

namespace zero {

// Ranks that do something together and fail together.
class Agreement {
 public:
  // `subject` is what the ranks must agree on: with different ones, all of them throw.
  Agreement(Ranks& ranks, std::string subject)
      : ranks_(ranks), subject_(std::move(subject)) {}

  // Run `body` on this rank; then every rank throws the error of the lowest rank whose
  // body failed, if any did: an Error or FileError as it was, of others the text.
  void run(const std::function<void()>& body);

  bool is_first() const { return rank() == 0; }
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

 private:
  Ranks& ranks_;
  const std::string subject_;
};

// What ranks compare: lines of a name, a tab and values; numbers in hexadecimal, which
// tells all their digits, and enumerators by their numbers.
class Lines {
 public:
  Lines() { text_ << std::hexfloat; }
  template <class... Values>
  Lines& add(const std::string& name, const Values&... values) {
    text_ << name << '\t';
    ((text_ << ' ' << printed(values)), ...);
    text_ << '\n';
    return *this;
  }
  std::string text() const { return text_.str(); }

 private:
  template <class Value>
  static auto printed(const Value& value) {
    if constexpr (std::is_enum_v<Value>)
      return static_cast<int>(value);
    else
      return value;
  }

  std::ostringstream text_;
};

// Throw Error(kDiverged) on every rank unless all have the same lines: `what`, then the
// names whose values are not rank 0's, and of which ranks. `cure` says what helps. Moves
// two numbers where all is well. Collective.
void require_same_lines(const Lines& lines, const std::string& what,
                        const std::string& cure, Ranks& ranks);

}  // namespace zero
