#include "engine/comm/stream_copy.h"

#include <cassert>
#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace zero {

#if defined(__SSE2__)

void stream_copy(void* to, const void* from, int64_t bytes) {
  assert(reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0);
  auto* out = static_cast<__m128i*>(to);
  auto* in = static_cast<const __m128i*>(from);
  const int64_t num_lines = bytes / 64;
  // Whole lines: written at once.
  for (int64_t i = 0; i < num_lines; ++i, in += 4, out += 4) {
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  if (const int64_t rest = bytes % 64; rest > 0) std::memcpy(out, in, rest);
  _mm_sfence();  // streaming stores obey no release on their own
}

#else

void stream_copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#endif

}  // namespace zero
