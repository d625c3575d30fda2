// Where a call goes that the card has no kernel for.
#pragma once

#include "spyre.h"

extern "C" {
// Has the CPU carry an op out in place of the device's kernels: by the function that a program has registered at the
// key PrivateUse2, or by the CPU's own kernel. The Rust side calls it, with Python's lock held.
bool spyre_register_fallback(const char* space, const char* op) noexcept;
}

namespace spyre {

using Fallback = void (*)(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

// The fallback of an op: all have one.
Fallback fallback_of(const char* op);

} // namespace spyre
