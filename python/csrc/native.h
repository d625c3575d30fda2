// Ops that the card carries out: how calls are handed to the Rust side.
#pragma once

#include "spyre.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string_view>

namespace spyre {

using Results = c10::SmallVector<at::Tensor, 2>;

// Whether a value is a list of tensors, of which some may be missing. TorchScript's lists do not say so by their type.
inline bool is_tensors(const c10::IValue& value) {
  if (value.isTensorList() || value.isOptionalTensorList()) {
    return true;
  }
  if (!value.isList() || value.isIntList() || value.isDoubleList() || value.isBoolList()) {
    return false;
  }
  for (const auto& item : value.toListRef()) {
    if (!item.isTensor() && !item.isNone()) {
      return false;
    }
  }
  return true;
}

// Calls `act` with every tensor of such a list; one that is missing is undefined.
template <typename Act>
void each_of(const c10::IValue& list, Act act) {
  for (const auto& item : list.toListRef()) {
    act(item.isTensor() ? item.toTensor() : at::Tensor());
  }
}

// The generator of a device that is used where none is given.
const at::Generator& default_generator(c10::Device device);

// The number of an op of the Rust side.
int32_t op_named(std::string_view name);

// Carries an op out that is no op of PyTorch: what it makes, or nothing if there is no kernel for it. A
// generator among the arguments gives it random numbers.
std::optional<Results> call_native(int32_t op, c10::ArrayRef<c10::IValue> given,
                                   at::IntArrayRef written = {});

} // namespace spyre
