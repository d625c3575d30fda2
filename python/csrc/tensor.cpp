// Tensors of the device: how they are made, viewed, resized and copied.
#include "native.h"
#include "spyre.h"

#include <ATen/Context.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

namespace spyre {

using at::IntArrayRef;
using at::Tensor;

// The Rust side knows types by these numbers.
static_assert(static_cast<int>(c10::ScalarType::Byte) == 0);
static_assert(static_cast<int>(c10::ScalarType::Long) == 4);
static_assert(static_cast<int>(c10::ScalarType::ComplexDouble) == 10);
static_assert(static_cast<int>(c10::ScalarType::Bool) == 11);
static_assert(static_cast<int>(c10::ScalarType::BFloat16) == 15);
static_assert(static_cast<int>(c10::ScalarType::Bits16) == 22);
static_assert(static_cast<int>(c10::ScalarType::Float8_e5m2) == 23);
static_assert(static_cast<int>(c10::ScalarType::Float8_e4m3fnuz) == 26);
static_assert(static_cast<int>(c10::ScalarType::UInt64) == 29);
static_assert(static_cast<int>(c10::ScalarType::Float8_e8m0fnu) == 44);

SpyreTensorImpl::SpyreTensorImpl(c10::Storage&& storage, c10::DispatchKeySet keys,
                                 caffe2::TypeMeta dtype)
    : TensorImpl(std::move(storage), keys, dtype) {}

c10::intrusive_ptr<c10::TensorImpl> SpyreTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version, bool allow_metadata_change) const {
  // Without a layout of its own a plain tensor is as good, and modes know how to detach that.
  const bool is_plain = layout.get() == nullptr || c10::impl::TorchDispatchModeTLS::stack_len() > 0 ||
      key_set_.has(c10::DispatchKey::Python);
  if (is_plain) {
    return TensorImpl::shallow_copy_and_detach(version, allow_metadata_change);
  }
  auto copy = c10::make_intrusive<SpyreTensorImpl>(c10::Storage(storage()), key_set_, dtype());
  copy_tensor_metadata(this, copy.get(), version, allow_metadata_change);
  copy->layout = layout;
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> SpyreTensorImpl::shallow_copy_and_detach(
    c10::VariableVersion&& version, bool allow_metadata_change) const {
  return shallow_copy_and_detach(static_cast<const c10::VariableVersion&>(version),
                                 allow_metadata_change);
}

void SpyreTensorImpl::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  TensorImpl::shallow_copy_from(impl);
  const auto* other = dynamic_cast<const SpyreTensorImpl*>(impl.get());
  layout = other != nullptr ? other->layout : LayoutRef();
}

const char* SpyreTensorImpl::tensorimpl_type_name() const {
  return "SpyreTensorImpl";
}

namespace {

// The layout of a tensor's own, or null.
LayoutPointer own_layout(const Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return typeid(*impl) == typeid(SpyreTensorImpl)
      ? static_cast<const SpyreTensorImpl*>(impl)->layout.get()
      : nullptr;
}

void* host_data(const Tensor& tensor, bool is_written) {
  return is_written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
}

SpyreView host_view(const Tensor& tensor, bool is_written) {
  return {host_data(tensor, is_written), tensor.sizes().data(), tensor.strides().data(), tensor.dim(),
          0, nullptr, static_cast<int32_t>(tensor.scalar_type()), SpyreMemoryKind::Host};
}

SpyreView shape_view(IntArrayRef sizes, IntArrayRef strides, c10::ScalarType dtype) {
  return {nullptr, sizes.data(), strides.data(), static_cast<int64_t>(sizes.size()), 0, nullptr,
          static_cast<int32_t>(dtype), SpyreMemoryKind::Device};
}

Tensor make_tensor(c10::Storage&& storage, c10::ScalarType dtype) {
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::make_tensor<SpyreTensorImpl>(std::move(storage), keys,
                                                  c10::scalarTypeToTypeMeta(dtype));
}

void check_options(c10::optional<c10::Layout> layout, c10::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK(layout.value_or(c10::Layout::Strided) == c10::Layout::Strided,
              "spyre tensors are strided; the layout ", layout.value_or(c10::Layout::Strided),
              " is not supported");
}

c10::DeviceIndex index_of(const c10::optional<c10::Device>& device) {
  return device.has_value() ? spyre::index_of(*device)
                            : static_cast<c10::DeviceIndex>(spyre_current_device());
}

void fill_if_deterministic(const Tensor& tensor) {
  auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() &&
                   context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(const_cast<Tensor&>(tensor));
  }
}

Tensor new_tensor(IntArrayRef sizes, IntArrayRef strides, c10::ScalarType dtype,
                  c10::DeviceIndex index, int64_t host_bytes) {
  const SpyreView view = shape_view(sizes, strides, dtype);
  Tensor tensor = make_tensor(new_storage(index, host_bytes, &view), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  fill_if_deterministic(tensor);
  return tensor;
}

Tensor empty(IntArrayRef sizes, c10::optional<c10::ScalarType> dtype_or_none,
             c10::optional<c10::Layout> layout, c10::optional<c10::Device> device,
             c10::optional<bool> pin_memory, c10::optional<c10::MemoryFormat> format_or_none) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(sizes);
  const auto dtype = dtype_or_none.value_or(c10::get_default_dtype_as_scalartype());
  const auto bytes = static_cast<int64_t>(at::detail::computeStorageNbytesContiguous(
      sizes, c10::elementSize(dtype)));
  const auto format = format_or_none.value_or(c10::MemoryFormat::Contiguous);
  c10::SmallVector<int64_t, 8> strides(sizes.size());
  // There is nothing to preserve of a tensor that is made.
  if (C10_LIKELY(format == c10::MemoryFormat::Contiguous || format == c10::MemoryFormat::Preserve)) {
    int64_t stride = 1;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      strides[dim] = stride;
      stride *= std::max<int64_t>(sizes[dim], 1);
    }
  } else {
    TORCH_CHECK(!spyre_is_card_profile(),
                "Spyre backend only supports contiguous memory format");
    const auto given = format == c10::MemoryFormat::ChannelsLast
        ? c10::get_channels_last_strides_2d(sizes)
        : c10::get_channels_last_strides_3d(sizes);
    strides.assign(given.begin(), given.end());
  }
  return new_tensor(sizes, strides, dtype, index_of(device), bytes);
}

Tensor spyre_empty_strided(IntArrayRef sizes, IntArrayRef strides,
                           c10::optional<c10::ScalarType> dtype_or_none,
                           c10::optional<c10::Layout> layout, c10::optional<c10::Device> device,
                           c10::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(sizes);
  TORCH_CHECK(sizes.size() == strides.size(), "dimensionality of sizes (", sizes.size(),
              ") must match dimensionality of strides (", strides.size(), ")");
  for (const auto stride : strides) {
    TORCH_CHECK(stride >= 0, "Tensor: invalid stride ", stride, ": negative strides are not supported");
  }
  const auto dtype = dtype_or_none.value_or(c10::get_default_dtype_as_scalartype());
  const auto bytes = static_cast<int64_t>(at::detail::computeStorageNbytes(
      sizes, strides, c10::elementSize(dtype)));
  return new_tensor(sizes, strides, dtype, index_of(device), bytes);
}

// A view of a tensor with a layout of its own has that layout, too.
Tensor with_layout_of(const Tensor& self, Tensor view) {
  const LayoutPointer layout = own_layout(self);
  if (C10_LIKELY(layout == nullptr)) {
    return view;
  }
  Tensor result = at::detail::make_tensor<SpyreTensorImpl>(
      c10::Storage(view.storage()), view.key_set(), view.dtype());
  auto* impl = static_cast<SpyreTensorImpl*>(result.unsafeGetTensorImpl());
  impl->set_sizes_and_strides(view.sizes(), view.strides(), view.storage_offset());
  impl->layout = LayoutRef(spyre_layout_clone(layout));
  return result;
}

Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride,
                  c10::optional<int64_t> offset) {
  return with_layout_of(self, at::native::as_strided_tensorimpl(self, size, stride, offset));
}

Tensor view(const Tensor& self, IntArrayRef size) {
  return with_layout_of(self, at::native::view(self, size));
}

// The same bits as another dtype: refused where the card keeps other bits than the host.
Tensor view_dtype(const Tensor& self, c10::ScalarType dtype) {
  Tensor result = with_layout_of(self, at::native::view_dtype(self, dtype));
  if (spyre_is_card_profile() && result.numel() > 0) {
    const SpyreView view = view_of(result);
    check(spyre_check_view(&view));
  }
  return result;
}

Tensor view_as_real(const Tensor& self) {
  return with_layout_of(self, at::native::view_as_real(self));
}

Tensor view_as_complex(const Tensor& self) {
  return with_layout_of(self, at::native::view_as_complex(self));
}

Tensor reshape_alias(const Tensor& self, IntArrayRef size, IntArrayRef stride) {
  return with_layout_of(self, at::native::_reshape_alias(self, size, stride));
}

Tensor unfold(const Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return with_layout_of(self, at::native::unfold(self, dim, size, step));
}

Tensor alias(const Tensor& self) {
  return with_layout_of(self, at::native::alias(self));
}

// Gives a tensor's storage at least the bytes that it reaches.
void reach_storage(const Tensor& self) {
  auto* impl = self.unsafeGetTensorImpl();
  if (impl->numel() == 0) {
    return;
  }
  const auto bytes = static_cast<int64_t>(at::detail::computeStorageNbytes(
      impl->sizes(), impl->strides(), impl->itemsize(), impl->storage_offset()));
  if (!impl->unsafe_storage()) {
    const SpyreView view = shape_view(impl->sizes(), impl->strides(), self.scalar_type());
    impl->set_storage_keep_dtype(new_storage(impl->device().index(), bytes, &view));
    return;
  }
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > static_cast<int64_t>(storage->nbytes())) {
    const SpyreView view = shape_view(impl->sizes(), impl->strides(), self.scalar_type());
    resize_storage(storage, bytes, impl->storage_offset() == 0 ? &view : nullptr);
  }
}

const Tensor& resize_(const Tensor& self, IntArrayRef size,
                      c10::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(size);
  const c10::OptionalDeviceGuard guard(self.device());
  auto* impl = self.unsafeGetTensorImpl();
  const auto before = impl->unsafe_storage() ? impl->unsafe_storage().nbytes() : 0;
  if (impl->sizes() != size) {
    impl->set_sizes_contiguous(size);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    TORCH_CHECK(*format == c10::MemoryFormat::Contiguous || !spyre_is_card_profile(),
                "Spyre backend only supports contiguous memory format");
    impl->empty_tensor_restride(*format);
  }
  reach_storage(self);
  auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() &&
                   context.deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(before));
  }
  return self;
}

Tensor& set_source_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef size,
                           IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  const c10::OptionalDeviceGuard guard(self.device());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() != nullptr || size.empty()) {
    impl->set_sizes_and_strides(size, stride, offset);
  } else {
    impl->set_sizes_contiguous(size);
  }
  reach_storage(self);
  // The storage of a wrapper has no memory that could be laid out.
  if (impl->numel() > 0 && impl->unsafe_storage().data() != nullptr) {
    const SpyreView view = view_of(self);
    check(spyre_adopt(&view, static_cast<int64_t>(impl->unsafe_storage().nbytes())));
  }
  return self;
}

Tensor& set_(Tensor& self) {
  const auto index = spyre::index_of(self.device());
  return set_source_storage(self, new_storage(index, 0, nullptr), 0, {0}, {});
}

void copy_memory(const Tensor& self, const Tensor& source, bool non_blocking);

// Copies to a tensor whose elements share places: the CPU says which of them stays.
void copy_by_row(const Tensor& self, const Tensor& source) {
  const auto elements = static_cast<int64_t>(self.storage().nbytes() / self.itemsize());
  const Tensor row = at::native::as_strided_tensorimpl(self, {elements}, {1}, 0);
  const Tensor host = at::empty({elements}, self.options().device(at::kCPU));
  copy_memory(host, row, false);
  at::native::as_strided_tensorimpl(host, self.sizes(), self.strides(), self.storage_offset()).copy_(source);
  copy_memory(row, host, false);
}

// Copies between complex and real numbers, or complex numbers of two widths, as pairs of real ones.
bool copy_by_parts(const Tensor& self, const Tensor& source) {
  const bool to_complex = self.is_complex();
  if (!to_complex && !source.is_complex()) {
    return false;
  }
  if (self.scalar_type() == at::kBool) {
    // Numbers whose second part alone is not zero are true, too.
    copy_memory(self, at::view_as_real(source).ne(0).any(-1), false);
    return true;
  }
  const auto dtype = to_complex ? c10::toRealValueType(self.scalar_type()) : self.scalar_type();
  const Tensor real = source.is_complex() ? at::view_as_real(source).contiguous().to(dtype) : source.to(dtype);
  if (!to_complex) {
    copy_memory(self, real.select(-1, 0), false);
    return true;
  }
  // Parts of new memory lie side by side; those of the target may not.
  const Tensor made = at::empty(self.sizes(), self.options());
  const Tensor parts = at::view_as_real(made);
  if (source.is_complex()) {
    copy_memory(parts, real, false);
  } else {
    copy_memory(parts.select(-1, 0), real, false);
    parts.select(-1, 1).zero_();
  }
  copy_memory(self, made, false);
  return true;
}

// Whether the device copied one to the other.
bool is_copied(const Tensor& self, const Tensor& source) {
  const SpyreView from = view_of(source);
  const SpyreView to = view_of(self);
  const SpyreStatus status = spyre_copy(&from, &to, false);
  if (status == SpyreStatus::Unsupported) {
    return false;
  }
  check(status);
  return true;
}

// Casts by a kernel: what the card stores in formats of its own is not for copies to convert.
bool cast_by_kernel(const Tensor& self, const Tensor& source) {
  static const int32_t op = op_named("spyre::cast");
  return !self.is_complex() && !source.is_complex() && call_native(op, {source, self}, {1}).has_value();
}

// Casts by way of new memory: a view of a storage of another dtype, such as the parts of complex numbers, is
// copied by the device, but not cast.
bool cast_by_copies(const Tensor& self, const Tensor& source) {
  const Tensor given = at::empty(source.sizes(), source.options());
  const Tensor made = at::empty(self.sizes(), self.options());
  return is_copied(given, source) && is_copied(made, given) && is_copied(self, made);
}

// Copies what lies in memory: conj and neg bits are the caller's.
void copy_memory(const Tensor& self, const Tensor& source, bool non_blocking) {
  const bool to_device = self.device().type() == kSpyre;
  const bool from_device = source.device().type() == kSpyre;
  if (to_device && !from_device) {
    if (self.scalar_type() == at::kLong && spyre_is_card_profile() &&
        spyre_warns_of_downcasts()) {
      TORCH_WARN_ONCE("The spyre card does not support int64: values are stored as int32");
    }
    const bool is_same = source.scalar_type() == self.scalar_type();
    const Tensor converted = is_same ? source : source.to(self.scalar_type());
    const SpyreView from = host_view(converted, false);
    const SpyreView to = view_of(self);
    const SpyreStatus status = spyre_copy(&from, &to, non_blocking);
    if (C10_UNLIKELY(status == SpyreStatus::Unsupported)) {
      return copy_by_row(self, converted);
    }
    check(status);
  } else if (from_device && !to_device) {
    const SpyreView from = view_of(source);
    if (source.scalar_type() == self.scalar_type()) {
      const SpyreView to = host_view(self, true);
      const SpyreStatus status = spyre_copy(&from, &to, non_blocking);
      if (C10_LIKELY(status != SpyreStatus::Unsupported)) {
        return check(status);
      }
    }
    const Tensor host = at::empty(source.sizes(), source.options().device(at::kCPU));
    const SpyreView to = host_view(host, true);
    check(spyre_copy(&from, &to, false));
    self.copy_(host);
  } else {
    const SpyreView from = view_of(source);
    const SpyreView to = view_of(self);
    const SpyreStatus status = spyre_copy(&from, &to, non_blocking);
    if (status != SpyreStatus::Unsupported) {
      return check(status);
    }
    const bool is_cast = self.scalar_type() != source.scalar_type();
    const auto cast = spyre_is_card_profile() ? cast_by_kernel : cast_by_copies;
    if (is_cast && (copy_by_parts(self, source) || cast(self, source))) {
      return;
    }
    if (is_cast && spyre_is_card_profile()) {
      check(spyre_fallback("aten::copy_"));
    }
    const Tensor host = at::empty(source.sizes(), source.options().device(at::kCPU));
    const SpyreView between = host_view(host, true);
    check(spyre_copy(&from, &between, false));
    copy_memory(self, host, false);
  }
}

// A tensor's memory without its bits.
Tensor without_bits(const Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) {
    return tensor;
  }
  Tensor plain = tensor.device().type() == kSpyre ? with_layout_of(tensor, at::native::alias(tensor)) : tensor.alias();
  plain._set_conj(false);
  plain._set_neg(false);
  return plain;
}

// Copies on the device between tensors whose bits differ, and applies them there.
void copy_and_turn(const Tensor& self, const Tensor& source) {
  const Tensor made = at::empty(self.sizes(), self.options());
  copy_memory(made, without_bits(source), false);
  const Tensor parts = made.is_complex() ? at::view_as_real(made) : made;
  if (self.is_neg() != source.is_neg()) {
    parts.neg_();
  }
  if (self.is_conj() != source.is_conj()) {
    parts.select(-1, 1).neg_();
  }
  copy_memory(without_bits(self), made, false);
}

// Copies between tensors whose bits differ: the CPU's copy applies them, in the order that it has.
void copy_with_bits(const Tensor& self, const Tensor& source) {
  const bool is_here = self.device().type() == kSpyre && source.device() == self.device();
  if (is_here && self.scalar_type() == source.scalar_type()) {
    return copy_and_turn(self, source);
  }
  Tensor host = source;
  if (source.device().type() == kSpyre) {
    host = at::empty(source.sizes(), source.options().device(at::kCPU));
    copy_memory(host, without_bits(source), false);
    host._set_conj(source.is_conj());
    host._set_neg(source.is_neg());
  }
  if (self.device().type() != kSpyre) {
    const_cast<Tensor&>(self).copy_(host);
    return;
  }
  Tensor bits = at::empty(self.sizes(), self.options().device(at::kCPU));
  bits._set_conj(self.is_conj());
  bits._set_neg(self.is_neg());
  bits.copy_(host);
  copy_memory(without_bits(self), without_bits(bits), false);
}

// What the card converts on the way to its memory; the rest is the host's to convert first, or a kernel's.
bool card_converts(c10::ScalarType from, c10::ScalarType to) {
  using c10::ScalarType;
  switch (from) {
    case ScalarType::Half:
      return to == ScalarType::Bool || to == ScalarType::BFloat16 || to == ScalarType::Float;
    case ScalarType::Float:
      return to == ScalarType::Half || to == ScalarType::BFloat16;
    case ScalarType::BFloat16:
      return to == ScalarType::Half || to == ScalarType::Float;
    case ScalarType::Bool:
    case ScalarType::Float8_e4m3fn:
      return to == ScalarType::Half;
    default:
      return false;
  }
}

// What the card cannot convert on its way there is refused; what is there already is a kernel's to convert.
void check_card_converts(const Tensor& self, const Tensor& source) {
  const bool is_brought = self.device().type() == kSpyre && source.device().type() != kSpyre;
  TORCH_CHECK(!is_brought || card_converts(source.scalar_type(), self.scalar_type()),
              "Spyre backend does not support dtype conversion from ", source.scalar_type(), " to ",
              self.scalar_type(), ": convert it on the CPU");
}

bool is_copyable(const Tensor& tensor) {
  const auto type = tensor.device().type();
  return (type == kSpyre || type == at::kCPU) && tensor.layout() == c10::kStrided;
}

// Types whose bits have no meaning as numbers: of fewer than eight bits, and raw bits.
bool is_opaque(c10::ScalarType type) {
  return (type >= c10::ScalarType::UInt1 && type <= c10::ScalarType::Int7) ||
      (type >= c10::ScalarType::Bits1x8 && type <= c10::ScalarType::Bits16) ||
      type == c10::ScalarType::Float4_e2m1fn_x2;
}

void check_conversion(const Tensor& self, const Tensor& source) {
  const bool is_from = is_opaque(source.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(!is_from && !is_opaque(self.scalar_type()), "\"copy_\" not implemented for '",
                              is_from ? source.scalar_type() : self.scalar_type(), "': a conversion from ",
                              source.scalar_type(), " to ", self.scalar_type(),
                              " is defined on no device; pack the numbers in uint8 and view() them");
}

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  TORCH_CHECK(self.defined(), "self is undefined");
  TORCH_CHECK(source.defined(), "src is undefined");
  if (self.is_same(source)) {
    return self;
  }
  TORCH_CHECK(is_copyable(self) && is_copyable(source), "a copy from ", source.layout(), " ",
              source.device(), " to ", self.layout(), " ", self.device(), " is not supported");
  at::assert_no_internal_overlap(self);
  if (C10_UNLIKELY(self.is_alias_of(source))) {
    at::assert_no_partial_overlap(self, source);
  }
  if (C10_UNLIKELY(self.scalar_type() != source.scalar_type())) {
    check_conversion(self, source);
    if (spyre_is_card_profile()) {
      check_card_converts(self, source);
    }
  }
  c10::MaybeOwned<Tensor> expanded = c10::MaybeOwned<Tensor>::borrowed(source);
  if (self.sizes() != source.sizes()) {
    expanded = at::expand_inplace(self, source, "copy");
  }
  if (self.numel() == 0) {
    return self;
  }
  const Tensor& from = *expanded;
  if (self.device() == from.device()) {
    at::assert_no_partial_overlap(self, from);
  }
  const bool has_bits = self.is_conj() || self.is_neg() || from.is_conj() || from.is_neg();
  if (C10_LIKELY(!has_bits)) {
    copy_memory(self, from, non_blocking);
  } else if (self.is_conj() == from.is_conj() && self.is_neg() == from.is_neg() &&
             self.scalar_type() == from.scalar_type()) {
    copy_memory(without_bits(self), without_bits(from), non_blocking);
  } else {
    copy_with_bits(self, from);
  }
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& target, bool non_blocking) {
  Tensor result = target;
  return copy_(result, self, non_blocking);
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& target) {
  if (self.sizes() != target.sizes()) {
    target.resize_(self.sizes());
  }
  Tensor result = target;
  return copy_(result, self, false);
}

at::Scalar local_scalar_dense(const Tensor& self) {
  alignas(16) char element[16] = {};
  const SpyreView from = view_of(self);
  const SpyreView to{element, self.sizes().data(), self.strides().data(), self.dim(), 0, nullptr,
                     from.dtype, SpyreMemoryKind::Host};
  spyre_note_read();
  check(spyre_copy(&from, &to, false));
  at::Scalar scalar;
  AT_DISPATCH_V2(
      self.scalar_type(), "_local_scalar_dense_spyre", AT_WRAP([&] {
        scalar_t value;
        std::memcpy(&value, element, sizeof(value));
        scalar = at::Scalar(value);
      }),
      AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16,
      AT_EXPAND(AT_FLOAT8_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
  return scalar;
}

Tensor& conj_physical_(Tensor& self) {
  if (self.is_complex()) {
    at::view_as_real(self).select(-1, 1).neg_();
  }
  return self;
}

// Whether a tensor may become what another one is, as `parameter.data = other` has it: host and device take over
// from each other, as they do for CUDA. A layout of its own needs a tensor that can hold one.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  const auto is_dense = [](c10::DispatchKeySet keys) {
    constexpr c10::DispatchKeySet devices({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
    return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && keys.has_any(devices);
  };
  const auto* impl = self.unsafeGetTensorImpl();
  const bool holds_layouts = own_layout(from) == nullptr || typeid(*impl) == typeid(SpyreTensorImpl);
  return (is_dense(self.key_set()) && is_dense(from.key_set()) && holds_layouts) ||
      at::native::_has_compatible_shallow_copy_type(self, from);
}

void record_stream(Tensor& self, c10::Stream stream) {
  if (self.storage().data() != nullptr) {
    check(spyre_record_stream(self.storage().data(), stream.device_index(), stream.id()));
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(spyre_empty_strided));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(view));
  m.impl("view.dtype", TORCH_FN(view_dtype));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("unfold", TORCH_FN(unfold));
  m.impl("alias", TORCH_FN(alias));
  m.impl("view_as_real", TORCH_FN(view_as_real));
  m.impl("view_as_complex", TORCH_FN(view_as_complex));
  m.impl("_nested_view_from_buffer", TORCH_FN(at::native::_nested_view_from_buffer));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage", TORCH_FN(static_cast<Tensor& (*)(Tensor&, at::Storage)>(at::native::set_)));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_source_storage));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", TORCH_FN(set_));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("conj_physical_", TORCH_FN(conj_physical_));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  m.impl("record_stream", TORCH_FN(record_stream));
}

// These see the bits themselves: to resolve them first would copy, and copy again without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

} // namespace

SpyreView view_of(const Tensor& tensor) {
  return {const_cast<void*>(tensor.storage().data()), tensor.sizes().data(), tensor.strides().data(),
          tensor.dim(), tensor.storage_offset(), own_layout(tensor),
          static_cast<int32_t>(tensor.scalar_type()), SpyreMemoryKind::Device};
}

Tensor tensor_of(c10::DeviceIndex device, const SpyreResult& result) {
  Tensor tensor = make_tensor(storage_of(device, result.host_bytes, result.memory),
                              static_cast<c10::ScalarType>(result.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(IntArrayRef(result.sizes, result.dim),
                                                      IntArrayRef(result.strides, result.dim));
  return tensor;
}

} // namespace spyre
