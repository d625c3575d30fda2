// The extension module torch_spyre._dist: the backend, as torch.distributed finds it.

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"

namespace py = pybind11;
using namespace spyreccl;

template <typename T, typename Base>
using Class = py::class_<T, Base, Ref<T>>;

namespace {

Ref<Backend> make_backend(const Ref<c10d::Store>& store, int rank, int size, const Ref<Options>& options,
                          py::object make_gloo, const py::capsule& functions) {
  const auto* table = functions.get_pointer<const GroupTable>();
  // It outlives calls of other threads: they take the interpreter's lock for it.
  auto shared = std::shared_ptr<py::object>(new py::object(std::move(make_gloo)), [](py::object* held) {
    const py::gil_scoped_acquire lock;
    delete held;
  });
  GlooFactory factory = [shared](const Ref<c10d::Store>& store, int rank, int size, Milliseconds timeout) {
    const py::gil_scoped_acquire lock;
    return (*shared)(store, rank, size, timeout).cast<Ref<c10d::Backend>>();
  };
  const py::gil_scoped_release unlocked;
  return c10::make_intrusive<Backend>(store, rank, size, options, std::move(factory), table);
}

} // namespace

PYBIND11_MODULE(_dist, names) {
  py::module_::import("torch._C._distributed_c10d");
  Class<Options, c10d::Backend::Options>(names, "Options")
      .def(py::init<Milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
      .def("__copy__", [](const Options& own) { return c10::make_intrusive<Options>(own); })
      .def("__deepcopy__", [](const Options& own, const py::dict&) { return c10::make_intrusive<Options>(own); });
  Class<Backend, c10d::Backend>(names, "SpyreCCL")
      .def(py::init(&make_backend), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
           py::arg("make_gloo"), py::arg("functions"))
      .def_property_readonly("options", &Backend::getBackendOptions)
      .def("sequence_number", &Backend::getSequenceNumberForGroup)
      .def_static("histories", &Backend::histories)
      .def("perform_nocolor_split", [](Backend&, const py::object&) {}, py::arg("device"));
  py::module_::import("atexit").attr("register")(py::cpp_function(&EngineGroup::keep_works_at_exit));
}
