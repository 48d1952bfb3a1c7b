#include "launcher/data/example_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "launcher/data/listed_files.h"
#include "launcher/data/packing.h"
#include "launcher/data/sampler.h"

namespace zero::data {
namespace {

constexpr int64_t kEntryBytes = 16;

// Rows of examples, which may be several to a row.
class ExampleSamples : public Samples {
 public:
  ExampleSamples(const ExampleSource& source, std::vector<int64_t> examples,
                 const SampleShape& shape, const SampleOrder& order)
      : source_(source),
        examples_(std::move(examples)),
        seq_len_(shape.seq_len),
        packs_(shape.packs),
        order_(order),
        packing_(packs_ ? pack_best_fit(lengths(), seq_len_)
                        : pack_alone(std::ssize(examples_))) {}

  int64_t num_samples() const override { return packing_.num_rows(); }

  Batch empty_batch(int64_t rows) const override {
    Batch batch = data::empty_batch(rows, seq_len_);
    if (packs_) batch.document_ends.assign(rows, seq_len_);
    return batch;
  }

  void read(std::span<const int64_t> indices, Batch& batch) const override {
    std::vector<std::vector<int64_t>> ends(batch.rows, {seq_len_});
    for (size_t row = 0; row < indices.size(); ++row) {
      const int64_t place =
          sample_place(indices[row], num_samples(), order_.shuffle, order_.seed);
      ends[row] = read_row(place, batch, static_cast<int64_t>(row) * seq_len_);
    }
    if (packs_) put_ends(ends, batch);
  }

 private:
  // Places that an example takes in a row.
  int64_t length(int64_t example) const {
    return std::min(source_.num_tokens(example) - 1, seq_len_);
  }
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> lengths;
    for (const int64_t example : examples_) lengths.push_back(length(example));
    return lengths;
  }

  // Returns where its examples end, and the row.
  std::vector<int64_t> read_row(int64_t place, Batch& batch, int64_t begin) const {
    std::vector<int64_t> tokens(seq_len_ + 1), ends;
    std::vector<unsigned char> targets(seq_len_ + 1);
    int64_t at = 0;
    for (const int64_t item : packing_.row(place)) {
      const int64_t example = examples_[item], count = length(example);
      source_.read(example, count + 1, tokens.data(), targets.data());
      std::copy_n(tokens.begin(), count, batch.inputs.begin() + begin + at);
      for (int64_t i = 0; i < count; ++i)
        if (targets[i + 1] != 0) batch.targets[begin + at + i] = tokens[i + 1];
      ends.push_back(at += count);
    }
    if (at < seq_len_) ends.push_back(seq_len_);
    return ends;
  }

  void put_ends(const std::vector<std::vector<int64_t>>& ends, Batch& batch) const {
    const size_t most =
        std::ranges::max_element(ends, {}, [](auto& row) { return row.size(); })->size();
    batch.document_ends.clear();
    for (const std::vector<int64_t>& row : ends) {
      batch.document_ends.insert(batch.document_ends.end(), row.begin(), row.end());
      batch.document_ends.resize(batch.document_ends.size() + most - row.size(),
                                 seq_len_);
    }
  }

  const ExampleSource& source_;
  const std::vector<int64_t> examples_;
  const int64_t seq_len_;
  const bool packs_;
  const SampleOrder order_;
  const Packing packing_;
};

[[noreturn]] void throw_damaged(const MappedFile& file) {
  throw DataError("these are no examples: the files do not fit together",
                  at_byte(file.path(), 0),
                  "delete their folder; the next start makes it");
}

std::string grouped(int64_t number) {
  return fmt::format("{}", fmt::group_digits(number));
}

}  // namespace

ExampleSource::ExampleSource(ExampleFiles files, TooLong too_long)
    : files_(std::move(files)),
      too_long_(too_long),
      tokens_(files_.tokens),
      targets_(files_.targets, /*keep_mapped=*/true),
      index_(files_.index, /*keep_mapped=*/true),
      entries_(reinterpret_cast<const Entry*>(index_.view().get())),
      num_examples_(index_.size_bytes() / kEntryBytes - 1) {
  if (num_examples_ < 1 || index_.size_bytes() % kEntryBytes != 0) throw_damaged(index_);
  if (targets_.size_bytes() != tokens_.num_tokens()) throw_damaged(targets_);
  if (entries_[0].begin != 0 || entries_[num_examples_].begin != tokens_.num_tokens())
    throw_damaged(index_);
  const auto trained = targets_.view();
  for (int64_t i = 0; i < num_examples_; ++i) {
    const int64_t begin = entries_[i].begin, end = entries_[i + 1].begin;
    if (begin >= end || end > tokens_.num_tokens()) throw_damaged(index_);
    longest_ = std::max(longest_, end - begin);
    num_targets_ += std::count(trained.get() + begin + 1, trained.get() + end, 1);
  }
}

int64_t ExampleSource::num_tokens(int64_t example) const {
  return entries_[example + 1].begin - entries_[example].begin;
}

void ExampleSource::read(int64_t example, int64_t count, int64_t* tokens,
                         unsigned char* targets) const {
  index_.view();  // throws where it has changed
  const int64_t begin = entries_[example].begin;
  tokens_.read(begin, count, tokens);
  std::memcpy(targets, targets_.view(begin).get(), static_cast<size_t>(count));
}

bool ExampleSource::has_target(int64_t example, int64_t seq_len) const {
  const auto trained = targets_.view(entries_[example].begin);
  const int64_t count = std::min(num_tokens(example), seq_len + 1);
  return std::find(trained.get() + 1, trained.get() + count, 1) != trained.get() + count;
}

ExampleSource::Kept ExampleSource::kept(int64_t seq_len) const {
  constexpr int64_t kMostTold = 20;
  Kept kept;
  std::string told;
  int64_t longest = 0;
  for (int64_t i = 0; i < num_examples_; ++i) {
    const int64_t length = num_tokens(i);
    const bool is_long = length > seq_len + 1;
    if (!is_long || (too_long_ == TooLong::kTruncate && has_target(i, seq_len)))
      kept.examples.push_back(i);
    if (!is_long) continue;
    longest = std::max(longest, length);
    const Entry& entry = entries_[i];
    if (++kept.num_long <= kMostTold)
      told += fmt::format("\n  - {}, line {}: {} tokens", files_.texts.at(entry.file),
                          entry.line, grouped(length));
  }
  if (kept.num_long > 0 && too_long_ == TooLong::kError)
    throw DataError(
        fmt::format("{} of {} examples are longer than a sample of {} tokens:{}{}",
                    grouped(kept.num_long), grouped(num_examples_), seq_len, told,
                    kept.num_long > kMostTold ? "\n  - ..." : ""),
        where(),
        fmt::format("--seq-len {}; or --too-long drop, or truncate", longest - 1));
  if (kept.examples.empty())
    throw DataError(fmt::format("no example fits into a sample of {} tokens", seq_len),
                    where(), fmt::format("--seq-len {}", longest - 1));
  return kept;
}

std::vector<std::string> ExampleSource::notes(const SampleShape& shape) const {
  const auto [examples, num_long] = kept(shape.seq_len);
  if (num_long == 0) return {};
  const int64_t num_left_out = num_examples_ - std::ssize(examples);
  return {fmt::format("{} of {} examples are longer than {} tokens: {}{}",
                      grouped(num_long), grouped(num_examples_), shape.seq_len,
                      num_left_out < num_long
                          ? fmt::format("{} are cut", grouped(num_long - num_left_out))
                          : "all are left out",
                      num_left_out > 0 && num_left_out < num_long
                          ? fmt::format(", and {}, of which nothing trained would "
                                        "remain, are left out",
                                        grouped(num_left_out))
                          : "")};
}

std::string ExampleSource::describe() const {
  return fmt::format(
      "{}, {} example{}, {} tokens, {} of them trained; the longest has {}",
      files_.shapes, grouped(num_examples_), num_examples_ == 1 ? "" : "s",
      grouped(num_items()), grouped(num_targets_), grouped(longest_));
}

std::string ExampleSource::where() const {
  return first_and_others(files_.texts.front(), std::ssize(files_.texts));
}

std::optional<MarkedTokens> ExampleSource::shown_sample(const SampleShape& shape) const {
  const int64_t example = kept(shape.seq_len).examples.front();
  const int64_t count = std::min(num_tokens(example), shape.seq_len + 1);
  MarkedTokens shown{std::vector<int64_t>(count), {}, {}};
  std::vector<unsigned char> trained(count);
  read(example, count, shown.tokens.data(), trained.data());
  shown.trained.assign(trained.begin(), trained.end());
  const Entry& entry = entries_[example];
  shown.where = fmt::format("{}, line {}", files_.texts.at(entry.file), entry.line);
  return shown;
}

int64_t ExampleSource::num_bytes() const {
  return tokens_.num_bytes() + targets_.size_bytes() + index_.size_bytes();
}

void ExampleSource::check_ids(int64_t vocab_size, const OnRead& on_read) const {
  tokens_.check_ids(vocab_size, on_read);
}

uint64_t ExampleSource::content_hash(const OnRead& on_read) const {
  const uint64_t tokens = tokens_.content_hash(on_read);
  return hash_file(index_, "index", hash_file(targets_, "targets", tokens, on_read),
                   on_read);
}

int64_t ExampleSource::num_samples(const SampleShape& shape) const {
  return std::ssize(kept(shape.seq_len).examples);
}

std::unique_ptr<Samples> ExampleSource::samples(const SampleShape& shape,
                                                const SampleOrder& order) const {
  std::vector<int64_t> examples = kept(shape.seq_len).examples;
  if (order.range.count > 0) {
    assert(order.range.first + order.range.count <= std::ssize(examples));
    const auto first = examples.begin() + order.range.first;
    examples = std::vector<int64_t>(first, first + order.range.count);
  }
  return std::make_unique<ExampleSamples>(*this, std::move(examples), shape, order);
}

}  // namespace zero::data
