#pragma once

namespace zero::data {

class MappedFile;

// Throws DataError for a file that begins as a program, an archive or a table does, or
// holds a zero byte among its first 64 KiB: its bytes are no text to be learned.
void require_text(const MappedFile& file);

}  // namespace zero::data
