#include "offload/decode.h"

#include <cassert>

#include "offload/convert.h"
#include "offload/thread_pool.h"

namespace zero {
namespace {

constexpr int64_t kChunkNumel = 1 << 16;  // of a thread
constexpr int64_t kFewNumel = kMostLeft;  // that pass through fp32 at once

void decode_block(const Int8Block& from, float* __restrict to) {
  for (int64_t i = 0; i < Int8Block::kNumel; ++i)
    to[i] = decode(from.values[i], from.factor);
}

template <float (*kWiden)(uint16_t)>
void widen_each(const uint16_t* __restrict from, int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = kWiden(from[i]);
}

// Elements [begin, begin + count) in fp32; whole blocks of kInt8. They do not overlap.
void widen_from(const Decoding& all, int64_t begin, int64_t count, float* to) {
  if (all.from_type == DType::kInt8) {
    const auto* block =
        static_cast<const Int8Block*>(all.from) + begin / Int8Block::kNumel;
    for (int64_t i = 0; i < count; i += Int8Block::kNumel) decode_block(*block++, to + i);
    return;
  }
  const auto* halves = static_cast<const uint16_t*>(all.from) + begin;
  if (all.from_type == DType::kFp16) return widen_each<fp16_to_float>(halves, count, to);
  widen_each<bf16_to_float>(halves, count, to);
}

void write(const Decoding& all, int64_t begin, const float* values, int64_t count) {
  if (all.to_type == DType::kFp32)
    std::copy_n(values, count, static_cast<float*>(all.to) + begin);
  else if (all.to_type == DType::kFp16)
    convert_to_fp16(values, static_cast<uint16_t*>(all.to) + begin, count);
  else
    convert_to_bf16(values, static_cast<uint16_t*>(all.to) + begin, count);
}

// Read, then written.
void decode_few(const Decoding& all, int64_t begin, int64_t end) {
  float values[kFewNumel];
  widen_from(all, begin, end - begin, values);
  write(all, begin, values, end - begin);
}

void decode_chunk(const Decoding& all, int64_t begin, int64_t end) {
  if (all.to_type == DType::kFp32)
    return widen_from(all, begin, end - begin, static_cast<float*>(all.to) + begin);
  for (; begin < end; begin += kFewNumel)
    decode_few(all, begin, std::min(begin + kFewNumel, end));
}

}  // namespace

void decode(const Decoding& all, ThreadPool& threads) {
  assert(all.numel % Decoding::kAlign == 0 && all.bytes_from() <= all.bytes_to());
  const auto run = [&](int64_t first, int64_t last) {
    threads.parallel_for(last - first, kChunkNumel, [&](int64_t begin, int64_t end) {
      decode_chunk(all, first + begin, first + end);
    });
  };
  const auto run_rest = [&](int64_t begin, int64_t end) { decode_few(all, begin, end); };
  in_stretches(all, run, run_rest);
}

}  // namespace zero
