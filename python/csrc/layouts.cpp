// Layouts that a program chooses. They come as numbers that the Rust side handed out, and are taken
// once.
#include "spyre.h"

#include <ATen/EmptyTensor.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

namespace spyre {
namespace {

using at::IntArrayRef;
using at::Tensor;

void check_device(const Tensor& tensor) {
  TORCH_CHECK(tensor.device().type() == kSpyre, "expected a tensor on 'spyre', not on '",
              tensor.device(), "'");
}

LayoutRef take(int64_t number, const SpyreView& view) {
  LayoutPointer layout = nullptr;
  check(spyre_take_layout(number, &view, &layout));
  return LayoutRef(layout);
}

SpyreView shape_of(IntArrayRef sizes, IntArrayRef strides, c10::ScalarType dtype) {
  return {nullptr, sizes.data(), strides.data(), static_cast<int64_t>(sizes.size()), 0, nullptr,
          static_cast<int32_t>(dtype), SpyreMemoryKind::Device};
}

Tensor new_tensor(IntArrayRef sizes, IntArrayRef strides, c10::ScalarType dtype, c10::Device device,
                  const LayoutRef& layout) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  const auto bytes = static_cast<int64_t>(
      at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype)));
  auto storage = storage_with_layout(index_of(device), bytes, layout.get());
  Tensor tensor = at::detail::make_tensor<SpyreTensorImpl>(std::move(storage), keys,
                                                           c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

int64_t layout_of(const Tensor& self) {
  check_device(self);
  const SpyreView view = view_of(self);
  int64_t number = 0;
  check(spyre_hand_layout(&view, &number));
  return number;
}

Tensor empty_with_layout(IntArrayRef sizes, IntArrayRef strides, int64_t layout,
                         c10::ScalarType dtype, c10::Device device) {
  const SpyreView view = shape_of(sizes, strides, dtype);
  const LayoutRef owned = take(layout, view);
  at::detail::check_size_nonnegative(sizes);
  TORCH_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  TORCH_CHECK(device.type() == kSpyre, "expected device 'spyre', not '", device, "'");
  return new_tensor(sizes, strides, dtype, device, owned);
}

// Memory for a tensor like this one, with other sticks.
Tensor empty_restickified(const Tensor& self, IntArrayRef stick_dims) {
  const Tensor host = at::empty_like(self, self.options().device(c10::kMeta));
  const SpyreView view = shape_of(host.sizes(), host.strides(), host.scalar_type());
  LayoutPointer layout = nullptr;
  check(spyre_stick_layout(&view, {stick_dims.data(), static_cast<int64_t>(stick_dims.size())}, &layout));
  const LayoutRef owned(layout);
  return new_tensor(host.sizes(), host.strides(), host.scalar_type(), self.device(), owned);
}

// The same for tensors of the host, and for those that only have a shape: they have no sticks.
Tensor empty_without_sticks(const Tensor& self, IntArrayRef stick_dims) {
  for (const int64_t dim : stick_dims) {
    at::maybe_wrap_dim(dim, self.dim());
  }
  return at::empty_like(self);
}

Tensor restickify(const Tensor& self, IntArrayRef stick_dims) {
  const auto find = [](const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Tensor(const Tensor&, IntArrayRef)>();
  };
  if (c10::impl::TorchDispatchModeTLS::get_mode(c10::impl::TorchDispatchModeKey::FAKE).has_value()) {
    return find("spyre::_with_sticks").call(self, stick_dims);  // graphs would drop a copy to new memory
  }
  static const auto empty = find("spyre::_empty_restickified");
  return empty.call(self.detach(), stick_dims).copy_(self);
}

void relayout_(const Tensor& self, int64_t layout) {
  check_device(self);
  const SpyreView view = view_of(self);
  const LayoutRef owned = take(layout, shape_of(self.sizes(), self.strides(), self.scalar_type()));
  TORCH_CHECK(view.layout == nullptr,
              "the tensor sees its memory through a layout of its own: lay out the storage's tensor");
  if (view.data != nullptr) {
    check(spyre_relayout(&view, owned.get()));
  }
}

// The storage's shape, as far as the view reaches: what a layout of the view's own has to place.
LayoutRef take_for_view(int64_t layout, const SpyreView& view) {
  LayoutRef owned = take(layout, view);
  if (view.data != nullptr) {
    check(spyre_check_reach(view.data, owned.get()));
  }
  return owned;
}

void set_layout(const Tensor& self, int64_t layout) {
  check_device(self);
  LayoutRef owned = take_for_view(layout, view_of(self));
  auto* impl = dynamic_cast<SpyreTensorImpl*>(self.unsafeGetTensorImpl());
  TORCH_CHECK(impl != nullptr,
              "this tensor cannot have a layout of its own: use as_strided_with_layout");
  impl->layout = std::move(owned);
}

Tensor as_strided_with_layout(const Tensor& self, IntArrayRef size, IntArrayRef stride,
                              c10::optional<int64_t> offset, int64_t layout) {
  check_device(self);
  const Tensor plain = at::native::as_strided_tensorimpl(self, size, stride, offset);
  LayoutRef owned = take_for_view(layout, view_of(plain));
  Tensor result = at::detail::make_tensor<SpyreTensorImpl>(c10::Storage(plain.storage()),
                                                           plain.key_set(), plain.dtype());
  auto* impl = static_cast<SpyreTensorImpl*>(result.unsafeGetTensorImpl());
  impl->set_sizes_and_strides(size, stride, plain.storage_offset());
  impl->layout = std::move(owned);
  return result;
}

TORCH_LIBRARY_FRAGMENT(spyre, m) {
  m.def("_layout_of(Tensor self) -> int", TORCH_FN(layout_of));
  m.def("_set_layout(Tensor self, int layout) -> ()", TORCH_FN(set_layout));
  m.def("_empty_with_layout(int[] size, int[] stride, int layout, ScalarType dtype, Device device)"
        " -> Tensor",
        TORCH_FN(empty_with_layout));
  m.def("_as_strided_with_layout(Tensor self, int[] size, int[] stride, int? offset, int layout)"
        " -> Tensor",
        TORCH_FN(as_strided_with_layout));
  m.def("_relayout_(Tensor self, int layout) -> ()", TORCH_FN(relayout_));
  m.def("_empty_restickified(Tensor self, int[] stick_dims) -> Tensor");
  m.def("restickify(Tensor self, int[] stick_dims) -> Tensor", TORCH_FN(restickify));
}

TORCH_LIBRARY_IMPL(spyre, PrivateUse1, m) {
  m.impl("_empty_restickified", TORCH_FN(empty_restickified));
}

TORCH_LIBRARY_IMPL(spyre, Meta, m) {
  m.impl("_empty_restickified", TORCH_FN(empty_without_sticks));
}

TORCH_LIBRARY_IMPL(spyre, CPU, m) {
  m.impl("_empty_restickified", TORCH_FN(empty_without_sticks));
}

} // namespace
} // namespace spyre
