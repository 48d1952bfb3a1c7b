// A manifest's text. A hash that is wrong ends the reading at once, so that the text is
// also tried with the right one.
#include <optional>

#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/manifest.h"
#include "tests/fuzz/target.h"

namespace zero::fuzz::manifest {
namespace {

using namespace checkpoint;

constexpr std::string_view kTail = ",\"xxh3\":\"0123456789abcdef\"}\n";

// With the hash of its bytes in the place of whatever stands there, or added.
std::string sealed(std::string text) {
  const size_t tail = text.rfind(kTail.substr(0, 9));
  if (tail != text.npos && tail + kTail.size() == text.size()) text.resize(tail);
  const std::string hash = hex_hash(text);
  return text + std::string(kTail.substr(0, 9)) + hash + "\"}\n";
}

std::optional<Manifest> accepted(const std::string& text) {
  try {
    return parse_manifest(text, "manifest.json");
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

void claim_names_are_found(const Manifest& manifest) {
  for (const auto& tensor : manifest.tensors) {
    claim(manifest.find(tensor.kind, tensor.fqn) == &tensor, "a tensor has its name");
    for (const auto& piece : tensor.pieces)
      claim(manifest.find_file(piece.file) != nullptr, "a piece lies in a known file");
  }
  for (const auto& [alias, fqn] : manifest.aliases)
    claim(manifest.find(Kind::kParam, alias) != nullptr, "an alias names a parameter");
}

void claim_manifest(const std::string& text) {
  const auto manifest = accepted(text);
  if (!manifest) return;
  claim_names_are_found(*manifest);
  const std::string written = to_text(*manifest);
  claim(to_text(parse_manifest(written, "written")) == written,
        "a manifest that was read can be written and read again");
}

}  // namespace

void target(const std::string& text) {
  claim_manifest(text);
  claim_manifest(sealed(text));
}

}  // namespace zero::fuzz::manifest
