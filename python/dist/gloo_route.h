// Collectives of device tensors by way of the host and Gloo: right for every dtype and layout, and across machines.
#pragma once

#include <functional>

#include "call.h"

namespace spyreccl {

// Starts a call, and gives what waits for it, writes the outputs and says which rank was received from.
std::function<int()> start_by_gloo(c10d::Backend& gloo, const Call& call, Milliseconds timeout);

} // namespace spyreccl
