#pragma once

namespace zero::checkpoint {

// Whom to tell of each MiB of values that is read, hashed or written: a watchdog may ask
// whether this process still moves. (The lock's heartbeat is no work.) One for the
// process; null: nobody.
void set_work_listener(void (*listener)());

// A piece was done.
void note_work();

}  // namespace zero::checkpoint
