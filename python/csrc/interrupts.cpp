// A wait that a signal ended: what the signal's handler has raised goes on its way through C++.

#include <pybind11/pybind11.h>

#include "spyre.h"

namespace spyre {

void raise_interrupt() {
  const PyGILState_STATE state = PyGILState_Ensure();
  spyre_restore_interrupt();
  // It holds the exception from here on, and takes the interpreter's lock when it lets go of it.
  pybind11::error_already_set interrupt;
  PyGILState_Release(state);
  throw std::move(interrupt);
}

} // namespace spyre
