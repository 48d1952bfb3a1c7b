#pragma once
#include <cstdint>
#include <string>

namespace zero::data {

class MappedFile;

enum class TokenKind { kText, kNanoGpt, kLlmcGpt2, kLlmcLlama3, kLlmq };

// Where a file keeps its tokens: num_tokens unsigned little-endian integers from byte
// data_begin to the file's end.
struct TokenLayout {
  TokenKind kind = TokenKind::kText;
  int64_t data_begin = 0;
  int bytes_per_token = 1;
  int64_t num_tokens = 0;
  int64_t vocab_size = 0;  // 0: the format does not tell
};

std::string kind_name(TokenKind kind);

// Find out what a file is, by its first bytes, then by its suffix (.bin is raw uint16);
// anything else is text.
//
// An empty file gives the layout of its suffix with 0 tokens. Throws DataError for a
// wrong version, a header that disagrees with the file's size, an incomplete token, loss
// masks, and for files known not to be token streams of these kinds (Megatron's, and
// llm.c's evaluation sets and weights).
TokenLayout detect_layout(const MappedFile& file);

// Of a file whose bytes are the tokens, whatever they are.
TokenLayout text_layout(const MappedFile& file);

// The first 64 KiB of a file, as far as it has them.
std::string head_of_text(const MappedFile& file);

// Is it gzip, by name and first bytes?
bool is_packed(const MappedFile& file);

// Throws DataError for a file that begins as a program, an archive or a table does, or
// holds a zero byte among its first 64 KiB: its bytes are no text to be learned.
void require_text(const MappedFile& file);

}  // namespace zero::data
