#pragma once
#include <string>

// The faults that the environment orders, for one process:
//
//   FAULT_FOLDER        only calls on this path and below it count; absolute, without links
//   FAULT_RANK          only the process that is this rank; empty: one
//                       that has none
//   FAULT_AT            the call that meets the fault, counted from 1 on, those of the
//                       thread that saves from 10001 on, as it works beside the others,
//                       and reads of shards, which several threads make, from 20001 on;
//                       0: none
//   FAULT_KIND          kill: SIGKILL before the call; tear: SIGKILL with half of it
//                       written; eio: the call fails once; enospc: from this call on, all
//                       that need space fail
//   FAULT_NO_EXCHANGE   if set, names cannot be exchanged, as on NFS
//   FAULT_LOG           a file that gets a line per call: number, name, class, path below
//                       the folder, and the fault it met or "-", with tabs between
namespace zero::crash {

enum class Class {
  kLooks,    // changes nothing
  kChanges,  // needs no space
  kGrows,
  kSyncs,
};

enum class Fate {
  kPass,
  kFail,  // errno is set
  kTear,
};

// Count a call that is about to be made, and say what is to become of it. Does not return
// from a kill.
Fate count_call(const char* name, Class what, const std::string& path);

bool is_in_folder(const std::string& path);
bool has_exchange();
[[noreturn]] void die();

}  // namespace zero::crash
