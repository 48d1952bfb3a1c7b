#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <optional>

#include "zero/errors.h"

namespace zero::launcher {

class World;

// Understand any exception: ours, the checkpoint's, host memory's, the system's, torch's
// (first line of its text, without the stack).
Error describe(std::exception_ptr error);

// How long a failing rank waits for those below it to speak.
inline constexpr std::chrono::milliseconds kWaitForOthers{3000};

// Print what went wrong before ranks knew each other; returns the exit code. Mostly every
// rank sees the same then: the first one prints, and that ends the others while they
// wait. One that is still there behind that was alone (its host lacks a file), and
// prints. Nobody waits where no ranks were announced.
int report_alone(const Error& error, std::optional<int> announced_rank,
                 std::chrono::milliseconds wait = kWaitForOthers);

// Print what went wrong on this rank and end all ranks; does not return when there are
// others. The lowest of several failing ranks is the one that speaks: each waits for
// those below it, and the first to speak ends them all.
int report_and_end(const Error& error, World& world);

// The exit code of `work`, which many ranks may be doing; what it throws is reported so.
// What it uses must still stand then: to take that down could mean to wait for ranks that
// wait for this one.
int run_or_end(World& world, const std::function<ExitCode()>& work);

}  // namespace zero::launcher
