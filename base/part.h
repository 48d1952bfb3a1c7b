#pragma once
#include <string>

namespace zero {

// Load a part of this program that few runs need, from a shared library of its own: from
// beside the file that holds this code, from lib/ beside its bin/, or from where the
// system looks. Null where it cannot be loaded; `reasons` tells why.
void* open_part(const std::string& library, std::string& reasons);

}  // namespace zero
