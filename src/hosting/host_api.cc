// SPDX-License-Identifier: Apache-2.0
// The functions of the C header.
#include "anyop/host.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>

#include "anyop/stream.h"
#include "anyop/value.h"
#include "hosting/bound_call.h"
#include "platform/error.h"
#include "platform/of_thread.h"
#include "runtime/device/device.h"
#include "runtime/run/call.h"
#include "signature/expression.h"

namespace anyop {
namespace {

static_assert(ANYOP_HOST_MAX_RANK == kMaxRank);
// C has no definition of anyop_call: its pointers are those of BoundCall.
const BoundCall& FromC(const anyop_call* call) { return *reinterpret_cast<const BoundCall*>(call); }
const anyop_call* ToC(const BoundCall* call) { return reinterpret_cast<const anyop_call*>(call); }

struct LastError {
  std::string text;
};
std::string& LastErrorText() { return OfThread<LastError>::Get().text; }

// No exception crosses the boundary.
template <class F>
int Answered(F&& f) {
  const auto keep = [](int code, const char* text) {
    LastErrorText() = text;
    return code;
  };
  try {
    f();
    return ANYOP_OK;
  } catch (const Error& e) {
    return keep(e.code, e.what());
  } catch (const std::bad_alloc&) {
    return keep(ANYOP_OUT_OF_MEMORY, "anyop: there is no memory left.");
  } catch (const std::exception& e) {
    return keep(ANYOP_INTERNAL, e.what());
  }
}

// A pointer that the caller has to give. Messages begin with the function's name: a plugin has no
// other.
template <class T>
T& Given(const char* function, const char* name, T* pointer) {
  if (pointer) return *pointer;
  Fail(ANYOP_INVALID_ARGUMENT,
       std::string(function) + ": " + name + " is null, but must be given.");
}

const BoundCall& CallGiven(const char* function, const anyop_call* call) {
  return FromC(&Given(function, "call", call));
}

// `-1` or null where it throws.
template <class R, class F>
R ValueOr(R failed, F&& f) {
  R value = failed;
  return Answered([&] { value = f(); }) == ANYOP_OK ? value : failed;
}

template <class T>
std::span<T> Span(const char* function, const char* name, T* items, std::int32_t n) {
  if (n > 0) Given(function, name, items);
  if (n >= 0) return {items, std::size_t(n)};
  Fail(ANYOP_INVALID_ARGUMENT, std::string(function) + ": there are " + std::to_string(n) + " " +
                                   name + ", but must be 0 or more.");
}

// Checks what is read before the call's own checks are made: a null pointer or a wild rank of a
// plugin is an error, and must not end the process.
class TensorChecker {
 public:
  TensorChecker(const char* function, const char* name) : function_(function), name_(name) {}

  std::span<const DLTensor> Shaped(std::span<const DLTensor> tensors) const {
    for (const DLTensor& t : tensors) CheckShape(t, int(&t - tensors.data()), -1);
    return tensors;
  }
  std::span<const DLTensor> Placed(std::span<const DLTensor> tensors) const {
    for (const DLTensor& t : tensors) {
      const int i = int(&t - tensors.data());
      CheckShape(t, i, 0);
      const bool is_empty = std::count(t.shape, t.shape + t.ndim, 0) > 0;
      if (!t.data && !is_empty) Refuse(i, "data is null, but " + Show(t) + " has elements.");
    }
    return tensors;
  }

 private:
  void CheckShape(const DLTensor& t, int i, int least) const {
    if (t.ndim < least || t.ndim > kMaxRank) {
      Refuse(i, "ndim is " + std::to_string(t.ndim) + ", but must be from " +
                    std::to_string(least) + " to " + std::to_string(kMaxRank) + ".");
    }
    if (t.ndim > 0 && !t.shape) {
      Refuse(i, "shape is null, but must have " + std::to_string(t.ndim) + " sizes.");
    }
  }
  [[noreturn]] void Refuse(int i, const std::string& what) const {
    Fail(ANYOP_INVALID_ARGUMENT,
         std::string(function_) + ": " + name_ + "[" + std::to_string(i) + "]." + what);
  }

  const char *function_, *name_;
};

// Fills the fields that the caller's struct has room for. A `size` that reaches no field is
// refused: the caller has not set it.
template <class T>
void Give(const char* function, const char* name, T mine, T* to) {
  const std::uint32_t room = Given(function, name, to).size;
  if (room <= sizeof to->size) {
    Fail(ANYOP_INVALID_ARGUMENT, std::string(function) + ": " + name + "->size is " +
                                     std::to_string(room) + ", but must be the struct's, " +
                                     std::to_string(sizeof(T)) + ".");
  }
  mine.size = room;
  std::memcpy(static_cast<void*>(to), &mine, std::min(room, std::uint32_t(sizeof(T))));
}

template <class T>
const T& ItemAt(const char* function, std::span<const T> items, std::int32_t i, const char* what) {
  if (i >= 0 && std::size_t(i) < items.size()) return items[std::size_t(i)];
  Fail(ANYOP_INVALID_ARGUMENT, std::string(function) + ": " + what + " " + std::to_string(i) +
                                   " is asked for, but there are " + std::to_string(items.size()) +
                                   ".");
}

}  // namespace
}  // namespace anyop

using anyop::Answered;
using anyop::CallGiven;
using anyop::Given;
using anyop::Span;
using anyop::TensorChecker;

std::uint32_t anyop_host_version() { return ANYOP_HOST_VERSION; }
const char* anyop_error_text() { return anyop::LastErrorText().c_str(); }

int anyop_load_library(const char* path) {
  return Answered([&] { anyop::Load(&Given("anyop_load_library", "path", path)); });
}

int anyop_find_call(const char* text, std::uint64_t bytes, const anyop_call** call) {
  constexpr const char* kSelf = "anyop_find_call";
  return Answered([&] {
    if (bytes) Given(kSelf, "text", text);
    if (bytes > PTRDIFF_MAX) {
      anyop::Fail(ANYOP_INVALID_ARGUMENT, std::string(kSelf) + ": bytes is " +
                                              std::to_string(bytes) + ", but no text is so long.");
    }
    Given(kSelf, "call", call) = anyop::ToC(&anyop::FindBoundCall({text, std::size_t(bytes)}));
  });
}

const char* anyop_call_text(const anyop_call* call) {
  return anyop::ValueOr<const char*>(
      nullptr, [&] { return CallGiven("anyop_call_text", call).text().c_str(); });
}

std::int32_t anyop_input_count(const anyop_call* call) {
  return anyop::ValueOr(
      -1, [&] { return std::int32_t(CallGiven("anyop_input_count", call).inputs().size()); });
}
std::int32_t anyop_result_count(const anyop_call* call) {
  return anyop::ValueOr(
      -1, [&] { return std::int32_t(CallGiven("anyop_result_count", call).results().size()); });
}

int anyop_describe_input(const anyop_call* call, std::int32_t index, anyop_input* input) {
  constexpr const char* kSelf = "anyop_describe_input";
  return Answered([&] {
    const auto& own = anyop::ItemAt(kSelf, CallGiven(kSelf, call).inputs(), index, "input");
    anyop::Give(kSelf, "input", {0, own.is_written, own.name.c_str(), anyop::ToDL(own.dtype)},
                input);
  });
}

int anyop_describe_result(const anyop_call* call, std::int32_t index, anyop_result* result) {
  constexpr const char* kSelf = "anyop_describe_result";
  return Answered([&] {
    const auto& own = anyop::ItemAt(kSelf, CallGiven(kSelf, call).results(), index, "result");
    const DLDataType dtype = own.dtype < 0 ? DLDataType{} : anyop::ToDL(anyop::DType(own.dtype));
    anyop::Give(kSelf, "result",
                {0, std::uint32_t(own.over.size()), own.over.data(), own.name.c_str(), dtype},
                result);
  });
}

int anyop_infer_call(const anyop_call* call, const DLTensor* inputs, std::int32_t n_inputs,
                     anyop_shape* results, std::int32_t n_results) {
  constexpr const char* kSelf = "anyop_infer_call";
  return Answered([&] {
    const auto from = Span(kSelf, "inputs", inputs, n_inputs);
    const std::span<anyop_shape> to = Span(kSelf, "results", results, n_results);
    std::vector<anyop::ResultShape> shapes(to.size());
    CallGiven(kSelf, call).Infer(TensorChecker(kSelf, "inputs").Shaped(from), shapes);
    for (std::size_t r = 0; r < to.size(); ++r) {
      to[r] = {shapes[r].rank, anyop::ToDL(shapes[r].dtype), {}};
      if (shapes[r].rank > 0) std::copy_n(shapes[r].shape, shapes[r].rank, to[r].shape);
    }
  });
}

int anyop_run_call(const anyop_call* call, const DLTensor* inputs, std::int32_t n_inputs,
                   const DLTensor* results, std::int32_t n_results) {
  constexpr const char* kSelf = "anyop_run_call";
  return Answered([&] {
    const auto from = Span(kSelf, "inputs", inputs, n_inputs);
    const auto to = Span(kSelf, "results", results, n_results);
    CallGiven(kSelf, call)
        .Run(TensorChecker(kSelf, "inputs").Placed(from),
             TensorChecker(kSelf, "results").Placed(to));
  });
}

int anyop_run_call_on(const anyop_call* call, void* stream, const DLTensor* inputs,
                      std::int32_t n_inputs, const DLTensor* results, std::int32_t n_results) {
  constexpr const char* kSelf = "anyop_run_call_on";
  return Answered([&] {
    const auto from = Span(kSelf, "inputs", inputs, n_inputs);
    const auto to = Span(kSelf, "results", results, n_results);
    const anyop::BoundCall& bound = CallGiven(kSelf, call);
    const auto checked_from = TensorChecker(kSelf, "inputs").Placed(from);
    const auto checked_to = TensorChecker(kSelf, "results").Placed(to);
    const auto is_there = [](const DLTensor& t) { return !anyop::IsHost(t.device); };
    // The device is that of the first tensor which is not the host's: planned ones always are.
    const DLTensor* first = std::find_if(inputs, inputs + n_inputs, is_there);
    if (first == inputs + n_inputs) {
      first = std::find_if(results, results + n_results, is_there);
      if (first == results + n_results) first = nullptr;
    }
    std::optional<anyop::StreamScope> scope;
    // The call itself refuses a device that does not exist, in its own words.
    const anyop::DeviceKind* kind =
        first ? anyop::FindDeviceKind(first->device.device_type) : nullptr;
    const int number = first ? first->device.device_id : 0;
    if (kind && number >= 0 && number < kind->Count()) {
      // NULL is the device's own stream, whatever stream is current on this thread.
      void* const own = stream ? stream : kind->table.default_stream(number);
      scope.emplace(anyop::Stream::Wrap(first->device, own));
    }
    bound.Run(checked_from, checked_to);
  });
}

int anyop_gradient_of_call(const anyop_call* call, const std::uint8_t* wanted,
                           std::int32_t n_wanted, const std::uint8_t* given, std::int32_t n_given,
                           anyop_gradient* gradient) {
  constexpr const char* kSelf = "anyop_gradient_of_call";
  return Answered([&] {
    Given(kSelf, "gradient", gradient);
    const anyop::BoundGradient& made =
        CallGiven(kSelf, call)
            .Gradient(Span(kSelf, "wanted", wanted, n_wanted),
                      Span(kSelf, "given", given, given ? n_given : 0));
    anyop::Give(kSelf, "gradient",
                {0, std::uint32_t(made.sources.size()), std::uint32_t(made.targets.size()),
                 anyop::ToC(made.forward), anyop::ToC(made.gradient), made.sources.data(),
                 made.targets.data()},
                gradient);
  });
}
