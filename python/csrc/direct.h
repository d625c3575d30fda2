// Ops that are called most.
#pragma once

#include "spyre.h"

namespace spyre {

// New memory with anything in it.
at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype,
                      c10::DeviceIndex device);

} // namespace spyre
