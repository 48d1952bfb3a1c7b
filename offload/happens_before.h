#pragma once

// For ThreadSanitizer, which cannot see how a library that was built without it orders
// its threads.
//
// What a thread did before happens_before(mark) is over for whoever calls
// happens_after(mark) later. They order nothing themselves: the library must do so. In
// other builds they are nothing.
#ifdef __SANITIZE_THREAD__

#include <sanitizer/tsan_interface.h>

namespace zero {
inline void happens_before(void* mark) { __tsan_release(mark); }
inline void happens_after(void* mark) { __tsan_acquire(mark); }
}  // namespace zero

#else

namespace zero {
inline void happens_before(void*) {}
inline void happens_after(void*) {}
}  // namespace zero

#endif
