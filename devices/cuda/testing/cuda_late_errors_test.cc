// SPDX-License-Identifier: Apache-2.0
// Late errors of the library of NVIDIA's cards, over the driver for tests: wrong indices.
#include "cuda_testing.h"

namespace cuda_test {
namespace {

void Check(anyop_stream s, std::int64_t* ids, std::int64_t n, std::int64_t limit) {
  const DLTensor t = {ids, {2, 0}, 1, {0, 64, 1}, &n, nullptr, 0};
  const anyop_index_check check = {
      sizeof check, 0, limit, &t, "embedding: ids", ", but must be less than 4 (v)."};
  Must(Table().check_indices(s, &check));
}
constexpr const char* kWrong = "embedding: ids[1] is 9, but must be less than 4 (v).";

TEST(CudaLateErrors, TellsAWrongIndexOnceAndStopsWhatFollows) {
  const Stream s, other;
  std::int64_t* const ids = s.Brought<std::int64_t>({0, 9});
  const std::uint32_t* const failed = Table().failed(s);
  Check(s, ids, 2, 4);
  EXPECT_EQ(LateError(s), "");  // not yet, and nobody waits
  s.Wait();
  EXPECT_EQ(s.Read(failed, 1), std::vector<std::uint32_t>{1});
  EXPECT_EQ(other.Read(Table().failed(other), 1), std::vector<std::uint32_t>{0});
  EXPECT_EQ(LateError(other), "");
  EXPECT_EQ(LateError(s), kWrong);
  EXPECT_EQ(LateError(s), "");
  EXPECT_EQ(s.Read(failed, 1), std::vector<std::uint32_t>{0});
  Check(s, ids, 2, 10);
  s.Wait();
  EXPECT_EQ(LateError(s), "");
  s.Release(ids);
}

TEST(CudaLateErrors, KeepsTheErrorOfAStreamThatIsGone) {
  const Stream maker;
  std::int64_t* const ids = maker.Brought<std::int64_t>({0, 9});
  {
    const Stream s;
    Check(s, ids, 2, 4);
  }
  EXPECT_EQ(LateError(maker), "");
  EXPECT_EQ(LateError(maker, /*all=*/true), kWrong);
  EXPECT_EQ(LateError(maker, /*all=*/true), "");
  maker.Release(ids);
}

// The text of what is wrong with ids in two dimensions, or of offsets.
template <class T>
std::string Wrong(const std::vector<T>& values, bool is_offsets, std::vector<std::int64_t> shape,
                  std::int64_t limit = 4) {
  const Stream s;
  std::vector<T> all = {T(-7)};  // in front of where the tensor begins
  all.insert(all.end(), values.begin(), values.end());
  T* const ids = s.Brought(all);
  const DLTensor t = {ids,          {2, 0},  int(shape.size()), {0, 8 * sizeof(T), 1},
                      shape.data(), nullptr, sizeof(T)};
  const anyop_index_check check = {sizeof check, is_offsets, limit, &t, "take: ids", ", but must."};
  Must(Table().check_indices(s, &check));
  s.Wait();
  s.Release(ids);
  return LateError(s);
}

TEST(CudaLateErrors, SayWhatTheHostSays) {
  EXPECT_EQ(Wrong<std::int64_t>({0, 1, 2, 3, 9, 1}, false, {2, 3}),
            "take: ids[1, 1] is 9, but must.");
  EXPECT_EQ(Wrong<std::int64_t>({0, 3, -1}, false, {3}), "");  // negative: no entry
  EXPECT_EQ(Wrong<std::int32_t>({0, 4, -1}, false, {3}), "take: ids[1] is 4, but must.");
  EXPECT_EQ(Wrong<std::int32_t>({0, 3, -1}, false, {3}), "");
  EXPECT_EQ(Wrong<std::int64_t>({1, 2, 4}, true, {3}), "take: ids[0] is 1, but must be 0.");
  EXPECT_EQ(Wrong<std::int64_t>({0, 3, 1}, true, {3}),
            "take: ids[2] is 1, but must not be less than ids[1], which is 3.");
  EXPECT_EQ(Wrong<std::int32_t>({0, 3, 5}, true, {3}), "take: ids[2] is 5, but must.");
  EXPECT_EQ(Wrong<std::int32_t>({0, 3, 4}, true, {3}), "");
}

TEST(CudaLateErrors, OfTheDefaultStreamHaveBothItsNames) {
  const Stream maker;
  std::int64_t* const ids = maker.Brought<std::int64_t>({0, 9});
  const anyop_stream first = Table().default_stream(0);
  EXPECT_NE(first, nullptr);  // which means all streams to `synchronize`
  Check(first, ids, 2, 4);
  Must(Table().synchronize(0, first));
  EXPECT_EQ(LateError(nullptr), kWrong);
  maker.Release(ids);
}

TEST(CudaLateErrors, AreClearedAfterACaptureThatTheyWereTakenIn) {
  const Stream s;
  std::int64_t* const ids = s.Brought<std::int64_t>({0, 9});
  Check(s, ids, 2, 4);
  s.Wait();
  Driver().capturing = static_cast<anyop_stream>(s);
  EXPECT_EQ(LateError(s), kWrong);
  Driver().capturing = nullptr;
  EXPECT_EQ(s.Read(Table().failed(s), 1), std::vector<std::uint32_t>{0});
  s.Release(ids);
}

TEST(CudaLateErrors, AreToldOneByOne) {
  const Stream s, t;
  std::int64_t* const ids = s.Brought<std::int64_t>({0, 9});
  Check(s, ids, 2, 4);
  Check(t, ids, 2, 4);
  Must(Table().synchronize(0, nullptr));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(LateError(s, /*all=*/true), kWrong);
  EXPECT_EQ(LateError(s, /*all=*/true), "");
  Check(s, ids, 2, 4);  // a record serves again
  s.Wait();
  EXPECT_EQ(LateError(s), kWrong);
  s.Release(ids);
}

TEST(CudaLateErrors, AreCutToTheRoomThatThereIs) {
  const Stream s;
  std::int64_t* const ids = s.Brought<std::int64_t>({0, 9});
  Check(s, ids, 2, 4);
  s.Wait();
  std::array<char, 12> text;
  text.fill('#');
  EXPECT_EQ(Table().late_error(0, s, 0, text.data(), 10), ANYOP_INVALID_ARGUMENT);
  EXPECT_STREQ(text.data(), "embedding");
  EXPECT_EQ(text[10], '#');
  s.Release(ids);
}

}  // namespace
}  // namespace cuda_test
