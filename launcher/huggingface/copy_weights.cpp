#include "launcher/huggingface/copy_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <span>

#include "checkpoint/buffer.h"
#include "checkpoint/format.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

constexpr int64_t kBatchNumel = int64_t{4} << 20;
constexpr int64_t kChunkNumel = checkpoint::kChunkBytes / 4;  // of fp32, in a checkpoint

// Elements [begin, begin + numel) of a tensor.
struct TensorPart {
  HeldTensor held;
  int64_t begin = 0, numel = 0;
};

// What is read at once, in the order of the tensors: a part of one, or many small ones.
using TensorBatch = std::vector<TensorPart>;

// What a piece takes in memory: the next one begins at a good place, too.
int64_t room_of(int64_t numel) {
  constexpr int64_t kAlignment = 16;  // values
  return (numel + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<TensorBatch> batches_of(const std::vector<HeldTensor>& parameters) {
  std::vector<TensorBatch> batches;
  int64_t room = 0;
  for (const HeldTensor& held : parameters) {
    const int64_t numel = held.tensor->numel();
    for (int64_t begin = 0; begin < numel;) {
      if (room == 0) {
        batches.emplace_back();
        room = kBatchNumel;
      }
      int64_t count = std::min(room, numel - begin);
      // A chunk that is cut in two is read and hashed twice.
      if (count < numel - begin) count = count / kChunkNumel * kChunkNumel;
      if (count > 0) batches.back().push_back({held, begin, count});
      begin += count;
      room = begin < numel ? 0 : room - room_of(count);
    }
  }
  return batches;
}

// The values of a batch.
struct Values {
  float* data() const { return reinterpret_cast<float*>(bytes.data()); }
  const checkpoint::Buffer bytes{kBatchNumel * sizeof(float)};
};

void read_batch(const TensorBatch& batch, const Values& values, MergedWeights& merged) {
  float* next = values.data();
  for (const auto& [held, begin, numel] : batch) {
    held.reader->read(checkpoint::Kind::kParam, held.tensor->fqn, begin, numel, next);
    merged.add_to(held, begin, {next, static_cast<size_t>(numel)});
    next += room_of(numel);
  }
}

// What would be infinite and is not.
void require_in_fp16(std::span<const float> values, const std::string& fqn) {
  constexpr float kOverflows = 65520;  // is rounded to infinity
  const auto found = std::ranges::find_if(values, [](float value) {
    return std::abs(value) >= kOverflows && std::isfinite(value);
  });
  if (found == values.end()) return;
  throw Error(ExitCode::kUsage, fmt::format("fp16 does not hold a value of {}", *found),
              fqn, "--dtype bf16, or fp32");
}

void write_batch(checkpoint::SafetensorsWriter& writer, const NamesInFile& names,
                 const TensorBatch& batch, const Values& values, DType dtype) {
  const float* next = values.data();
  for (const auto& [held, begin, numel] : batch) {
    const std::span<const float> own{next, static_cast<size_t>(numel)};
    if (dtype == DType::kFp16) require_in_fp16(own, held.tensor->fqn);
    for (const std::string& name : names(held.tensor->fqn))
      writer.write(name, begin, own);
    next += room_of(numel);
  }
}

void ask_for(const TensorBatch& batch) {
  for (const auto& [held, begin, numel] : batch)
    held.reader->ask_for(checkpoint::Kind::kParam, held.tensor->fqn, begin, numel);
}

}  // namespace

void copy_weights(const std::vector<HeldTensor>& parameters, MergedWeights& merged,
                  const NamesInFile& names, DType dtype,
                  checkpoint::SafetensorsWriter& writer) {
  const std::vector<TensorBatch> batches = batches_of(parameters);
  std::array<Values, 2> values;
  const auto start = [&](size_t i) {
    return std::async(std::launch::async, [&, i] {
      if (i == 0) ask_for(batches[i]);
      if (i + 1 < batches.size()) ask_for(batches[i + 1]);
      read_batch(batches[i], values[i % 2], merged);
    });
  };
  std::future<void> reading;
  if (!batches.empty()) reading = start(0);
  for (size_t i = 0; i < batches.size(); ++i) {
    reading.get();
    if (i + 1 < batches.size()) reading = start(i + 1);
    write_batch(writer, names, batches[i], values[i % 2], dtype);
  }
}

}  // namespace zero::launcher
