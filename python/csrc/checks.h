// Arguments that an op refuses for what they hold, or for the memory that they share.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>

namespace spyre {

// Raises what PyTorch raises elsewhere.
using Check = void (*)(c10::ArrayRef<c10::IValue> given);

// The check of an op, before its kernel; null for most.
Check check_of(std::string_view op);

} // namespace spyre
