// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "anyop/runtime.h"
#include "anyop/storage.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "runtime/device/device.h"
#include "runtime/memory/copy.h"
#include "runtime/run/device_copy.h"
#include "signature/expression.h"

namespace anyop {
namespace {

constexpr std::int64_t kAlignment = 64;  // a cache line, and the widest vector of AVX-512

// Given back in the order of the stream that it was made for, which is kept alive until then.
std::shared_ptr<void> AllocateOn(Device device, std::int64_t bytes) {
  struct Held {  // members end in reverse: the memory is given back while the stream is there
    std::shared_ptr<StreamState> stream;
    DeviceMemory memory;
  };
  const DeviceKind& kind = CheckedKindOf(device.dl());
  const int number = device.dl().device_id;
  auto held = std::make_shared<Held>(
      Held{HoldCurrentStream(kind, number),
           DeviceMemory(kind, number, std::uint64_t(std::max<std::int64_t>(bytes, 1)))});
  void* const data = held->memory.data();
  return {std::move(held), data};
}

std::shared_ptr<void> Allocate(std::int64_t bytes) {
  // aligned_alloc takes multiples of the alignment. Of no bytes it may give null, which here means
  // that there is no memory.
  const std::int64_t rounded = std::max(AlignBytes(bytes, kAlignment), kAlignment);
  void* p = bytes > kMostBytes ? nullptr : std::aligned_alloc(kAlignment, std::size_t(rounded));
  if (!p)
    Fail(ANYOP_OUT_OF_MEMORY, "no memory for an array of " + std::to_string(bytes) + " bytes.");
  return {p, &std::free};
}

std::int64_t CheckedBytes(Array::Shape shape, DType dtype) {
  for (std::int64_t n : shape) {
    if (n < 0) {
      Fail(ANYOP_INVALID_ARGUMENT,
           "an array's size is " + std::to_string(n) + ", but must be 0 or more.");
    }
  }
  const std::int64_t bytes = TensorBytes(Bytes(dtype), shape);
  if (bytes == kTooManyBytes) {
    std::string sizes;
    for (const std::int64_t n : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(n);
    Fail(ANYOP_OUT_OF_MEMORY, "an array is [" + sizes + "] of " + std::string(Name(dtype)) +
                                  ", but its bytes must be below 2^63.");
  }
  return bytes;
}

}  // namespace

Array::Layout& Array::Layout::operator=(const Layout& other) {
  tensor = other.tensor;
  std::copy_n(other.shape, kMaxRank, shape);
  std::copy_n(other.strides, kMaxRank, strides);
  tensor.shape = shape;
  if (other.tensor.strides) tensor.strides = strides;
  return *this;
}

// Pointers are set when the layout changes, so that reading an array writes nothing: threads may
// share a const one.
void Array::Layout::Connect() {
  tensor.shape = shape;
  tensor.strides = strides;
  if (tensor.is_contiguous()) tensor.strides = nullptr;
}

void Array::SetLayout(Shape shape, Shape strides) {
  if (shape.size() > kMaxRank || (!strides.empty() && strides.size() != shape.size())) {
    Fail(ANYOP_INVALID_ARGUMENT,
         "an array has " + std::to_string(shape.size()) +
             " dimensions, but at most 8 are possible, each with a stride.");
  }
  layout_.tensor.ndim = int(shape.size());
  std::int64_t run = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    const std::size_t k = std::size_t(i);
    layout_.shape[i] = shape[k];
    layout_.strides[i] = strides.empty() ? run : strides[k];
    run *= shape[k];
  }
  layout_.Connect();
}

Array Array::Empty(Shape shape, DType dtype, Device device) {
  const std::int64_t bytes = CheckedBytes(shape, dtype);
  std::shared_ptr<void> owner = device.is_host() ? Allocate(bytes) : AllocateOn(device, bytes);
  Array a = Wrap(nullptr, shape, dtype, {}, std::move(owner));
  a.layout_.tensor.data = a.owner_.get();
  a.layout_.tensor.device = device.dl();
  return a;
}

Array Array::Zeros(Shape shape, DType dtype, Device device) {
  if (!device.is_host()) return Full(shape, dtype, 0, device);
  Array a = Empty(shape, dtype);
  std::memset(a.data(), 0, std::size_t(a.bytes()));
  return a;
}

Array Array::Full(Shape shape, DType dtype, double value, Device device) {
  Array a = Empty(shape, dtype, device);
  if (!device.is_host()) {
    const Array one = Full({1}, dtype, value);
    FillOnDevice(a.tensor(), one.data());
    return a;
  }
  VisitStorage(dtype, [&](auto zero) {
    using E = decltype(zero);
    E element;
    if constexpr (requires { element.re; }) {
      element = {decltype(element.re)(value), 0};
    } else if constexpr (std::is_same_v<E, F4E2M1X2>) {
      element = {std::uint8_t(value)};
    } else if constexpr (std::is_class_v<E>) {
      element = E(float(value));
    } else {
      element = E(value);
    }
    std::fill_n(a.data<E>(), a.size(), element);
  });
  return a;
}

Array Array::Wrap(void* data, Shape shape, DType dtype, Shape strides,
                  std::shared_ptr<void> owner) {
  CheckedBytes(shape, dtype);
  Array a;
  a.SetLayout(shape, strides);
  a.layout_.tensor.data = data;
  a.layout_.tensor.dtype = ToDL(dtype);
  a.owner_ = std::move(owner);
  return a;
}

Array Array::Wrap(const DLTensor& t, std::shared_ptr<void> owner) {
  const int dtype = FromDL(t.dtype);
  if (dtype < 0) Fail(ANYOP_INVALID_ARGUMENT, "the tensor has a dtype that anyop does not know.");
  if (!Device(t.device).is_host()) {
    const DeviceKind* const kind = FindDeviceKind(t.device.device_type);
    if (!kind) {
      Fail(ANYOP_INVALID_ARGUMENT, "the tensor is on " + Device(t.device).name() +
                                       ", but must be in CPU memory. Try a copy on the CPU.");
    }
    kind->CheckNumber(t.device.device_id);
  }
  const std::size_t rank = std::size_t(std::max(t.ndim, 0));
  Array a = Wrap(BaseOf(t), Shape(t.shape, rank), DType(dtype),
                 t.strides ? Shape(t.strides, rank) : Shape(), std::move(owner));
  a.layout_.tensor.device = t.device;
  return a;
}

Array Array::FromDLPack(DLManagedTensor* managed) {
  // First of all, so that the deleter is called where Wrap refuses the tensor, too.
  std::shared_ptr<void> owner(managed, [](void* p) {
    auto* m = static_cast<DLManagedTensor*>(p);
    if (m->deleter) m->deleter(m);
  });
  return Wrap(managed->dl_tensor, std::move(owner));
}

DLManagedTensor* Array::ToDLPack() const {
  struct Exported {
    DLManagedTensor managed;
    Array array;
  };
  auto* e = new Exported{{}, *this};
  e->managed.dl_tensor = e->array.tensor();
  // Null means contiguous, but older readers of DLPack want strides.
  e->managed.dl_tensor.strides = e->array.layout_.strides;
  e->managed.manager_ctx = e;
  e->managed.deleter = [](DLManagedTensor* m) { delete static_cast<Exported*>(m->manager_ctx); };
  return &e->managed;
}

Array Array::Slice(int dimension, std::int64_t begin, std::int64_t end) const {
  if (dimension < 0) dimension += rank();
  if (dimension < 0 || dimension >= rank() || begin < 0 || end < begin || end > dim(dimension)) {
    Fail(ANYOP_INVALID_ARGUMENT,
         "the slice " + std::to_string(begin) + " to " + std::to_string(end) + " of dimension " +
             std::to_string(dimension) + " does not lie within " + Show(tensor()) + ".");
  }
  Array a = *this;
  a.layout_.shape[dimension] = end - begin;
  a.layout_.tensor.byte_offset += std::uint64_t(begin * stride(dimension) * Bytes(dtype()));
  a.layout_.Connect();
  return a;
}

Array Array::Transpose(int x, int y) const {
  if (x < 0) x += rank();
  if (y < 0) y += rank();
  if (x < 0 || y < 0 || x >= rank() || y >= rank()) {
    Fail(ANYOP_INVALID_ARGUMENT, Show(tensor()) + " has no such dimensions to transpose.");
  }
  Array a = *this;
  std::swap(a.layout_.shape[x], a.layout_.shape[y]);
  std::swap(a.layout_.strides[x], a.layout_.strides[y]);
  a.layout_.Connect();
  return a;
}

Array Array::Reshape(Shape shape) const {
  if (!is_contiguous() || CheckedBytes(shape, dtype()) != bytes()) {
    Fail(ANYOP_INVALID_ARGUMENT, Show(tensor()) +
                                     " cannot be seen in this shape: it must be "
                                     "contiguous and have as many elements.");
  }
  Array a = *this;
  a.SetLayout(shape, {});
  return a;
}

Array Array::Clone() const {
  if (is_none()) return {};
  Array a = Empty(shape(), dtype(), device());
  if (device().is_host()) {
    CopyToPacked(tensor(), a.data());
  } else {
    PackOnDevice(tensor(), a.data());
  }
  return a;
}

Array Array::On(Device to) const {
  if (is_none() || to == device()) return *this;
  // By way of the host: two devices may be of two libraries, which know their own memory alone.
  if (!to.is_host() && !device().is_host()) return On(Device()).On(to);
  Array a = Empty(shape(), dtype(), to);
  const Array packed = !to.is_host() && !is_contiguous() ? Clone() : *this;
  try {
    to.is_host() ? CopyToHost(tensor(), a.data()) : CopyFromHost(packed.data(), a.tensor());
  } catch (const StillCopying&) {
    for (const Array& kept : {a, packed}) new Array(kept);  // never freed: a copy may still use it
    throw;
  }
  return a;
}

}  // namespace anyop
