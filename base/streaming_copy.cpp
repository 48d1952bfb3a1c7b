#include "base/streaming_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace zero {

#if defined(__SSE2__)

namespace {

constexpr int64_t kLine = 64;

int64_t bytes_to_line(const void* at) {
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(at) % kLine);
}

void stream_line(__m128i* to, const __m128i* from) {
  const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
  const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
  _mm_stream_si128(to, a);
  _mm_stream_si128(to + 1, b);
  _mm_stream_si128(to + 2, c);
  _mm_stream_si128(to + 3, d);
}

}  // namespace

void StreamingCopy::operator()(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  const int64_t head = std::min(bytes, bytes_to_line(to));
  const int64_t end = head + (bytes - head) / kLine * kLine;
  std::memcpy(out, in, head);
  for (int64_t at = head; at < end; at += kLine)
    stream_line(reinterpret_cast<__m128i*>(out + at),
                reinterpret_cast<const __m128i*>(in + at));
  std::memcpy(out + end, in + end, bytes - end);
}

// Streaming stores obey no release on their own.
StreamingCopy::~StreamingCopy() { _mm_sfence(); }

#else

void StreamingCopy::operator()(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

StreamingCopy::~StreamingCopy() = default;

#endif

}  // namespace zero
