// SPDX-License-Identifier: Apache-2.0
#include "ops/common/workspace.h"

#include <gtest/gtest.h>

#include "ops/common/attention/layout.h"
#include "ops/common/gemm/chunks.h"
#include "ops/common/gemm/rows.h"
#include "ops/common/row_sums.h"
#include "optest/gtest/sizes.h"

namespace anyop::ops::common_workspace_test {
namespace {

using optest::ExpectTheSameBytes;

template <class M>
void ExpectTheSameBytesOfProducts() {
  ExpectTheSameBytes<SizeText>([](const auto& s) {
    return ChunksWorkspace<M, std::decay_t<decltype(s[0])>>(s[0], s[1], s[2], s[3]);
  });
  ExpectTheSameBytes<SizeText>([](const auto& s) {
    return PackedWorkspace<M, std::decay_t<decltype(s[0])>>(s[0], s[1], s[2], s[3], true);
  });
}

TEST(Workspace, OfProductsIsTheSameInNamesAndInNumbers) {
  ExpectTheSameBytesOfProducts<PairMath<float>>();
  ExpectTheSameBytesOfProducts<PairMath<F16>>();
  ExpectTheSameBytesOfProducts<SplitMath>();
  ExpectTheSameBytes<SizeText>([](const auto& s) {
    return CopiesWorkspace<float, std::decay_t<decltype(s[0])>>(s[0], s[1]);
  });
}

TEST(Workspace, OfSumsIsTheSameInNamesAndInNumbers) {
  ExpectTheSameBytes<SizeText>([](const auto& s) {
    using N = std::decay_t<decltype(s[0])>;
    return RowSumsWorkspace<N>(s[0], s[1] * N(2));
  });
}

TEST(Workspace, OfAttentionIsTheSameInNamesAndInNumbers) {
  ExpectTheSameBytes<SizeText>([](const auto& s) {
    using N = std::decay_t<decltype(s[0])>;
    const N key_heads = s[3] + N(1);
    return AttentionWorkspace<N>(
        AttentionDims<N>{s[0], s[1], s[2], s[4] * key_heads, key_heads, s[5], s[6], s[7]});
  });
}

TEST(SizeText, KeepsTheOrderOfItsArithmetic) {
  const SizeText a = "a", b = "b", c = "rows(x)";
  EXPECT_EQ(((a + b) * c).text(), "(a + b)*rows(x)");
  EXPECT_EQ((a - (b - c)).text(), "a - (b - rows(x))");
  EXPECT_EQ((a * (b / c)).text(), "a*(b/rows(x))");
  EXPECT_EQ(((a + b) / c).text(), "((a + b)/rows(x))");
  EXPECT_EQ((SizeText(2) * 3 * a + std::int64_t{0}).text(), "6*a");
  EXPECT_EQ(CeilDiv(Min(a, b), Max(c, SizeText(1))).text(), "ceil_div(min(a, b), max(rows(x), 1))");
}

struct TwoParts : Workspace<std::int64_t> {
  Part<char, std::int64_t> first = Add<char>(65);
  Part<double, std::int64_t> second = Add<double>(9);
};

TEST(Workspace, EndsWithTheLineOfItsLastPart) {
  const TwoParts parts;
  EXPECT_EQ(parts.second.begin, 128);
  EXPECT_EQ(parts.bytes(), 256);
}

TEST(Placed, RefusesAWorkspaceThatIsSmallerThanItsParts) {
  alignas(64) char memory[256];
  Context ctx{};
  ctx.workspace = memory;
  ctx.workspace_bytes = 256;
  const TwoParts parts;
  EXPECT_EQ(static_cast<void*>(Placed(ctx, parts)[parts.second]), memory + 128);
  ctx.workspace_bytes = 255;
  try {
    const Placed placed(ctx, parts);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "the kernel's workspace has 255 bytes, but its parts take 256, and both must come "
                 "from one layout.");
  }
}

}  // namespace
}  // namespace anyop::ops::common_workspace_test
