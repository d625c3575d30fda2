// The table of operators, which the Rust side has: properties of an op that its callers have to know.
#pragma once

#include "spyre.h"

#include <string>

namespace spyre {

inline bool has_flag(const std::string& op, SpyreFlag flag) {
  return spyre_has_flag(op.c_str(), flag);
}

// Calls `act` with the name of every op that has a flag.
template <typename Act>
void each_flagged(SpyreFlag flag, Act act) {
  for (int32_t number = 0; const char* op = spyre_flagged_op(flag, number); ++number) {
    act(op);
  }
}

} // namespace spyre
