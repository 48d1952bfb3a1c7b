#pragma once
#include "engine/device/host_device.h"

namespace zero {

// An event of host streams: a handle whose latest record can be replaced while earlier
// ones are waited for.
std::unique_ptr<Event> make_host_event();

// A stream of the host: one worker thread that sleeps when its queue is empty.
//
// Any thread may queue. The destructor runs what is queued, then joins; a failure that
// nobody fetched is dropped.
std::unique_ptr<HostStream> make_worker_stream(const std::string& name,
                                               const HostDeviceOptions& options);

}  // namespace zero
