// Where a call goes that the card has no kernel for.
#pragma once

#include "spyre.h"

namespace spyre {

using Fallback = void (*)(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

// The fallback of an op: all have one.
Fallback fallback_of(const char* op);

// The fallback of sparse tensors.
void sparse_fallback(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

} // namespace spyre
