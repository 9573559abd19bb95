// SPDX-License-Identifier: Apache-2.0
// What the author of an operator includes. Op, Kernel, Tensor and Context are the boundary's own
// structs (abi.h) with C++ clothes: a library is constant data, nothing runs when it is loaded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "anyop/abi.h"
#include "anyop/dtype.h"
#include "anyop/parse.h"
#include "anyop/tensor.h"

// The build defines, per file: ANYOP_ISA (portable, avx2, avx512, ...), the namespace of functions
// with code, so that the linker never picks a copy compiled for a wider instruction set; and
// ANYOP_NEEDS, the CPU features that these flags assume.
#ifndef ANYOP_ISA
#define ANYOP_ISA portable
#endif
#ifndef ANYOP_NEEDS
#define ANYOP_NEEDS ""
#endif

namespace anyop {

// always_inline, because Context is not in the namespace of an instruction set: a copy that one
// file leaves could be called by another one.
struct Context : anyop_context {
  // Runs f(begin, end) over parts of [0, n), on several threads where that pays.
  // grain: the least number of items worth 2 us.
  //
  // f(begin, end, slot) also gets the number of its slot, less than max(threads, 1): parts that
  // run at the same time are in different slots, so that each slot may have scratch of its own.
  template <class F>
  [[gnu::always_inline]] void ParallelFor(std::int64_t n, std::int64_t grain, F&& f) const {
    if (n <= 0) return;
    if constexpr (std::is_invocable_v<F&, std::int64_t, std::int64_t, std::int64_t>) {
      IsCut(n, grain) ? ForSlots(n, grain, f) : f(std::int64_t{0}, n, std::int64_t{0});
    } else {
      IsCut(n, grain) ? ForParts(n, grain, f) : f(std::int64_t{0}, n);
    }
  }
  // Runs f(r), or f(r, slot), for every row r of x. element_ns: rough cost of one element, in
  // nanoseconds.
  template <class F>
  [[gnu::always_inline]] void ForRows(const Tensor& x, F&& f, double element_ns = 0.25) const {
    // 10 ns for a row itself; without them rows of no elements would divide by 0.
    const double row_ns = double(x.row_size()) * element_ns + 10;
    const std::int64_t rows = x.rows(), grain = std::int64_t(2000 / row_ns) + 1;
    if constexpr (std::is_invocable_v<F&, std::int64_t, std::int64_t>) {
      ParallelFor(rows, grain, [&](std::int64_t b, std::int64_t e, std::int64_t slot) {
        for (std::int64_t r = b; r < e; ++r) f(r, slot);
      });
    } else {
      ParallelFor(rows, grain, [&](std::int64_t b, std::int64_t e) {
        for (std::int64_t r = b; r < e; ++r) f(r);
      });
    }
  }
  // Whether n items are cut into parts. ANYOP_FLAG_CUT_ALL is for tests, whose small tensors would
  // otherwise never be cut.
  [[gnu::always_inline]] bool IsCut(std::int64_t n, std::int64_t grain) const {
    return threads > 1 && (n > grain || (flags & ANYOP_FLAG_CUT_ALL && n > 1));
  }
  template <class T>
  [[gnu::always_inline]] T* Workspace(std::size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(static_cast<char*>(workspace) + byte_offset);
  }
  [[gnu::always_inline]] bool batch_invariant() const { return flags & ANYOP_FLAG_BATCH_INVARIANT; }

 private:
  template <class F>
  [[gnu::always_inline]] void ForParts(std::int64_t n, std::int64_t grain, F& f) const {
    host->parallel_for(
        this, n, grain,
        [](void* arg, std::int64_t begin, std::int64_t end) {
          (*static_cast<F*>(arg))(begin, end);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
  // Runs slots in parallel; each slot claims parts until there are no more. So a part knows its
  // slot whichever thread runs it. About four parts per thread even out threads that are late.
  template <class F>
  [[gnu::always_inline]] void ForSlots(std::int64_t n, std::int64_t grain, F& f) const {
    const std::int64_t least = flags & ANYOP_FLAG_CUT_ALL || grain < 1 ? 1 : grain;
    const std::int64_t even = n / (4 * std::int64_t(threads)) + 1;
    const std::int64_t step = even > least ? even : least, parts = (n + step - 1) / step;
    std::int64_t next = 0;  // relaxed: it hands out numbers; parallel_for orders the memory
    const auto claim = [&](std::int64_t slot, std::int64_t end) {
      for (; slot < end; ++slot) {
        for (std::int64_t b; (b = __atomic_fetch_add(&next, step, __ATOMIC_RELAXED)) < n;) {
          f(b, b + step < n ? b + step : n, slot);
        }
      }
    };
    ForParts(parts < threads ? parts : threads, 1, claim);
  }
};
static_assert(sizeof(Context) == sizeof(anyop_context));

// Refuses the call from an operator's .check or .check_data. The text follows the operator's name,
// which the runtime puts in front: Refuse("slot_mapping[3] is 7, but must be less than 4.").
[[noreturn]] inline void Refuse(const std::string& text) { throw std::invalid_argument(text); }

namespace detail {

// One C++ parameter type: its letter, and how it is read from a value.
//   t T tensor   l L list of tensors   i I int   f F float   b B bool   w W word   d D dtype
//   j J list of ints   g G list of floats    (capital: optional)
//   s S m M: a tensor and a list, and optional ones, in a check that does not read their data
template <class A>
struct Arg;
template <class A, char kLetter>
struct Letter {
  static constexpr char letter = kLetter;
};
#define ANYOP_ARG(type, letter, expression)                                             \
  template <>                                                                           \
  struct Arg<type> : Letter<type, letter> {                                             \
    [[gnu::always_inline]] static type Get(const anyop_value& v) { return expression; } \
  };
ANYOP_ARG(const Tensor&, 't', *static_cast<const Tensor*>(v.t))
ANYOP_ARG(const Tensor*, 'T', v.tag ? static_cast<const Tensor*>(v.t) : nullptr)
ANYOP_ARG(std::span<const Tensor* const>, 'l',
          (std::span<const Tensor* const>(reinterpret_cast<const Tensor* const*>(v.ts), v.count)))
ANYOP_ARG(std::optional<std::span<const Tensor* const>>, 'L',
          v.tag ? std::optional(Arg<std::span<const Tensor* const>>::Get(v)) : std::nullopt)
ANYOP_ARG(const TensorShape&, 's', *reinterpret_cast<const TensorShape*>(v.t))
ANYOP_ARG(const TensorShape*, 'S', v.tag ? reinterpret_cast<const TensorShape*>(v.t) : nullptr)
ANYOP_ARG(std::span<const TensorShape* const>, 'm',
          (std::span<const TensorShape* const>(reinterpret_cast<const TensorShape* const*>(v.ts),
                                               v.count)))
ANYOP_ARG(std::optional<std::span<const TensorShape* const>>, 'M',
          v.tag ? std::optional(Arg<std::span<const TensorShape* const>>::Get(v)) : std::nullopt)
ANYOP_ARG(std::int64_t, 'i', v.i)
ANYOP_ARG(float, 'f', float(v.f))
ANYOP_ARG(double, 'f', v.f)
ANYOP_ARG(bool, 'b', v.i != 0)
ANYOP_ARG(std::string_view, 'w', (std::string_view(v.s, v.count)))
ANYOP_ARG(DType, 'd', DType(v.i))
ANYOP_ARG(std::span<const std::int64_t>, 'j', (std::span<const std::int64_t>(v.is, v.count)))
ANYOP_ARG(std::span<const double>, 'g', (std::span<const double>(v.fs, v.count)))
ANYOP_ARG(std::optional<std::int64_t>, 'I', v.tag ? std::optional(v.i) : std::nullopt)
ANYOP_ARG(std::optional<float>, 'F', v.tag ? std::optional(float(v.f)) : std::nullopt)
ANYOP_ARG(std::optional<double>, 'F', v.tag ? std::optional(v.f) : std::nullopt)
ANYOP_ARG(std::optional<bool>, 'B', v.tag ? std::optional(v.i != 0) : std::nullopt)
ANYOP_ARG(std::optional<std::string_view>, 'W',
          v.tag ? std::optional(std::string_view(v.s, v.count)) : std::nullopt)
ANYOP_ARG(std::optional<DType>, 'D', v.tag ? std::optional(DType(v.i)) : std::nullopt)
ANYOP_ARG(std::optional<std::span<const std::int64_t>>, 'J',
          v.tag ? std::optional(std::span<const std::int64_t>(v.is, v.count)) : std::nullopt)
ANYOP_ARG(std::optional<std::span<const double>>, 'G',
          v.tag ? std::optional(std::span<const double>(v.fs, v.count)) : std::nullopt)
#undef ANYOP_ARG

// The one place of metaprogramming: a plain function becomes one that reads a frame. Exceptions end
// here, since none may cross the boundary in C; a function that returns int returns one of its
// codes.
template <auto kFunction, class R, class... A>
struct Thunk {
  template <std::size_t... I>
  [[gnu::always_inline]] static int Call(const Context& ctx, const anyop_value* v,
                                         std::index_sequence<I...>) {
    if constexpr (std::is_same_v<R, int>) {
      return kFunction(ctx, Arg<A>::Get(v[I])...);
    } else {
      kFunction(ctx, Arg<A>::Get(v[I])...);
      return ANYOP_OK;
    }
  }
  static int Run(const anyop_context* c, const anyop_value* v) {
    try {
      return Call(*static_cast<const Context*>(c), v, std::index_sequence_for<A...>{});
    } catch (const std::bad_alloc&) {
      return c->host->set_error(c, ANYOP_OUT_OF_MEMORY, "out of memory.");
    } catch (const std::invalid_argument& e) {
      return c->host->set_error(c, ANYOP_INVALID_ARGUMENT, e.what());
    } catch (const std::exception& e) {
      return c->host->set_error(c, ANYOP_INTERNAL, e.what());
    } catch (...) {
      return c->host->set_error(c, ANYOP_INTERNAL, "the kernel threw something unknown.");
    }
  }
  static constexpr char letters[] = {Arg<A>::letter..., 0};
};
template <auto kFunction, class R, class... A>
constexpr Thunk<kFunction, R, A...> MakeThunk(R (*)(const Context&, A...)) {
  return {};
}

}  // namespace detail

// A function bound to the frame: run, and one letter per parameter.
struct RunFunction {
  anyop_run run = nullptr;
  const char* params = "";  // never null: under sanitizers no constant expression may ask for that
};
// kFunction: void (or int) f(const Context&, the operator's parameters, then its results).
template <auto kFunction>
constexpr RunFunction Bind() {
  using T = decltype(detail::MakeThunk<kFunction>(kFunction));
  return {&T::Run, T::letters};
}

// The text "cpu_avx512" in a file that is compiled for AVX-512: how its kernels are called.
#ifndef ANYOP_KERNEL_NAME
#define ANYOP_KERNEL_NAME "cpu_" ANYOP_DETAIL_TEXT(ANYOP_ISA)
#endif
// In two steps, here and below, because # and ## do not expand their operands.
#define ANYOP_DETAIL_TEXT(name) ANYOP_DETAIL_QUOTED(name)
#define ANYOP_DETAIL_QUOTED(name) #name

struct Kernel {
  std::uint32_t size = sizeof(Kernel);
  std::uint32_t reserved = 0;
  const char* name = ANYOP_KERNEL_NAME;
  const char* when = "";
  const char* needs = ANYOP_NEEDS;
  const char* workspace = "";
  RunFunction run{};
  anyop_accepts accepts = nullptr;
  const char* probe = "";
  const void* data = nullptr;
};
static_assert(sizeof(Kernel) == sizeof(anyop_kernel) &&
              offsetof(Kernel, run) == offsetof(anyop_kernel, run) &&
              offsetof(Kernel, accepts) == offsetof(anyop_kernel, accepts) &&
              offsetof(Kernel, probe) == offsetof(anyop_kernel, probe) &&
              offsetof(Kernel, data) == offsetof(anyop_kernel, data));

// A kernel of the operator `op`, for the instruction set that the file is compiled for:
//
//   ANYOP_KERNEL(my_operator){.run = Bind<&Run>()};
//
// The build lists it, after those of better instruction sets and in the order of the file. Where a
// file has several of one operator, a second word tells them apart: ANYOP_KERNEL(op, f32).
#define ANYOP_KERNEL(...)                                                        \
  extern constinit const Kernel ANYOP_DETAIL_PICK(__VA_ARGS__, ANYOP_DETAIL_TWO, \
                                                  ANYOP_DETAIL_ONE, )(__VA_ARGS__)
#define ANYOP_DETAIL_PICK(first, second, which, ...) which
#define ANYOP_DETAIL_ONE(op) ANYOP_DETAIL_JOINED(op, ANYOP_ISA)
#define ANYOP_DETAIL_TWO(op, word) ANYOP_DETAIL_JOINED(ANYOP_DETAIL_ONE(op), word)
#define ANYOP_DETAIL_JOINED(a, b) ANYOP_DETAIL_PASTED(a, b)
#define ANYOP_DETAIL_PASTED(a, b) a##_##b

// Kernels that an operator lists itself, best first: an array of pointers.
struct KernelList {
  std::uint64_t n = 0;
  const Kernel* const* first = nullptr;
  constexpr KernelList() = default;
  template <std::size_t N>
  constexpr KernelList(const Kernel* const (&list)[N]) : n(N), first(list) {}
};

namespace detail {

// Not constexpr, so that a constant expression which calls them does not compile: the compiler's
// message shows their names.
inline void a_kernel_does_not_fit_the_signature() {}
inline void the_check_does_not_fit_the_signature() {}

// Compares kernels with the signature while the file is compiled. The letters of a kernel of
// another file are not known then (__builtin_constant_p); the runtime compares it when the library
// loads.
constexpr std::int32_t CheckOp(std::string_view signature, const KernelList& kernels,
                               RunFunction check) {
  const auto forms = ParseForms(signature);
  const std::string all = KernelLetters(forms[0]);
  for (std::uint64_t k = 0; k < kernels.n; ++k) {
    // Of the first letter: GCC takes a pointer to letters for no constant, even where they are
    // known.
    if (!__builtin_constant_p(kernels.first[k]->run.params[0])) continue;
    if (kernels.first[k]->run.params != all) a_kernel_does_not_fit_the_signature();
  }
  const std::string_view params = check.params;
  if (!params.empty() && !IsCheckOf(params, all.substr(0, forms[0].params.size()))) {
    the_check_does_not_fit_the_signature();
  }
  return 1;
}

}  // namespace detail

struct Op {
  std::uint32_t size = sizeof(Op);
  std::uint32_t reserved = 0;
  const char* signature = "";
  const char* gradient = "";
  const char* flops = "";
  const char* bytes = "";
  const char* means = "";
  const char* prepack = "";
  const char* commutes = "";
  KernelList kernels{};
  // void f(const Context&, the operator's parameters): calls Refuse. A parameter `const Tensor&` is
  // read, so that of a call on a device it is copied to the host; a `const TensorShape&` is not.
  RunFunction check{};
  std::int32_t checked = detail::CheckOp(signature, kernels, check);
  // Row r of a result whose type begins with `...` depends, bit for bit and however many rows the
  // call has, only on row r of arguments whose type begins with `...`, and on all of the other
  // arguments. Graphs cut calls of such operators by rows.
  std::int32_t rowwise = false;
  // As .check, but called in check mode (ANYOP_CHECK=1) alone: refuses data that harm no memory and
  // make results meaningless, such as two tokens for one slot or a scale of 0. It may allocate.
  RunFunction check_data{};
};
static_assert(sizeof(Op) == sizeof(anyop_op) &&
              offsetof(Op, signature) == offsetof(anyop_op, signature) &&
              offsetof(Op, kernels) == offsetof(anyop_op, n_kernels) &&
              offsetof(Op, check) == offsetof(anyop_op, check) &&
              offsetof(Op, checked) == offsetof(anyop_op, checked) &&
              offsetof(Op, rowwise) == offsetof(anyop_op, rowwise) &&
              offsetof(Op, check_data) == offsetof(anyop_op, check_data));

// The plain implementation that tests compare with: same parameters, every float read as f64
// (Read), every float result and mut argument an f64 tensor. Lives in reference.cc.
struct Reference {
  std::uint32_t size = sizeof(Reference);
  std::uint32_t reserved = 0;
  const char* op = "";
  RunFunction run{};
};
static_assert(sizeof(Reference) == sizeof(anyop_reference));

// Element `index` (an offset in elements from base) of a tensor of one of the dtypes f64 to bool,
// as a double.
[[gnu::always_inline]] inline double Read(const Tensor& t, std::int64_t index) {
  return Visit(t.type(), [&](auto zero) {
    using E = decltype(zero);
    // A host's bool may be any byte, and a C++ bool with another value than 0 and 1 is undefined.
    if constexpr (std::is_same_v<E, bool>) {
      return double(t.base<const std::uint8_t>()[index] != 0);
    } else if constexpr (std::is_class_v<E>) {
      return double(float(t.base<const E>()[index]));
    } else {
      return double(t.base<const E>()[index]);
    }
  });
}
// Element `index` of an index tensor (i32 or i64).
[[gnu::always_inline]] inline std::int64_t ReadIndex(const Tensor& t, std::int64_t index) {
  return t.type() == DType::kI64 ? t.base<const std::int64_t>()[index]
                                 : t.base<const std::int32_t>()[index];
}

}  // namespace anyop
