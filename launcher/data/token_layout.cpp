#include "launcher/data/token_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/text.h"
#include "launcher/data/mapped_file.h"

namespace zero::data {
namespace {

using namespace std::string_view_literals;

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian");

constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);
constexpr int32_t kGpt2Magic = 20240520;
constexpr int32_t kLlama3Magic = 20240801;
constexpr std::string_view kLlmqMagic = "BIN.TOK\n";
constexpr std::string_view kMegatronMagic{"MMIDIDX\0\0", 9};
constexpr const char* kCopyAgain = "copy the file again, or tokenise the text again";

// What the checks below look at, copied once from the file.
struct FileHead {
  std::string path;
  int64_t file_bytes = 0;
  std::array<int32_t, 256> words{};  // zeros behind the end of a short file
};

FileHead read_head(const MappedFile& file) {
  FileHead head{file.path(), file.size_bytes()};
  const auto num_bytes = std::min(kHeaderBytes, file.size_bytes());
  if (num_bytes > 0)
    std::memcpy(head.words.data(), file.view().get(), static_cast<size_t>(num_bytes));
  return head;
}

bool starts_with(const FileHead& head, std::string_view magic) {
  return std::memcmp(head.words.data(), magic.data(), magic.size()) == 0;
}

bool has_suffix(const FileHead& head, const char* suffix) {
  return std::filesystem::path(head.path).extension() == suffix;
}

void check_header_is_whole(const FileHead& head) {
  if (head.file_bytes >= kHeaderBytes) return;
  throw DataError(fmt::format("the token file's header is cut off: {} bytes of {}",
                              head.file_bytes, kHeaderBytes),
                  at_byte(head.path, head.file_bytes), kCopyAgain);
}

void check_word(const FileHead& head, size_t i, const char* name, bool is_good,
                const std::string& expected) {
  if (is_good) return;
  throw DataError(fmt::format("{} {} in the token file's header, expected {}", name,
                              head.words[i], expected),
                  at_byte(head.path, static_cast<int64_t>(i * 4)),
                  "tokenise the text again with a matching version of the tool");
}

// The header's count must account for every byte behind it.
void check_count(const FileHead& head, size_t i, int bytes_per_token) {
  const int64_t announced = head.words[i];
  const int64_t num_bytes = head.file_bytes - kHeaderBytes;
  if (announced * bytes_per_token == num_bytes) return;
  throw DataError(
      fmt::format("the header announces {} tokens of {} bytes, the file holds {} "
                  "bytes behind the header",
                  announced, bytes_per_token, num_bytes),
      at_byte(head.path, static_cast<int64_t>(i * 4)), kCopyAgain);
}

TokenLayout llmc_layout(const FileHead& head, TokenKind kind, int version,
                        int bytes_per_token) {
  check_header_is_whole(head);
  check_word(head, 1, "version", head.words[1] == version, std::to_string(version));
  check_count(head, 2, bytes_per_token);
  return {kind, kHeaderBytes, bytes_per_token, head.words[2]};
}

// Words 2 to 6: version, bytes per token, tokens, vocabulary (from version 2 on), 1 if
// loss masks follow the tokens.
TokenLayout llmq_layout(const FileHead& head) {
  check_header_is_whole(head);
  const int32_t version = head.words[2], bytes_per_token = head.words[3];
  check_word(head, 2, "version", version == 1 || version == 2, "1 or 2");
  check_word(head, 3, "bytes per token", bytes_per_token == 2 || bytes_per_token == 4,
             "2 or 4");
  if (head.words[6] == 1) {
    throw DataError("the token file carries loss masks, which would be ignored",
                    at_byte(head.path, 24), "tokenise the text again without masks");
  }
  check_count(head, 4, bytes_per_token);
  if (version == 2) check_word(head, 5, "vocabulary", head.words[5] > 0, "at least 1");
  return {TokenKind::kLlmq, kHeaderBytes, bytes_per_token, head.words[4],
          version == 2 ? head.words[5] : 0};
}

[[noreturn]] void throw_megatron(const FileHead& head) {
  throw DataError("Megatron's .idx and .bin pairs cannot be read yet",
                  at_byte(head.path, 0),
                  "convert the tokens to a raw uint16 .bin or to an llm.c token file");
}

// llm.c writes a date of 2024 in front of all its files. As raw tokens such a date begins
// with an id above the last of GPT-2, so no raw file of GPT-2 tokens is refused.
void check_is_not_other_llmc_file(const FileHead& head) {
  const int32_t magic = head.words[0];
  if (magic < 20240101 || magic > 20241231) return;
  throw DataError(fmt::format("wrong magic {}: llm.c's token files begin with {} or {}",
                              magic, kGpt2Magic, kLlama3Magic),
                  at_byte(head.path, 0),
                  "name a token file; this one may hold weights or an evaluation set");
}

TokenLayout raw_uint16_layout(const FileHead& head) {
  check_is_not_other_llmc_file(head);
  if (std::filesystem::exists(
          std::filesystem::path(head.path).replace_extension(".idx"))) {
    throw_megatron(head);
  }
  if (head.file_bytes % 2 != 0) {
    throw DataError(
        "odd number of bytes in a file of uint16 tokens: the last token is incomplete",
        at_byte(head.path, head.file_bytes - 1), kCopyAgain);
  }
  return {TokenKind::kNanoGpt, 0, 2, head.file_bytes / 2};
}

// ---- what counts as text

struct Kind {
  std::string_view magic, name, cure;
  // Where the first letters alone might be those of a text: what the file ends with.
  std::string_view end = "";
};

constexpr std::string_view kUnpack = "unpack it";
constexpr std::string_view kExtract = "write its text column to a file";
constexpr std::string_view kFromParquet =
    "python3 -c \"import pandas; pandas.read_parquet('FILE').to_json('FILE.jsonl', "
    "orient='records', lines=True)\", and a tokenizer for FILE.jsonl";
constexpr Kind kKinds[] = {
    {"\x7f"
     "ELF",
     "a program", "name a text"},
    {"PAR1", "a parquet table", kFromParquet, "PAR1"},
    {"ARROW1\0\0"sv, "an Arrow table", kExtract},
    {"SQLite format 3\0"sv, "an SQLite database", kExtract},
    {"\x89HDF", "an HDF5 file", kExtract},
    {"\x93NUMPY", "a NumPy array", "write its tokens as uint16 to a .bin file"},
    {"PK\x03\x04", "a zip archive", kUnpack},
    {"\x1f\x8b", "gzip", kUnpack},
    {"BZh91AY&SY", "bzip2", kUnpack},
    {"\xfd"
     "7zXZ",
     "xz", kUnpack},
    {"\x28\xb5\x2f\xfd", "zstd", kUnpack},
    {"%PDF-", "a PDF", "extract its text"},
    {"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
};

[[noreturn]] void refuse(const MappedFile& file, int64_t offset, const std::string& what,
                         std::string_view cure) {
  throw DataError(what, at_byte(file.path(), offset),
                  fmt::format("{}; or --bytes to learn its bytes as they are", cure));
}

}  // namespace

std::string kind_name(TokenKind kind) {
  constexpr std::array kNames = {"text", "nanoGPT uint16", "llm.c gpt2", "llm.c llama3",
                                 "LLMQ"};
  return kNames[static_cast<size_t>(kind)];
}

TokenLayout detect_layout(const MappedFile& file) {
  const FileHead head = read_head(file);
  if (starts_with(head, kLlmqMagic)) return llmq_layout(head);
  if (head.words[0] == kGpt2Magic) return llmc_layout(head, TokenKind::kLlmcGpt2, 1, 2);
  if (head.words[0] == kLlama3Magic)
    return llmc_layout(head, TokenKind::kLlmcLlama3, 7, 4);
  if (starts_with(head, kMegatronMagic) || has_suffix(head, ".idx")) throw_megatron(head);
  if (has_suffix(head, ".bin")) return raw_uint16_layout(head);
  return text_layout(file);
}

TokenLayout text_layout(const MappedFile& file) {
  return {TokenKind::kText, 0, 1, file.size_bytes(), 257};
}

std::string head_of_text(const MappedFile& file) {
  constexpr int64_t kLookedAt = 64 << 10;
  if (file.size_bytes() == 0) return "";
  const auto bytes = file.view();
  return {reinterpret_cast<const char*>(bytes.get()),
          static_cast<size_t>(std::min(kLookedAt, file.size_bytes()))};
}

bool is_packed(const MappedFile& file) {
  return to_lower(file.path()).ends_with(".gz") &&
         head_of_text(file).starts_with("\x1f\x8b");
}

void require_text(const MappedFile& file) {
  if (file.size_bytes() == 0) return;
  const std::string head = head_of_text(file);
  const int64_t num_last = std::min<int64_t>(8, file.size_bytes());
  const auto last = file.view(file.size_bytes() - num_last);
  const std::string_view tail(reinterpret_cast<const char*>(last.get()),
                              static_cast<size_t>(num_last));
  for (const Kind& kind : kKinds) {
    if (head.starts_with(kind.magic) && tail.ends_with(kind.end))
      refuse(file, 0, fmt::format("this is no text but {}", kind.name), kind.cure);
  }
  const size_t zero = head.find('\0');
  if (zero != head.npos)
    refuse(file, static_cast<int64_t>(zero), "this is no text: it has a zero byte",
           "name a text; raw uint16 tokens are files named .bin");
}

}  // namespace zero::data
