// Ops that are carried out as other ops.
#pragma once

#include "spyre.h"

extern "C" {
// Whether an op is decomposed: then a kernel for it is registered at the key of decompositions.
int32_t spyre_has_decomposition(const char* op, int32_t* has);
}

namespace spyre {

// Carries an op out as others, and says whether it did. Inside of its own decomposition it does not.
bool decompose(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

} // namespace spyre
