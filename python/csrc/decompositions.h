// Ops that are carried out as other ops.
#pragma once

#include "spyre.h"

namespace spyre {

// Carries an op out as others, and says whether it did. Inside of its own decomposition it does not.
bool decompose(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

} // namespace spyre
