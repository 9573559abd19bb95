// SPDX-License-Identifier: Apache-2.0
// Casts from and to dtypes that few kernels compute with: a block of elements becomes whole numbers
// or doubles, and these the other dtype. So there is a function for each dtype, not for each pair.
#include "anyop/storage.h"

#include "ops/cast/cast.h"
#include "ops/common/elementwise/elementwise.h"

namespace anyop::ops {
namespace {

enum class Kind { kSigned, kUnsigned, kReal };

struct Block {
  static constexpr std::int64_t kElements = 64;
  Kind kind;
  std::uint64_t whole[kElements];  // with the sign's bits, of whole numbers
  double re[kElements], im[kElements];
};

using ReadFunction = void (*)(const void*, std::int64_t, Block&);
using WriteFunction = void (*)(const Block&, std::int64_t, bool, void*);

template <class From>
void ReadBlock(const void* from, std::int64_t n, Block& block) {
  const From* x = static_cast<const From*>(from);
  block.kind = !std::is_integral_v<From> ? Kind::kReal
               : std::is_signed_v<From>  ? Kind::kSigned
                                         : Kind::kUnsigned;
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, bool>) {
      block.whole[i] = static_cast<const std::uint8_t*>(from)[i] != 0;  // it may be any byte
    } else if constexpr (std::is_integral_v<From>) {
      block.whole[i] = std::uint64_t(x[i]);
    } else {
      block.re[i] = ToDouble(x[i]);
      block.im[i] = 0;
      if constexpr (requires { x->im; }) block.im[i] = x[i].im;
    }
  }
}

// One of the doubles that round to a float as the number does.
double RealOf(const Block& block, std::int64_t i) {
  if (block.kind == Kind::kReal) return block.re[i];
  return block.kind == Kind::kSigned ? RoundToOdd(std::int64_t(block.whole[i]))
                                     : RoundToOdd(block.whole[i]);
}

template <class To>
To Rounded(const Block& block, std::int64_t i, bool saturate) {
  if constexpr (std::is_same_v<To, double>) {
    if (block.kind == Kind::kSigned) return double(std::int64_t(block.whole[i]));
    return block.kind == Kind::kReal ? block.re[i] : double(block.whole[i]);
  } else if constexpr (std::is_same_v<To, float>) {
    return float(RealOf(block, i));
  } else {
    return Narrow<To>(RoundToOdd(RealOf(block, i)), saturate);
  }
}

template <class To>
void WriteBlock(const Block& block, std::int64_t n, bool saturate, void* to) {
  To* y = static_cast<To*>(to);
  const bool is_real = block.kind == Kind::kReal;
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<To, bool>) {
      y[i] = is_real ? block.re[i] != 0 || block.im[i] != 0 : block.whole[i] != 0;
    } else if constexpr (std::is_integral_v<To>) {
      y[i] = is_real ? Truncate<To>(block.re[i]) : To(block.whole[i]);
    } else if constexpr (requires { y->re; }) {
      using Part = decltype(y->re);
      y[i] = {Rounded<Part>(block, i, saturate), is_real ? Part(block.im[i]) : Part(0)};
    } else {
      y[i] = Rounded<To>(block, i, saturate);
    }
  }
}

ReadFunction FindRead(DType d) {
  return VisitStorage(d, [](auto zero) -> ReadFunction { return &ReadBlock<decltype(zero)>; });
}
WriteFunction FindWrite(DType d) {
  return VisitStorage(d, [](auto zero) -> WriteFunction {
    if constexpr (std::is_same_v<decltype(zero), F4E2M1X2>) {
      return nullptr;  // cast takes no pairs
    } else {
      return &WriteBlock<decltype(zero)>;
    }
  });
}

void Run(const Context& ctx, const Tensor& x, DType to, bool saturate, const Tensor& y) {
  const ReadFunction read = FindRead(x.type());
  const WriteFunction write = FindWrite(to);
  const int x_bytes = Bytes(x.type()), y_bytes = Bytes(to);
  // Bytes stay as they are, unless infinities saturate or what is not 0 becomes a 1.
  const bool is_same = x.type() == to && to != DType::kF8E5M2 && to != DType::kBool;
  const auto apply = [&](std::int64_t n, std::int64_t ix, std::int64_t iy) {
    const char* from = x.base<const char>() + ix * x_bytes;
    char* into = y.base<char>() + iy * y_bytes;
    if (is_same) {
      std::memcpy(into, from, std::size_t(n * x_bytes));
      return;
    }
    Block block;
    for (std::int64_t i = 0; i < n; i += Block::kElements) {
      const std::int64_t count = std::min(Block::kElements, n - i);
      read(from + i * x_bytes, count, block);
      write(block, count, saturate, into + i * y_bytes);
    }
  };
  ForRuns(ctx, 2, apply, x, y);
}

void RunBackward(const Context& ctx, const Tensor& dy, const Tensor& x, const Tensor* dx) {
  if (dx) Run(ctx, dy, x.type(), /*saturate=*/true, *dx);
}

}  // namespace

ANYOP_KERNEL(cast, storage){.name = "cpu_portable_storage", .run = Bind<&Run>()};
ANYOP_KERNEL(cast_backward, storage){.name = "cpu_portable_storage", .run = Bind<&RunBackward>()};

}  // namespace anyop::ops
