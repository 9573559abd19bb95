// SPDX-License-Identifier: Apache-2.0
// Calling operators from C++, and owning their data. Every function throws anyop::Error.
//
//   Array x = Array::Zeros({2, 64}, DType::kF32), w = Array::Full({64}, DType::kF32, 1);
//   Array y = Call("rms_norm", x, w);                      // allocates y; defaults filled in
//   Call("rms_norm", x, w, Named{"eps", 1e-5}).into(y);    // writes y
//   { Scope scope; scope.policy("rms_norm=cpu_portable"); ... } // until the end of the block
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "anyop/dtype.h"
#include "anyop/error.h"
#include "anyop/scope.h"
#include "anyop/stream.h"
#include "anyop/tensor.h"
#include "anyop/value.h"

// The exchange struct of DLPack, whose deleter releases the owner.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

namespace anyop {

struct Operator;

// Loads an operator library (a shared object). NotAvailable: no such file, no operator library,
// built for a newer boundary. InvalidArgument: contradicts what is registered. A file name alone
// that is not here is one of the devices that come with anyop: "anyop_ascend_device.so".
void Load(const std::string& path);
// "anyop.rms_norm", or "rms_norm" for anyop's own. NotAvailable names the nearest.
Operator* Find(std::string_view name);

// A tensor whose memory is shared by reference count. Copies and views share it; a view of a const
// Array can write. At most 8 dimensions; strides in elements.
class Array {
 public:
  static constexpr int kMaxRank = 8;
  using Shape = std::span<const std::int64_t>;

  Array() = default;  // no tensor: is_none()
  // Contiguous, 64-byte aligned. Empty leaves the elements uninitialized. On a device they are for
  // work on its current stream: an event orders work on another one.
  static Array Empty(Shape shape, DType dtype, Device device = {});
  static Array Zeros(Shape shape, DType dtype, Device device = {});
  static Array Full(Shape shape, DType dtype, double value, Device device = {});
  static Array Empty(std::initializer_list<std::int64_t> shape, DType dtype, Device device = {}) {
    return Empty(Shape(shape.begin(), shape.size()), dtype, device);
  }
  static Array Zeros(std::initializer_list<std::int64_t> shape, DType dtype, Device device = {}) {
    return Zeros(Shape(shape.begin(), shape.size()), dtype, device);
  }
  static Array Full(std::initializer_list<std::int64_t> shape, DType dtype, double value,
                    Device device = {}) {
    return Full(Shape(shape.begin(), shape.size()), dtype, value, device);
  }
  // Memory of someone else, kept alive by `owner` (may be null: the caller keeps it). strides: in
  // elements, {} for contiguous.
  static Array Wrap(void* data, Shape shape, DType dtype, Shape strides = {},
                    std::shared_ptr<void> owner = nullptr);
  static Array Wrap(const DLTensor& tensor, std::shared_ptr<void> owner = nullptr);
  // Takes the tensor over; its deleter runs when the last view is gone.
  static Array FromDLPack(DLManagedTensor* tensor);
  // Shares this memory; the caller runs the deleter.
  DLManagedTensor* ToDLPack() const;

  bool is_none() const { return tensor().ndim < 0; }
  DType dtype() const { return tensor().type(); }
  int rank() const { return tensor().ndim; }
  std::int64_t dim(int i) const { return layout_.shape[i < 0 ? rank() + i : i]; }
  std::int64_t stride(int i) const { return layout_.strides[i < 0 ? rank() + i : i]; }
  Shape shape() const { return {layout_.shape, std::size_t(rank())}; }
  Shape strides() const { return {layout_.strides, std::size_t(rank())}; }
  std::int64_t size() const { return tensor().size(); }
  std::int64_t bytes() const { return is_none() ? 0 : size() * Bytes(dtype()); }
  bool is_contiguous() const { return tensor().is_contiguous(); }
  void* data() const { return BaseOf(tensor()); }
  template <class T>
  T* data() const {
    return static_cast<T*>(data());
  }
  // The element at these indices; no bounds are checked.
  template <class T, std::integral... I>
  T& at(I... index) const {
    return *tensor().at<T>(index...);
  }
  // Valid as long as this object.
  const Tensor& tensor() const { return layout_.tensor; }

  // Views. Throw InvalidArgument where the range or shape does not fit.
  Array Slice(int dimension, std::int64_t begin, std::int64_t end) const;
  Array Transpose(int a, int b) const;
  Array Reshape(Shape shape) const;  // of contiguous memory
  Array Reshape(std::initializer_list<std::int64_t> shape) const {
    return Reshape(Shape(shape.begin(), shape.size()));
  }
  Array Clone() const;  // a contiguous copy
  // A contiguous copy on a device, or on the host; this one if it lies there. To and from the host
  // it waits for the work on the current stream, whose late error it throws.
  Array On(Device device) const;
  Device device() const { return tensor().device; }

 private:
  // A tensor whose sizes and strides are its own, in a copy too. Reading changes nothing: threads
  // may share a const Array.
  struct Layout {
    Tensor tensor{{nullptr, kHostDevice, -1, {}, nullptr, nullptr, 0}};
    std::int64_t shape[kMaxRank]{};
    std::int64_t strides[kMaxRank]{};

    Layout() = default;
    Layout(const Layout& other) { *this = other; }
    Layout& operator=(const Layout& other);
    // Called after a change of sizes or strides. The tensor of a contiguous array has null for its
    // strides.
    void Connect();
  };

  void SetLayout(Shape shape, Shape strides);

  Layout layout_;
  std::shared_ptr<void> owner_;
};

// An argument of a call. It refers to the value that it was made of, which must live until the end
// of the call.
class Argument {
 public:
  Argument(std::nullopt_t) : value_{} {}
  Argument(std::nullptr_t) : value_{} {}
  Argument(const Array& a) : value_(a.is_none() ? anyop_value{} : TensorValue(&a.tensor())) {}
  Argument(const DLTensor& t) : value_(TensorValue(&t)) {}
  Argument(bool b) : value_(BoolValue(b)) {}
  template <std::integral T>
  Argument(T i) : value_(IntValue(std::int64_t(i))) {}
  template <std::floating_point T>
  Argument(T f) : value_(FloatValue(double(f))) {}
  Argument(DType d) : value_(DTypeValue(d)) {}
  Argument(const char* word) : Argument(std::string_view(word)) {}
  // Its number is not known here: the call looks it up in the operator's signature.
  Argument(std::string_view word) : value_(WordValue(word, 0)) {}
  Argument(std::span<const std::int64_t> list) : value_(IntsValue(list.data(), list.size())) {}
  Argument(const std::vector<std::int64_t>& list) : Argument(std::span(list)) {}
  Argument(std::initializer_list<std::int64_t> list)
      : Argument(std::span(list.begin(), list.size())) {}
  Argument(std::span<const double> list) : value_(FloatsValue(list.data(), list.size())) {}
  Argument(const std::vector<double>& list) : Argument(std::span(list)) {}
  Argument(std::span<const Array> list) : value_{} { SetArrays(list); }
  Argument(const std::vector<Array>& list) : Argument(std::span(list)) {}
  template <class T>
  Argument(const std::optional<T>& o) : Argument(o ? Argument(*o) : Argument(std::nullopt)) {}

  const anyop_value& value() const { return value_; }
  const char* name() const { return name_; }

 protected:
  const char* name_ = nullptr;

 private:
  void SetArrays(std::span<const Array> list);

  anyop_value value_;
  std::shared_ptr<const DLTensor*[]> tensors_;  // of a list of arrays
};

// An argument by its parameter's name.
class Named : public Argument {
 public:
  template <class T>
  Named(const char* name, const T& value) : Argument(value) {
    name_ = name;
  }
};

namespace detail {
// given: the results of the caller (none: allocated, or declined if declines), in signature order.
void RunCall(Operator& op, std::span<const Argument> args, std::span<const Array* const> given,
             std::vector<Array>* results);
std::string ExplainCall(Operator& op, std::span<const Argument> args);
}  // namespace detail

// A call with its arguments; made by Call, done by one of its members.
template <std::size_t N>
class [[nodiscard]] PendingCall {
 public:
  template <class... A>
  // Makes the arguments where they stay: 48 ns for a call that takes 54 where they are moved.
  explicit PendingCall(Operator& op, const A&... args) : op_(op), args_{Argument(args)...} {}

  // Writes the results into these arrays, in signature order; a none declines an optional result.
  template <class... A>
  void into(const A&... results) {
    const Array* const given[] = {&results..., nullptr};  // one more: no array has 0 elements
    detail::RunCall(op_, args_, std::span(given, sizeof...(A)), nullptr);
  }
  // Allocates every result.
  std::vector<Array> run() {
    std::vector<Array> results;
    detail::RunCall(op_, args_, {}, &results);
    return results;
  }
  operator std::vector<Array>() { return run(); }
  // The first result.
  operator Array() {
    std::vector<Array> results = run();
    return results.empty() ? Array() : results[0];
  }
  // Which kernel this call takes, and why not the others. Runs nothing.
  std::string explain() { return detail::ExplainCall(op_, args_); }

 private:
  Operator& op_;
  std::array<Argument, N> args_;
};

// Arguments in signature order, then Named ones; what is left out has its default.
template <class... A>
PendingCall<sizeof...(A)> Call(Operator* op, const A&... args) {
  return PendingCall<sizeof...(A)>(*op, args...);
}
template <class... A>
PendingCall<sizeof...(A)> Call(std::string_view op, const A&... args) {
  return Call(Find(op), args...);
}

// Typed functions for all registered operators, as the text of a header that includes this one.
std::string GenerateHeader();

}  // namespace anyop
