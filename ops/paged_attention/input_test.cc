// SPDX-License-Identifier: Apache-2.0
// What a call must bear: values that are no numbers, more threads than cores, a process that
// forked.
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "anyop/scope.h"
#include "optest/optest.h"

namespace anyop::optest::paged_attention_input_test {
namespace {

// One sequence of so many keys, 2 query heads on each of 2 key heads, queries at its end.
Call Chunk(DType query, DType cache, std::int64_t keys, std::int64_t queries,
           std::int64_t width = 24) {
  const std::int64_t bs = 16, blocks = (keys + bs - 1) / bs, h = 2;
  Call call("paged_attention", 5);
  Array q(query, {queries, 2 * h, width}), k(cache, {blocks, bs, h, width}), v = k;
  Array table(DType::kI32, {1, blocks}), lens(DType::kI32, {1}), starts(DType::kI32, {2});
  for (Array* x : {&q, &k, &v}) {
    for (std::int64_t i = 0; i < x->size(); ++i) x->Set(i, double(call.Draw(-50, 50)) / 16);
  }
  for (std::int64_t i = 0; i < blocks; ++i) table.SetInt(i, blocks - 1 - i);
  lens.SetInt(0, keys);
  starts.SetInt(1, queries);
  call.Set("query", q).Set("key_cache", k).Set("value_cache", v).Set("block_table", table);
  call.Set("seq_lens", lens).Set("query_start_loc", starts);
  return call;
}
void SetKey(Call& call, const char* cache, std::int64_t position, double value) {
  Array& x = call.array(cache);
  const std::int64_t block = x.dim(0) - 1 - position / 16;
  for (std::int64_t h = 0; h < x.dim(2); ++h) x.Set({block, position % 16, h, 3}, value);
}

const DType kQueries[] = {DType::kF32, DType::kBF16};

// Queries before a key that holds NaN keep their bits, whatever runs beside them; later ones are
// NaN. Few and many queries, keys at odd and even positions and at a tile's edge.
TEST(PagedAttention, NaNReachesTheQueriesThatSeeItAndNoOthers) {
  for (const DType dtype : kQueries) {
    for (const std::int64_t queries : {5, 71}) {
      for (const std::int64_t back : {1, 2, 4}) {
        for (const char* cache : {"key_cache", "value_cache"}) {
          const std::int64_t keys = 75, position = keys - back;
          Call call = Chunk(dtype, dtype, keys, queries);
          const auto clean = call.RunEveryKernel();
          SetKey(call, cache, position, std::nan(""));
          for (const auto& [kernel, results] : call.RunEveryKernel()) {
            const Array &y = results.at("y"), &z = clean.at(kernel).at("y");
            for (std::int64_t i = 0; i < y.size(); ++i) {
              const std::int64_t stands = keys - queries + i / (4 * 24);
              const bool is_hit = *cache == 'k' || i % 24 == 3;
              if (stands < position || !is_hit) {
                ASSERT_EQ(y.Get(i), z.Get(i)) << kernel << ", " << cache << " " << position;
              } else {
                ASSERT_TRUE(std::isnan(y.Get(i))) << kernel << ", " << cache << " " << position;
              }
            }
          }
        }
      }
    }
  }
}

TEST(PagedAttention, NaNInAQueryStaysInItsRow) {
  for (const DType dtype : kQueries) {
    for (const std::int64_t queries : {3, 40}) {
      Call call = Chunk(dtype, dtype, 90, queries);
      const auto clean = call.RunEveryKernel();
      call.array("query").Set({1, 2, 7}, std::nan(""));
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array &y = results.at("y"), &z = clean.at(kernel).at("y");
        for (std::int64_t i = 0; i < y.size(); ++i) {
          if (i / 24 == 4 + 2) {
            ASSERT_TRUE(std::isnan(y.Get(i))) << kernel;
          } else {
            ASSERT_EQ(y.Get(i), z.Get(i)) << kernel << " y" << y.IndexText(i);
          }
        }
      }
    }
  }
}

// No weight has a part of 0, which would make NaN of it.
TEST(PagedAttention, AnInfiniteValueIsOneForWhoSeesIt) {
  for (const DType dtype : kQueries) {
    for (const std::int64_t queries : {1, 3, 40}) {
      Call call = Chunk(dtype, dtype, 70, queries);
      SetKey(call, "value_cache", 12, std::numeric_limits<double>::infinity());
      Array& keys = call.array("key_cache");  // some weights are powers of 2: all scores are 0
      if (queries == 3) keys = Array(dtype, keys.shape());
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array& y = results.at("y");
        for (std::int64_t i = 3; i < y.size(); i += 24) {
          ASSERT_EQ(y.Get(i), std::numeric_limits<double>::infinity()) << kernel << " " << queries;
        }
      }
    }
  }
}

// A score of -inf is a key of weight 0; its value counts as long as it is a number.
TEST(PagedAttention, AnInfiniteKeyHasNoWeight) {
  for (const DType dtype : kQueries) {
    for (const std::int64_t queries : {1, 36}) {
      Call call = Chunk(dtype, dtype, 70, queries);
      Array& q = call.array("query");
      for (std::int64_t i = 3; i < q.size(); i += 24) q.Set(i, 1);
      SetKey(call, "key_cache", 12, -std::numeric_limits<double>::infinity());
      const Results exact = call.Exact();
      for (const auto& [kernel, results] : call.RunEveryKernel()) {
        const Array &y = results.at("y"), &e = exact.at("y");
        for (std::int64_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(y.Get(i), e.Get(i), dtype == DType::kF32 ? 1e-5 : 0.03) << kernel;
        }
      }
    }
  }
}

// Long enough to be split and shared: decode of one sequence, and a chunk of a prompt.
TEST(PagedAttention, ManyMoreThreadsThanCoresGiveTheSameBits) {
  for (const std::int64_t queries : {1, 100}) {
    Call call = Chunk(DType::kBF16, DType::kBF16, 4100, queries, 64);
    const auto run = [&](int threads) {
      Scope scope;
      scope.threads(threads);
      return call.Run();
    };
    const Results alone = run(1);
    for (const int threads : {2, 5, 64}) {
      const Results shared = run(threads);
      const Array &y = shared.at("y"), &z = alone.at("y");
      for (std::int64_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(y.Get(i), z.Get(i)) << threads << " threads, " << queries << " queries";
      }
    }
  }
}

TEST(PagedAttention, RunsInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
#endif
#ifdef ANYOP_EMULATED
  GTEST_SKIP() << "qemu allows no threads after a fork";
#endif
  Call call = Chunk(DType::kBF16, DType::kBF16, 4100, 100, 64);
  Scope scope;
  scope.threads(3);
  const Results ours = call.Run();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    const Results theirs = call.Run();
    bool same = true;
    const Array &y = ours.at("y"), &z = theirs.at("y");
    for (std::int64_t i = 0; i < y.size(); ++i) same = same && y.Get(i) == z.Get(i);
    _exit(same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace anyop::optest::paged_attention_input_test
