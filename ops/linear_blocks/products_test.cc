// SPDX-License-Identifier: Apache-2.0
// What products with a weight must bear: rows far apart in memory, more threads than cores, a
// process that forked.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "anyop/runtime.h"
#include "anyop/scope.h"
#include "optest/optest.h"

namespace anyop::linear_blocks_products_test {
namespace {

Array Waves(std::vector<std::int64_t> shape, DType dtype) {
  const Array wave = Array::Empty(shape, DType::kF32), y = Array::Empty(shape, dtype);
  for (std::int64_t i = 0; i < wave.size(); ++i) wave.data<float>()[i] = float(std::sin(double(i)));
  Call("cast", wave, dtype).into(y);
  return y;
}

// y [rows, n] of x bf16[rows, k], given where to write it.
struct Product {
  std::string name;
  std::function<void(const Array& x, const Array& y)> run;
};

// All ways from x[..., k] to y[..., n], with weights of their own.
std::vector<Product> Products(std::int64_t k, std::int64_t n) {
  const Array weight = Waves({n, k}, DType::kBF16), wide = Waves({n, k}, DType::kF32);
  const Array bytes = Array::Empty({n, k}, DType::kI8), scale = Array::Full({n}, DType::kF32, 0.01);
  for (std::int64_t i = 0; i < bytes.size(); ++i) bytes.data<std::int8_t>()[i] = std::int8_t(i * 7);
  const Array packed = Call("pack_weight", weight), packed_bytes = Call("pack_weight_int8", bytes);
  std::vector<Product> all{
      {"linear", [=](const Array& x, const Array& y) { Call("linear", x, weight).into(y); }},
      {"linear_packed",
       [=](const Array& x, const Array& y) { Call("linear_packed", x, packed, n).into(y); }},
      {"linear_int8",
       [=](const Array& x, const Array& y) { Call("linear_int8", x, bytes, scale).into(y); }},
      {"linear_int8_packed", [=](const Array& x, const Array& y) {
         Call("linear_int8_packed", x, packed_bytes, n, scale).into(y);
       }}};
  for (const char* format : {"q4_0", "q4_1", "q8_0"}) {
    const Array rows = Call("quantize_blocks", wide, format);
    const Array blocks = Call("pack_blocks", rows, format);
    for (const char* input : {"exact", "q8"}) {
      all.push_back({std::string("linear_blocks ") + input + " " + format,
                     [=](const Array& x, const Array& y) {
                       Call("linear_blocks", x, rows, nullptr, input, format).into(y);
                     }});
    }
    all.push_back(
        {std::string("linear_blocks_packed ") + format, [=](const Array& x, const Array& y) {
           Call("linear_blocks_packed", x, blocks, n, nullptr, format).into(y);
         }});
  }
  return all;
}

bool AreEqual(const Array& a, const Array& b) {
  for (std::int64_t i = 0; i < a.dim(0); ++i) {
    for (std::int64_t j = 0; j < a.dim(1); ++j) {
      if (a.at<std::uint16_t>(i, j) != b.at<std::uint16_t>(i, j)) return false;
    }
  }
  return true;
}

// Rows of bf16, 2^31 and some elements apart: only the pages that are used take memory.
Array FarRows(std::int64_t rows, std::int64_t columns) {
  const std::int64_t stride = (std::int64_t(1) << 31) + 64;
  const std::size_t bytes = std::size_t((rows - 1) * stride + columns) * 2;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return Array();
  const std::int64_t shape[] = {rows, columns}, strides[] = {stride, 1};
  return Array::Wrap(memory, shape, DType::kBF16, strides,
                     std::shared_ptr<void>(memory, [bytes](void* p) { munmap(p, bytes); }));
}

TEST(Products, TakeRowsFurtherApartThanThirtyTwoBitsCount) {
  constexpr std::int64_t kK = 160, kN = 70;
  const std::vector<Product> products = Products(kK, kN);
  for (const std::int64_t rows : {1, 3, 17}) {
    const Array x = Waves({rows, kK}, DType::kBF16), far_x = FarRows(rows, kK);
    const Array y = Array::Empty({rows, kN}, DType::kBF16), far_y = FarRows(rows, kN);
    if (far_x.is_none() || far_y.is_none()) GTEST_SKIP() << "no address space for such rows";
    Call("cast", x, DType::kBF16).into(far_x);
    for (const Product& product : products) {
      product.run(x, y);
      product.run(far_x, far_y);
      EXPECT_TRUE(AreEqual(y, far_y)) << product.name << " of " << rows << " rows";
    }
  }
}

TEST(Products, TakeAnyNumberOfRowsOfNothing) {
  constexpr std::int64_t kRows = (std::int64_t(1) << 33) + 1;
  const Array row = Waves({1, 64}, DType::kBF16);
  const std::int64_t shape[] = {kRows, 64}, strides[] = {0, 1}, none[] = {kRows, 0};
  const Array x = Array::Wrap(row.data(), shape, DType::kBF16, strides);
  const Array y = Array::Wrap(row.data(), none, DType::kBF16);
  for (const Product& product : Products(64, 0)) {
    EXPECT_NO_THROW(product.run(x, y)) << product.name;
  }
}

TEST(Products, AreTheSameBitsWithManyMoreThreadsThanCores) {
  constexpr std::int64_t kK = 576, kN = 1000;
  for (const std::int64_t rows : {1, 5, 40}) {
    const Array x = Waves({rows, kK}, DType::kBF16), y = Array::Empty({rows, kN}, DType::kBF16);
    for (const Product& product : Products(kK, kN)) {
      Scope scope;
      scope.threads(1);
      product.run(x, y);
      for (const int threads : {2, 64}) {
        const Array shared = Array::Zeros({rows, kN}, DType::kBF16);
        scope.threads(threads);
        product.run(x, shared);
        EXPECT_TRUE(AreEqual(y, shared)) << product.name << ", " << threads << " threads";
      }
    }
  }
}

TEST(Products, RunInAForkedChild) {
#if defined(__SANITIZE_THREAD__) || defined(__aarch64__)
  GTEST_SKIP() << "the thread sanitizer and qemu allow no threads after a fork";
#endif
  constexpr std::int64_t kK = 576, kN = 1000, kRows = 5;
  const Array x = Waves({kRows, kK}, DType::kBF16), y = Array::Empty({kRows, kN}, DType::kBF16);
  const std::vector<Product> products = Products(kK, kN);
  Scope scope;
  scope.threads(3);
  for (const Product& product : products) {
    product.run(x, y);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      const Array again = Array::Zeros({kRows, kN}, DType::kBF16);
      product.run(x, again);
      _exit(AreEqual(y, again) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << product.name << " " << status;
  }
}

}  // namespace
}  // namespace anyop::linear_blocks_products_test
