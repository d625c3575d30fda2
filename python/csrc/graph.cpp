// Launches of compiled graphs: tensors of Python's as kernels see them, and those that a launch makes.
#include "spyre.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/python_variable.h>

using at::Tensor;

// A tensor as kernels see it, and its device; or why it is not one that they can see. The tensor's holder keeps it.
const char* spyre_graph_view(PyObject* object, bool is_written, SpyreView* view, int32_t* device) noexcept {
  if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass))) {
    return "is not a tensor";
  }
  const Tensor& tensor = THPVariable_Unpack(object);
  if (!tensor.defined() || tensor.device().type() != spyre::kSpyre) {
    return "is not a tensor on spyre";
  }
  if (!tensor.has_storage() || tensor.key_set().has_any(c10::python_ks)) {
    return "is a tensor of another kind, which has no memory";
  }
  if (tensor.is_conj() || tensor.is_neg()) {
    return "shows other values than its memory has: call resolve_conj() and resolve_neg() first";
  }
  if (is_written && !tensor.is_inference()) {
    tensor.unsafeGetTensorImpl()->bump_version();
  }
  *view = spyre::view_of(tensor);
  *device = tensor.device().index();
  return nullptr;
}

// A tensor that a launch has made, for Python; null, and an exception is set, if there is no memory for it.
PyObject* spyre_graph_result(int32_t device, const SpyreResult* result) noexcept {
  try {
    return THPVariable_Wrap(spyre::tensor_of(static_cast<c10::DeviceIndex>(device), *result));
  } catch (const std::exception& error) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
  }
}

// Shows a launch to profilers until it has ended; null if there are none.
void* spyre_graph_begin(const char* name) noexcept {
  try {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
    if (C10_LIKELY(!callbacks.has_value())) {
      return nullptr;
    }
    auto record = std::make_unique<at::RecordFunction>(std::move(*callbacks));
    record->before(name);
    return record.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void spyre_graph_end(void* record) noexcept {
  delete static_cast<at::RecordFunction*>(record);
}
