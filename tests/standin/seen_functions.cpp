// What workers' functions do to the host's memory, and whose that is: the linker puts
// these in the place of the engine's (CMakeLists.txt, --wrap), and they call them.
#include "engine/step/addition.h"
#include "offload/host_arena.h"
#include "offload/update.h"
#include "tests/standin/gpu_of_tests.h"

namespace zero {

std::byte* real_allocate(HostArena* arena, const std::string& name, int64_t bytes) asm(
    "__real__ZN4zero9HostArena8allocateERKNSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEEl");
std::byte* seen_allocate(HostArena* arena, const std::string& name, int64_t bytes) asm(
    "__wrap__ZN4zero9HostArena8allocateERKNSt7__cxx1112basic_stringIcSt11char_"
    "traitsIcESaIcEEEl");

void real_add_up(const Addition& addition, int64_t begin, int64_t end, ThreadPool& threads) asm(
    "__real__ZN4zero6add_upERKNS_8AdditionEllRNS_10"
    "ThreadPoolE");
void seen_add_up(const Addition& addition, int64_t begin, int64_t end, ThreadPool& threads) asm(
    "__wrap__ZN4zero6add_upERKNS_8AdditionEllRNS_10"
    "ThreadPoolE");

void real_update(std::span<const Update> updates, ThreadPool& pool) asm(
    "__real__ZN4zero6updateESt4spanIKNS_6UpdateELm18446744073709551615EERNS_10"
    "ThreadPoolE");
void seen_update(std::span<const Update> updates, ThreadPool& pool) asm(
    "__wrap__ZN4zero6updateESt4spanIKNS_6UpdateELm18446744073709551615EERNS_10"
    "ThreadPoolE");

namespace {

template <class T>
void note(T* array, int64_t numel) {
  static auto* const note_access =
      testing::of_standin<void(const void*, int64_t, bool)>("standin_note_access");
  note_access(array, numel * int64_t{sizeof(T)}, !std::is_const_v<T>);
}

template <class T>
T* from(T* array, int64_t begin) {
  return array ? array + begin : nullptr;
}

}  // namespace

std::byte* seen_allocate(HostArena* arena, const std::string& name, int64_t bytes) {
  static auto* const name_memory =
      testing::of_standin<void(const void*, int64_t, const std::string&)>(
          "standin_name_memory");
  std::byte* const memory = real_allocate(arena, name, bytes);
  name_memory(memory, bytes, name);
  return memory;
}

void seen_add_up(const Addition& addition, int64_t begin, int64_t end,
                 ThreadPool& threads) {
  const int64_t numel = end - begin;
  note(from(addition.left, begin), numel), note(from(addition.right, begin), numel);
  note(from(addition.right_bf16, begin), numel), note(from(addition.sum, begin), numel);
  note(from(addition.sum_bf16, begin), numel);
  real_add_up(addition, begin, end, threads);
}

void seen_update(std::span<const Update> updates, ThreadPool& pool) {
  for (const auto& [piece, rule] : updates) {
    note(piece.grad, piece.numel), note(piece.grad_bf16, piece.numel);
    note(piece.master, piece.numel), note(piece.master_low, piece.numel);
    for (float* state : piece.state) note(state, piece.numel);
    for (uint16_t* state : piece.state_bf16) note(state, piece.numel);
    note(piece.old.master, piece.numel), note(piece.old.master_low, piece.numel);
    note(piece.old_high, piece.numel);
    for (const float* old : piece.old.state) note(old, piece.numel);
    for (const uint16_t* old : piece.old.state_bf16) note(old, piece.numel);
    note(piece.copy_bf16, piece.numel), note(piece.copy_fp16, piece.numel);
  }
  real_update(updates, pool);
}

}  // namespace zero
