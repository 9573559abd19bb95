// SPDX-License-Identifier: Apache-2.0
// Kernels of operators written in AscendC. ops/NAME/ascend.cpp holds the kernel, which includes
// kernel_operator.h, and what launches it:
//
//   #include "anyop/ascend.h"
//
//   extern "C" __global__ __aicore__ void rms_norm(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t d)
//   { ... }
//
//   static void Run(const anyop::Context& ctx, const anyop::Tensor& x, const anyop::Tensor& y) {
//     const auto rows = uint32_t(y.rows());
//     anyop::ascend::Launch(ctx, {.blocks = anyop::ascend::Blocks(rows)}, rms_norm, x, y, rows,
//                           uint32_t(y.row_size()));
//   }
//   ANYOP_ASCEND_KERNEL(rms_norm){.when = "T == f16", .run = anyop::ascend::Bind<&Run>()};
//
// The file is compiled twice: without checks as the kernel ascend_host, and with checks as
// ascend_checked, whose findings are errors of the call. What the kernel may read, may write and
// has to write is what the operator's signature says of its tensors.
//
// The vendor's compiler makes the kernel aicore_bisheng of it, for chips (ANYOP_ASCEND_CHIP).
#pragma once
#ifdef ANYOP_ASCEND_CHIP
#define ANYOP_ASCEND_CHECKED 0
#endif
#ifndef ANYOP_ASCEND_CHECKED
#define ANYOP_ASCEND_CHECKED 1
#endif
#ifdef ANYOP_ASCEND_CHIP
#define ANYOP_KERNEL_NAME "aicore_bisheng"
#elif ANYOP_ASCEND_CHECKED
#define ANYOP_KERNEL_NAME "ascend_checked"
#else
#define ANYOP_KERNEL_NAME "ascend_host"
#endif
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "anyop/device.h"
#include "anyop/op.h"
// op.h first: kernel_operator.h brings global names such as half, min and max.
#include "kernel_operator.h"

#ifdef ANYOP_ASCEND_CHIP
#include "anyop/ascend_chip.h"
#endif

#ifndef ANYOP_ASCEND_LIBRARY  // the namespace of the operators; the build defines it
#define ANYOP_ASCEND_LIBRARY "anyop"
#endif

namespace anyop::ascend {
inline namespace ANYOP_ASCEND_BUILD {

namespace detail {

constexpr DType DTypeOf(float) { return DType::kF32; }
constexpr DType DTypeOf(half) { return DType::kF16; }
constexpr DType DTypeOf(bfloat16_t) { return DType::kBF16; }
constexpr DType DTypeOf(std::int8_t) { return DType::kI8; }
constexpr DType DTypeOf(std::uint8_t) { return DType::kU8; }
constexpr DType DTypeOf(std::int16_t) { return DType::kI16; }
constexpr DType DTypeOf(std::int32_t) { return DType::kI32; }
constexpr DType DTypeOf(std::int64_t) { return DType::kI64; }

}  // namespace detail

struct LaunchOptions {
  std::uint32_t blocks = 1;      // 1 to 65,535
  std::uint64_t tiling_key = 0;  // of TILING_KEY_IS
};

// Vector cores of the chip (on a host, of ANYOP_ASCEND_SOC).
inline std::uint32_t VectorCores() {
#ifdef ANYOP_ASCEND_CHIP
  return detail::VectorCoresOfChip();
#else
  return anyop_ascend_vector_cores();
#endif
}
// One block a core, and none that has nothing to do; at least 1.
inline std::uint32_t Blocks(std::int64_t items) {
  const std::int64_t cores = VectorCores();
  return std::uint32_t(items < 1 ? 1 : items < cores ? items : cores);
}

// A size, or a number of items, as a kernel counts it in 32 bits; std::runtime_error where it has
// more. Steps of loops stay below 2^32, too.
inline std::uint32_t Count(std::int64_t size) {
  constexpr std::int64_t kMost = 0xFFFF0000;
  if (size >= 0 && size <= kMost) return std::uint32_t(size);
  throw std::runtime_error("a size of " + std::to_string(size) + ", but the kernel counts up to " +
                           std::to_string(kMost) + ".");
}

// How many elements of a row of d a kernel takes at a time, of each of which it keeps so many bytes
// in the unified buffer: all, or what fits there beside `other` bytes. A multiple of 64, so that
// the parts of a buffer begin at multiples of 256 bytes of floats.
inline std::uint32_t Chunk(std::int64_t d, std::uint32_t bytes, std::uint32_t other = 4096) {
#ifdef ANYOP_ASCEND_CHIP
  const std::int64_t room = detail::kUbBytes;
#else
  const std::int64_t room = AscendC::TOTAL_UB_SIZE;
#endif
  const std::int64_t most = (room - other) / bytes / 64 * 64;
  const std::int64_t all = (d + 63) / 64 * 64;
  return std::uint32_t(all < 64 ? 64 : all < most ? all : most);
}

// Calls f with a zero of the element type of T... that a dtype names; the signature and .when leave
// no other. A kernel that is a template is chosen by it:
//
//   Visit<float, half, bfloat16_t>(x.type(), [&](auto zero) {
//     Launch(ctx, options, &my_kernel<decltype(zero)>, x, y);
//   });
template <class... T, class F>
void Visit(DType type, F&& f) {
  ((type == detail::DTypeOf(T()) ? void(f(T())) : void()), ...);
}

// In the place of a kernel's `GM_ADDR workspace`: the memory that the kernel's .workspace asks for.
struct Workspace {};

namespace detail {

inline constexpr bool kIsChecked = ANYOP_ASCEND_CHECKED;

// Before the launch: what a block throws ends the block alone.
template <class P, class A>
void CheckFits(const A& argument) {
  if constexpr (std::is_integral_v<P> && std::is_integral_v<A>) {
    const P passed = static_cast<P>(argument);
    if (static_cast<A>(passed) == argument && (passed < P()) == (argument < A())) return;
    throw std::runtime_error("a launch passes " + std::to_string(argument) +
                             ", but the kernel's parameter has " + std::to_string(sizeof(P) * 8) +
                             " bits.");
  }
}

// The value of a kernel's parameter P for an argument of a launch.
template <class P, class A>
P Value(const Context& ctx, const A& argument) {
  if constexpr (std::is_same_v<A, Workspace>) {
    return reinterpret_cast<P>(ctx.workspace);
  } else if constexpr (std::is_base_of_v<DLTensor, A>) {
    static_assert(std::is_pointer_v<P>, "a tensor is given where the kernel takes no pointer");
    return reinterpret_cast<P>(argument.template base<unsigned char>());
  } else if constexpr (std::is_convertible_v<A, const Tensor*>) {
    return argument ? Value<P>(ctx, *argument) : nullptr;
  } else if constexpr (std::is_pointer_v<P> && std::is_class_v<A>) {
    // Tiling data, which live until the launch is over.
    using Pointee = std::remove_cv_t<std::remove_pointer_t<P>>;
    if constexpr (std::is_class_v<Pointee>) {
      static_assert(sizeof(Pointee) == sizeof(A),
                    "the struct of the launch has another size than the kernel's");
      static_assert(std::is_same_v<Pointee, A>,
                    "the struct of the launch is another one than the kernel's");
    }
    return reinterpret_cast<P>(const_cast<A*>(&argument));
  } else if constexpr (std::is_pointer_v<P> && std::is_arithmetic_v<A>) {
    static_assert(!std::is_pointer_v<P>,
                  "a number is given where the kernel takes a pointer: give a tensor, a struct of "
                  "tiling data, Workspace{} or nullptr");
  } else {
    return static_cast<P>(argument);
  }
}

// This library's kernels: the linker puts what ANYOP_ASCEND_KERNEL makes side by side.
extern "C" const anyop_device_kernel* const __start_anyop_ascend_listed[]
    __attribute__((visibility("hidden")));
extern "C" const anyop_device_kernel* const __stop_anyop_ascend_listed[]
    __attribute__((visibility("hidden")));

template <class A>
inline constexpr bool kIsTilingData =
    std::is_class_v<A> && !std::is_base_of_v<DLTensor, A> && !std::is_same_v<A, Workspace> &&
    !std::is_same_v<A, half> && !std::is_same_v<A, bfloat16_t>;

#ifdef ANYOP_ASCEND_CHIP

// As Value; tiling data go to the chip's memory.
template <class P, class A>
P ValueOnChip(TilingData& data, const Context& ctx, const A& argument) {
  if constexpr (std::is_pointer_v<P> && kIsTilingData<A>) {
    return reinterpret_cast<P>(data.Put(&argument, sizeof argument));
  } else {
    return Value<P>(ctx, argument);
  }
}

#else

template <class A>
void DeclareTiling(const A& argument) {
  if constexpr (kIsTilingData<A>) {
    anyop_ascend_declare(const_cast<A*>(&argument), sizeof argument, "tiling", ANYOP_ASCEND_READ);
  }
}

// What a checked kernel may touch: the tensors of the call's frame, as the signature says, and its
// workspace. One thread at a time.
class CheckedCall {
 public:
  CheckedCall(const anyop_context& ctx, const anyop_value* frame, const char* signature) {
    anyop_ascend_begin();
    const auto forms = ParseForms(signature);
    const auto& form = forms[0];
    std::size_t i = 0;
    for (const auto& p : form.params) {
      Add(frame[i++], std::string(p.name), ANYOP_ASCEND_READ | (p.is_mut ? ANYOP_ASCEND_WRITE : 0));
    }
    for (const auto& r : form.results) {
      Add(frame[i++], std::string(r.name), ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
    }
    for (const Extent& e : extents_) {
      anyop_ascend_declare(e.begin, e.bytes, e.name.c_str(), std::uint32_t(e.access));
    }
    if (ctx.workspace_bytes) {
      anyop_ascend_declare(ctx.workspace, ctx.workspace_bytes, "workspace",
                           ANYOP_ASCEND_READ | ANYOP_ASCEND_WRITE);
    }
  }
  ~CheckedCall() { anyop_ascend_end(); }
  CheckedCall(const CheckedCall&) = delete;
  CheckedCall& operator=(const CheckedCall&) = delete;

  // The first finding that is an error; null: there is none.
  const char* complaint() const { return anyop_ascend_complaint(); }

 private:
  struct Extent {
    char* begin;
    std::uint64_t bytes;
    std::string name;
    int access;
  };
  void Add(const anyop_value& v, const std::string& name, int access) {
    if (v.tag == ANYOP_TENSOR) AddTensor(*v.t, name, access);
    if (v.tag != ANYOP_TENSORS) return;
    for (std::uint32_t k = 0; k < v.count; ++k) {
      AddTensor(*v.ts[k], name + "[" + std::to_string(k) + "]", access);
    }
  }
  // Arguments may be the same memory, as of a result that lies on one.
  void AddTensor(const DLTensor& t, const std::string& name, int access) {
    const auto& tensor = static_cast<const Tensor&>(t);
    if (tensor.size() == 0) return;
    std::int64_t last = 0;
    for (int d = 0; d < t.ndim; ++d) last += (t.shape[d] - 1) * tensor.stride(d);
    if (!tensor.is_contiguous()) access &= ~ANYOP_ASCEND_WHOLE;
    char* const begin = BaseOf(t);
    const std::uint64_t bytes = std::uint64_t(last + 1) * (t.dtype.bits / 8);
    for (Extent& e : extents_) {
      if (e.begin != begin) continue;
      e.access |= access;
      e.bytes = e.bytes < bytes ? bytes : e.bytes;
      return;
    }
    extents_.push_back({begin, bytes, name, access});
  }
  std::vector<Extent> extents_;
};

inline const char* SignatureOf(anyop_run run) {
  for (const auto* k = __start_anyop_ascend_listed; k != __stop_anyop_ascend_listed; ++k) {
    if ((*k)->kernel->run == run) return *(*k)->signature;
  }
  return nullptr;
}

template <auto kFunction>
int RunChecked(const anyop_context* c, const anyop_value* frame) {
  static const char* const signature = SignatureOf(&RunChecked<kFunction>);
  try {
    const CheckedCall call(*c, frame, signature);
    const int code = anyop::Bind<kFunction>().run(c, frame);
    if (code) return code;
    if (const char* text = call.complaint()) return c->host->set_error(c, ANYOP_INTERNAL, text);
    return ANYOP_OK;
  } catch (const std::exception& e) {
    return c->host->set_error(c, ANYOP_INTERNAL, e.what());
  }
}

#endif  // ANYOP_ASCEND_CHIP

}  // namespace detail

// Runs a kernel. Arguments, in the order of the kernel's parameters: a tensor for a pointer to its
// elements (null for an absent one), a struct for a pointer to tiling data, Workspace{}, numbers.
template <class... P, class... A>
void Launch(const Context& ctx, const LaunchOptions& options, void (*kernel)(P...),
            const A&... arguments) {
  static_assert(sizeof...(A) >= sizeof...(P),
                "Launch gets fewer arguments than its kernel has parameters");
  static_assert(sizeof...(A) <= sizeof...(P),
                "Launch gets more arguments than its kernel has parameters");
  if (options.blocks < 1 || options.blocks > 65535) {
    throw std::runtime_error("a launch of " + std::to_string(options.blocks) +
                             " blocks, but it must have 1 to 65535.");
  }
  (detail::CheckFits<P>(arguments), ...);
#ifdef ANYOP_ASCEND_CHIP
  if (options.tiling_key) {
    throw std::runtime_error("a launch on a chip has no tiling key, because <<<>>> takes none.");
  }
  detail::TilingData data(ctx.stream);
  kernel<<<options.blocks, nullptr, ctx.stream>>>(detail::ValueOnChip<P>(data, ctx, arguments)...);
#else
  if constexpr (detail::kIsChecked) (detail::DeclareTiling(arguments), ...);
  auto body = [&] { kernel(detail::Value<P>(ctx, arguments)...); };
  ::anyop_ascend::Launch({"", options.blocks, detail::kIsChecked, ::AscendC::AnyopWaits<void>::any,
                          [](void* called) { (*static_cast<decltype(body)*>(called))(); }, &body,
                          &options.tiling_key});
#endif
}

// As anyop::Bind.
template <auto kFunction>
constexpr RunFunction Bind() {
#if ANYOP_ASCEND_CHECKED
  return {&detail::RunChecked<kFunction>, anyop::Bind<kFunction>().params};
#else
  return anyop::Bind<kFunction>();
#endif
}

namespace detail {

template <class... A>
constexpr anyop_accepts AcceptsContiguous(void (*)(const Context&, A...)) {
  return [](const anyop_value* frame) -> const char* {
    for (std::size_t i = 0; i < sizeof...(A); ++i) {
      const anyop_value& v = frame[i];
      const DLTensor* const* list = v.tag == ANYOP_TENSORS ? v.ts : &v.t;
      const std::uint32_t n = v.tag == ANYOP_TENSORS ? v.count : v.tag == ANYOP_TENSOR;
      for (std::uint32_t k = 0; k < n; ++k) {
        if (!static_cast<const Tensor*>(list[k])->is_contiguous()) return "a tensor has gaps";
      }
    }
    return nullptr;
  };
}

}  // namespace detail

// For .accepts of a kernel that takes no strides: other calls go to the operator's next kernel.
template <auto kFunction>
constexpr anyop_accepts AreContiguous() {
  return detail::AcceptsContiguous(kFunction);
}

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace anyop::ascend

// A kernel of the operator `op`, at namespace scope: ANYOP_ASCEND_KERNEL(op){.run = ...};
#define ANYOP_ASCEND_KERNEL(op)                                                    \
  namespace anyop_ascend_kernels_of_operators {                                    \
  extern const ::anyop::Kernel op##_kernel;                                        \
  static const char* op##_signature = nullptr;                                     \
  static const anyop_device_kernel op##_entry = {                                  \
      sizeof(anyop_device_kernel), 0, ANYOP_ASCEND_LIBRARY "." #op,                \
      reinterpret_cast<const anyop_kernel*>(&op##_kernel), &op##_signature};       \
  [[gnu::section("anyop_ascend_listed"),                                           \
    gnu::used]] static const anyop_device_kernel* const op##_listed = &op##_entry; \
  }                                                                                \
  constinit const ::anyop::Kernel anyop_ascend_kernels_of_operators::op##_kernel

static_assert(std::string_view(anyop::Kernel().name) == ANYOP_KERNEL_NAME,
              "include anyop/ascend.h before anyop/op.h");

extern "C" [[gnu::weak, gnu::visibility("default")]] const anyop_device_info*
anyop_device_library() {
  using namespace anyop::ascend::detail;
  static const anyop_device_info library = {
      sizeof library,
      ANYOP_DEVICE_VERSION,
      ANYOP_ASCEND_LIBRARY,
      nullptr,
      std::uint32_t(__stop_anyop_ascend_listed - __start_anyop_ascend_listed),
      0,
      __start_anyop_ascend_listed};
  return &library;
}
