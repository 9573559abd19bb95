// SPDX-License-Identifier: Apache-2.0
#include "handler.h"

#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "anyop/storage.h"
#include "anyop/tensor.h"
#include "anyop/value.h"
#include "bindings/room.h"
#include "hosting/bound_call.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "platform/float_mode.h"

namespace anyop::python {
namespace {

// XLA's number of each dtype; 0 for one that it has no tensors of.
constexpr int ToXla(DType d) {
  switch (d) {
#define ANYOP_XLA(number, name, ...) \
  case DType::k##name:               \
    return xla::k##name;
    ANYOP_DTYPE_LIST(ANYOP_XLA)
#undef ANYOP_XLA
  }
  return 0;
}

constexpr auto kTypesOfXla = [] {
  std::array<DLDataType, 64> types{};
  for (int d = 0; d < kDTypes; ++d) {
    if (ToXla(DType(d))) types[std::size_t(ToXla(DType(d)))] = ToDL(DType(d));
  }
  return types;
}();

void ToDLTensor(const void* value, DLTensor* tensor) {
  const auto& b = *static_cast<const xla::Buffer*>(value);
  const DLDataType dtype =
      std::size_t(b.dtype) < kTypesOfXla.size() ? kTypesOfXla[std::size_t(b.dtype)] : DLDataType{};
  FillTensor(tensor, b.data, kHostDevice, dtype, int(b.rank), b.shape);
}

std::size_t BytesOf(const DLTensor& t) {
  return std::size_t(TensorBytes(Bytes(t.dtype), {t.shape, std::size_t(t.ndim)}));
}

std::string_view FrameAttribute(const xla::Frame& frame, std::string_view name) {
  const xla::Attributes& all = frame.attributes;
  for (std::int64_t i = 0; i < all.n; ++i) {
    const std::string_view own(all.names[i]->data, all.names[i]->size);
    if (own != name || all.types[i] != xla::kString) continue;
    const auto& text = *static_cast<const xla::Bytes*>(all.values[i]);
    return {text.data, text.size};
  }
  Fail(ANYOP_INVALID_ARGUMENT, "anyop: the program's call has no attribute '" + std::string(name) +
                                   "', but each call must say what it is. Try anyop.jax.");
}

// Results of 64 bits for which the program has room of 32 bits each, as JAX without x64 has it.
// They are computed in memory of their own, then copied. Integers must fit.
class Narrowed {
 public:
  void Add(std::string_view name, DLTensor& result, DType own) {
    auto& one = *all_.emplace_back(std::make_unique<One>());
    one.name = name;
    one.to = result;
    result.dtype = anyop::ToDL(own);
    one.memory = std::make_unique_for_overwrite<std::int64_t[]>(BytesOf(result) / 8 + 1);
    result.data = one.memory.get();
  }
  void Copy(const BoundCall& call) const {
    for (const auto& one : all_) {
      const auto n = std::size_t(static_cast<const Tensor&>(one->to).size());
      const DType to = DType(FromDL(one->to.dtype));
      if (to == DType::kI32) CopyInts<std::int32_t>(call, *one, n);
      if (to == DType::kU32) CopyInts<std::uint32_t>(call, *one, n);
      if (to == DType::kF32) CopyFloats(*one, n);
      if (to == DType::kC64) CopyFloats(*one, 2 * n);
    }
  }

 private:
  struct One {
    std::string_view name;
    DLTensor to;
    std::unique_ptr<std::int64_t[]> memory;  // of unsigned, float and complex numbers too
  };
  static void CopyFloats(const One& one, std::size_t n) {
    const double* from = reinterpret_cast<const double*>(one.memory.get());
    for (std::size_t i = 0; i < n; ++i) static_cast<float*>(one.to.data)[i] = float(from[i]);
  }
  template <class To>
  static void CopyInts(const BoundCall& call, const One& one, std::size_t n) {
    using From = std::conditional_t<std::is_signed_v<To>, std::int64_t, std::uint64_t>;
    auto* to = static_cast<To*>(one.to.data);
    for (std::size_t i = 0; i < n; ++i) {
      const auto value = From(one.memory[i]);
      to[i] = To(value);
      if (to[i] == value) continue;
      Fail(ANYOP_INVALID_ARGUMENT, call.shown_name() + ": " + std::string(one.name) + " holds " +
                                       std::to_string(value) + ", but must fit into " +
                                       std::string(Name(DType(kDTypeOf<To>))) +
                                       " because JAX runs without 64-bit types. Try "
                                       "jax.config.update(\"jax_enable_x64\", True).");
    }
  }
  std::vector<std::unique_ptr<One>> all_;
};

void CheckContract(const BoundCall& call, const xla::Frame& frame) {
  const std::string_view made_with = FrameAttribute(frame, "contract");
  if (made_with == call.contract()) [[likely]]
    return;
  Fail(ANYOP_INVALID_ARGUMENT,
       call.shown_name() + ": the program was made with contract " + std::string(made_with) +
           ", but the library that is loaded has contract " + std::string(call.contract()) +
           ". Try making the program anew, or load the library that it was made with.");
}

// Whether a result of the call lies in room of another dtype, of half the bits.
bool IsNarrowed(const DLTensor& result, int own) {
  const auto is = [&](DType wide, DType narrow) {
    return own == int(wide) && FromDL(result.dtype) == int(narrow);
  };
  return is(DType::kI64, DType::kI32) || is(DType::kF64, DType::kF32) ||
         is(DType::kU64, DType::kU32) || is(DType::kC128, DType::kC64);
}

int ResultDType(const BoundCall& call, std::size_t result, std::span<const DLTensor> inputs) {
  const int known = call.results()[result].dtype;
  if (known >= 0) return known;
  std::vector<ResultShape> shapes(call.results().size());
  call.Infer(inputs, shapes);
  return int(shapes[result].dtype);
}

bool IsAlike(const xla::Buffer& a, const xla::Buffer& b) {
  return a.dtype == b.dtype && a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

// Puts input i, which the call writes, where the program has its result r. XLA gives the memory of
// the input, with what was there, wherever nobody needs that any more.
void PlaceWritten(const BoundCall& call, const xla::Frame& frame, std::size_t i, std::size_t r,
                  DLTensor& input) {
  const auto fail = [&](const std::string& what) {
    Fail(ANYOP_INVALID_ARGUMENT, call.shown_name() + ": it writes " + call.inputs()[i].name +
                                     ", which the program must return, but " + what +
                                     " Try anyop.jax.");
  };
  if (r == std::size_t(frame.results.n)) {
    fail("it has " + std::to_string(r) + (r == 1 ? " result." : " results."));
  }
  const auto& from = *static_cast<const xla::Buffer*>(frame.inputs.values[i]);
  const auto& to = *static_cast<const xla::Buffer*>(frame.results.values[r]);
  // A program that was made by other means than anyop.jax may have any result here, and the copy
  // below would go beyond it.
  if (!IsAlike(from, to)) {
    DLTensor result;
    ToDLTensor(&to, &result);
    fail("its result " + std::to_string(r) + " is " + Show(result) + " where " +
         call.inputs()[i].name + " is " + Show(input) + ".");
  }
  input.data = to.data;
  if (to.data != from.data) std::memcpy(to.data, from.data, BytesOf(input));
}

void Run(const xla::Frame& frame) {
  const BoundCall& call = FindBoundCall(FrameAttribute(frame, "call"));
  CheckContract(call, frame);
  const auto n = std::size_t(frame.inputs.n), n_all = std::size_t(frame.results.n);
  Room<DLTensor, 32> inputs(n), results(n_all);
  for (std::size_t i = 0; i < n; ++i) ToDLTensor(frame.inputs.values[i], &inputs[i]);
  std::size_t n_written = 0;
  // As far as both go: the call refuses another number of inputs below.
  for (std::size_t i = 0; i < std::min(n, call.inputs().size()); ++i) {
    if (call.inputs()[i].is_written) PlaceWritten(call, frame, i, n_written++, inputs[i]);
  }
  Narrowed narrowed;
  const std::span<const DLTensor> given(inputs.data(), n);
  for (std::size_t r = n_written; r < n_all; ++r) {
    DLTensor& result = results[r - n_written];
    ToDLTensor(frame.results.values[r], &result);
    if (r - n_written >= call.results().size()) continue;  // the call refuses their number
    const int own = ResultDType(call, r - n_written, given);
    if (IsNarrowed(result, own)) {
      narrowed.Add(call.results()[r - n_written].name, result, DType(own));
    }
  }
  call.Run(given, {results.data(), n_all - n_written});
  narrowed.Copy(call);
}

xla::Error* Report(const xla::Frame& frame, xla::ErrorCode code, const char* text) {
  xla::ErrorArguments arguments{sizeof arguments, nullptr, text, code};
  return frame.api->make_error(&arguments);
}

xla::ErrorCode ToXlaCode(int code) {
  switch (code) {
    case ANYOP_INVALID_ARGUMENT:
      return xla::kInvalidArgument;
    case ANYOP_UNSUPPORTED:
      return xla::kUnimplemented;
    case ANYOP_NOT_AVAILABLE:
      return xla::kNotFound;
    case ANYOP_OUT_OF_MEMORY:
      return xla::kResourceExhausted;
    default:
      return xla::kInternal;
  }
}

}  // namespace

xla::Error* HandleXlaCall(xla::Frame* frame) {
  if (frame->extensions && frame->extensions->type == xla::kMetadata) {
    xla::Metadata& about = *reinterpret_cast<xla::MetadataExtension*>(frame->extensions)->metadata;
    about.version.major_version = xla::kMajorVersion;
    about.version.minor_version = xla::kMinorVersion;
    about.traits = 0;
    return nullptr;
  }
  try {
    const DefaultFloatMode mode;  // XLA's threads take subnormal numbers for zero
    Run(*frame);
    return nullptr;
  } catch (const Error& e) {
    return Report(*frame, ToXlaCode(e.code), e.what());
  } catch (const std::exception& e) {
    return Report(*frame, xla::kInternal, e.what());
  }
}

}  // namespace anyop::python
