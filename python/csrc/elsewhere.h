// Where a call goes that the card has no kernel for.
#pragma once

#include "spyre.h"

namespace spyre {

using Elsewhere = void (*)(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

// The CPU's kernel of the same name, or of another one where PyTorch has none for the CPU.
Elsewhere elsewhere(const char* op);

} // namespace spyre
