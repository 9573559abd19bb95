// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "ops/common/latent/testing.h"
#include "ops/sparse_mla_decode_step/reference.h"
#include "optest/exact.h"
#include "optest/frame.h"

namespace anyop::optest::sparse_mla_decode_step_test {
namespace {

constexpr const char* kCaches[] = {"kv_cache", "rope_cache", "index_cache"};

// The reference over a call's arguments. The caches are f64, as in the reference's own call.
template <class F>
void WithReference(const Call& call, F use) {
  std::vector<Argument> arguments = call.arguments();
  const std::vector<Argument> wide = WideArguments(arguments);
  for (std::size_t i = 18; i <= 20; ++i) arguments[i] = wide[i];
  Frame frame(call.op(), arguments);
  const auto at = [&](int i) -> const Tensor& {
    return static_cast<const Tensor&>(*frame.values()[i].t);
  };
  const ops::reference::StepReference step({at(0),
                                            at(1),
                                            at(2),
                                            at(3),
                                            at(4),
                                            at(5),
                                            at(6),
                                            at(7),
                                            at(8),
                                            at(9),
                                            at(10),
                                            at(11),
                                            at(12),
                                            at(13),
                                            at(14),
                                            at(15),
                                            at(16),
                                            at(17),
                                            at(18),
                                            at(19),
                                            at(20),
                                            call.integer("top"),
                                            call.number("scale"),
                                            call.number("eps"),
                                            call.number("index_eps"),
                                            call.word("style") == "gptj",
                                            call.word("index_style") == "gptj"});
  use(step);
}

// How far rounding may move a step's results, relative to the largest: two units of T where
// another neighbour was taken, and the sums of f32, whose terms cancel to about a root of them.
double UnitOf(const Call& call) {
  const DType dtype = call.array("x").dtype();
  const double of_t = dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kF16 ? 0x1p-11 : 0;
  const double terms = call.value("max(max(dm, ql), c + r)");
  return 2 * of_t + (8 + 2 * std::sqrt(terms)) * std::sqrt(terms) * kU;
}

// A number of keys between whose last score and the next one more lies than roundings may move, for
// every token; the one that leaves out most. Rounding may choose otherwise with any other.
std::int64_t ClearTop(const Call& call) {
  const std::int64_t all = std::max<std::int64_t>(call.size("mb * bs"), 1);
  std::vector<bool> is_clear(std::size_t(all), true);
  WithReference(call, [&](const ops::reference::StepReference& step) {
    for (std::int64_t token = 0; token < call.size("t"); ++token) {
      std::vector<ops::reference::SeenKey> keys = step.Keys(token);
      double terms = 0;
      for (const auto& key : keys) terms = std::max(terms, key.terms);
      std::sort(keys.begin(), keys.end(),
                [](const auto& a, const auto& b) { return a.score > b.score; });
      for (std::size_t n = 1; n < keys.size(); ++n) {
        const double gap = keys[n - 1].score - keys[n].score;
        if (gap <= 4 * UnitOf(call) * terms) is_clear[n] = false;
      }
    }
  });
  for (std::int64_t n = 1; n < all; ++n) {
    if (is_clear[std::size_t(n)]) return n;
  }
  return all;
}

int g_calls_that_choose = 0;

void Prepare(Call& call) {
  MakeLatentTables(call);
  const std::int64_t slots = call.size("nb * bs");
  std::vector<std::int64_t> free(static_cast<std::size_t>(slots));
  std::iota(free.begin(), free.end(), 0);
  std::shuffle(free.begin(), free.end(), call.random());
  Array& mapping = call.array("slot_mapping");
  for (std::int64_t i = 0; i < mapping.size(); ++i) {
    const bool none = free.empty() || call.Draw(0, 4) == 0;
    mapping.SetInt(i, none ? -1 : free.back());
    if (!none) free.pop_back();
  }
  call.Set("top", ClearTop(call));
  g_calls_that_choose += call.integer("top") < call.size("mb * bs");
}

double LargestOf(const Tensor& cache) {
  double most = 0;
  for (std::int64_t r = 0; r < cache.rows(); ++r) {
    for (const double v : cache.row<const double>(r)) most = std::max(most, std::abs(v));
  }
  return most;
}

// Of y: what the scores' errors change of the weights, and the error of what they weigh.
Allowed Allowance(const Call& call) {
  double query = 0, keys = 0, most = 0;
  WithReference(call, [&](const ops::reference::StepReference& step) {
    for (std::int64_t token = 0; token < call.size("t"); ++token) {
      for (const auto& row : step.Queries(token)) {
        for (const double v : row) query = std::max(query, std::abs(v));
      }
    }
    keys = std::max(LargestOf(step.s.kv_cache), LargestOf(step.s.rope_cache));
    most = std::max(keys, LargestOf(step.s.index_cache));
  });
  const double width = std::sqrt(call.value("c + r")), unit = UnitOf(call);
  const double score = std::abs(call.number("scale")) * width * query * keys * unit;
  return [=](const Element& e) {
    if (e.result == "y") return 0.51 * e.ulp() + (2 * score + unit) * keys;
    // What no token was stored over has its bits.
    if (e.call.array(e.result).Get(e.index) == e.exact) return 0.0;
    return 1.01 * e.ulp() + unit * most;
  };
}

const OpTest kStep{
    .op = "sparse_mla_decode_step",
    .tolerance = Tolerance(Allowance),
    .sizes = {"t = 1, b = 1, dm = 64, ql = 32, h = 4, dn = 16, c = 32, r = 8, hi = 4, di = 16, "
              "nb = 4, bs = 16, mb = 4, p = 64",
              "t = 5, b = 2, dm = 33, ql = 20, h = 3, dn = 9, c = 24, r = 6, hi = 3, di = 10, "
              "nb = 9, bs = 4, mb = 7, p = 40",
              "t = 6, b = 3, dm = 16, ql = 8, h = 2, dn = 4, c = 8, r = 4, hi = 5, di = 8, "
              "nb = 6, bs = 2, mb = 5, p = 9"},
    .ranges = {{"scale", {-0.2, 0.2}},
               {"eps", {0.05, 1}},
               {"index_eps", {0.05, 1}},
               {"x", {-1, 1}},
               {"w_q_a", {-0.5, 0.5}},
               {"w_q_b", {-0.5, 0.5}},
               {"w_uk", {-0.5, 0.5}},
               {"w_kv_a", {-0.5, 0.5}}},
    .prepare = Prepare,
};
TEST(SparseMlaDecodeStep, MatchesItsReference) {
  CheckAll(kStep);
  EXPECT_GT(g_calls_that_choose, 50);  // others attend to all keys
}

// `tokens` new tokens at the end of each sequence of `lens`, in blocks of 4 of which no sequence
// shares one; random numbers, but NaN in the caches beyond the sequences.
Call Small(const std::vector<std::int64_t>& lens, std::int64_t tokens = 1) {
  const std::int64_t b = std::int64_t(lens.size()), t = b * tokens, columns = 4,
                     blocks = columns * b;
  Call call("sparse_mla_decode_step", 7);
  const auto random = [&](std::vector<std::int64_t> shape) {
    Array a(DType::kF32, std::move(shape));
    for (std::int64_t i = 0; i < a.size(); ++i) a.Set(i, double(call.Draw(-100, 100)) / 100);
    return a;
  };
  const std::pair<const char*, std::vector<std::int64_t>> arrays[] = {
      {"x", {t, 10}},
      {"cos_sin_cache", {20, 4}},
      {"w_q_a", {8, 10}},
      {"q_norm", {8}},
      {"w_q_b", {3 * 9, 8}},
      {"w_kv_a", {10, 10}},
      {"kv_norm", {6}},
      {"w_uk", {3, 5, 6}},
      {"w_iq", {2 * 8, 8}},
      {"w_ik", {8, 10}},
      {"ik_weight", {8}},
      {"ik_bias", {8}},
      {"w_iw", {2, 10}},
      {"kv_cache", {blocks, 4, 6}},
      {"rope_cache", {blocks, 4, 4}},
      {"index_cache", {blocks, 4, 8}}};
  for (const auto& [name, shape] : arrays) call.Set(name, random(shape));
  Array positions(DType::kI64, {t}), slots = positions, table(DType::kI32, {b, columns});
  Array seq_lens(DType::kI32, {b}), starts(DType::kI32, {b + 1});
  for (std::int64_t s = 0; s < b; ++s) {
    const std::int64_t length = lens[std::size_t(s)];
    seq_lens.SetInt(s, length);
    starts.SetInt(s + 1, (s + 1) * tokens);
    for (std::int64_t c = 0; c < columns; ++c) table.SetInt(s * columns + c, c * b + b - 1 - s);
    const auto slot = [&](std::int64_t j) { return table.GetInt(s * columns + j / 4) * 4 + j % 4; };
    for (std::int64_t i = 0; i < tokens; ++i) {
      positions.SetInt(s * tokens + i, length - tokens + i);
      slots.SetInt(s * tokens + i, slot(length - tokens + i));
    }
    for (std::int64_t j = length; j < columns * 4; ++j) {
      for (const char* name : kCaches) {
        Array& cache = call.array(name);
        for (std::int64_t e = 0; e < cache.dim(2); ++e) {
          cache.Set(slot(j) * cache.dim(2) + e, std::nan(""));
        }
      }
    }
  }
  call.Set("positions", positions).Set("slot_mapping", slots).Set("block_table", table);
  call.Set("seq_lens", seq_lens).Set("query_start_loc", starts);
  return call.Set("top", 3).Set("scale", 0.7);
}
Array YOf(Call call) { return call.Run().at("y"); }
Array Row(const Array& x, std::int64_t i) {
  Array row(x.dtype(), {x.size() / x.dim(0)});
  for (std::int64_t e = 0; e < row.size(); ++e) row.Set(e, x.Get(i * row.size() + e));
  return row;
}

TEST(SparseMlaDecodeStep, EveryArgumentCounts) {
  // Positions and sines of two tokens, of which the second is not at the last slot of a block.
  const Call call = Small({6, 9}, 2);
  const Results usual = Call(call).Run();
  const auto differs = [&](const std::string& name, Call other) {
    EXPECT_NE(other.Run(), usual) << name << " is ignored";
  };
  for (std::size_t i = 0; i < call.arguments().size(); ++i) {
    const std::string name(call.op().contract->forms[0].params[i].name);
    const auto* array = std::get_if<Array>(&call.arguments()[i]);
    if (!array || !IsFloat(array->dtype())) continue;
    Call other = call;
    Array& changed = other.array(name);
    for (std::int64_t e = 0; e < changed.size(); ++e) changed.Set(e, 0.1 - 1.5 * changed.Get(e));
    differs(name, other);
  }
  const auto with_number = [&](const char* name, std::int64_t at, std::int64_t value) {
    Call other = call;
    other.array(name).SetInt(at, value);
    differs(name, other);
  };
  with_number("positions", 1, 15);
  with_number("slot_mapping", 1, -1);
  with_number("block_table", 0, -1);
  with_number("seq_lens", 0, 5);
  with_number("query_start_loc", 1, 1);
  differs("top", Call(call).Set("top", 2));
  differs("scale", Call(call).Set("scale", 0.3));
  differs("eps", Call(call).Set("eps", 0.1));
  differs("index_eps", Call(call).Set("index_eps", 10.0));
  differs("style", Call(call).Set("style", "neox"));
  differs("index_style", Call(call).Set("index_style", "gptj"));
}

TEST(SparseMlaDecodeStep, TokensOfOneCallSeeEachOtherCausally) {
  const Call together = Small({7}, 3);
  Call one_by_one = Small({7}, 1);
  const Array y = YOf(together);
  for (std::int64_t i = 0; i < 3; ++i) {
    one_by_one.Set("x", Array(DType::kF32, {1, 10}));
    for (std::int64_t e = 0; e < 10; ++e) {
      one_by_one.array("x").Set(e, together.array("x").Get(i * 10 + e));
    }
    for (const char* name : {"positions", "slot_mapping"}) {
      one_by_one.array(name).SetInt(0, together.array(name).GetInt(i));
    }
    if (i == 0) {
      for (const char* name : kCaches) one_by_one.Set(name, together.array(name));
      for (std::size_t k = 6; k <= 17; ++k) {
        const std::string name(together.op().contract->forms[0].params[k].name);
        one_by_one.Set(name, together.array(name));
      }
    }
    one_by_one.array("seq_lens").SetInt(0, 5 + i);
    const Array alone = Row(one_by_one.Run().at("y"), 0);
    for (std::int64_t e = 0; e < alone.size(); ++e) {
      EXPECT_NEAR(alone.Get(e), Row(y, i).Get(e), 1e-5) << "token " << i;
    }
  }
}

TEST(SparseMlaDecodeStep, LengthsAreThoseOfTheSequencesAndTheRestIsNotRead) {
  const Call both = Small({13, 3});
  const Array y = YOf(both);
  for (std::int64_t i = 0; i < y.size(); ++i) EXPECT_TRUE(std::isfinite(y.Get(i)));
  // The second sequence has 3 keys, whatever the first has: its key 3 is not seen.
  Call other = both;
  const std::int64_t slot = both.array("block_table").GetInt(4) * 4 + 3;
  for (const char* name : kCaches) {
    Array& cache = other.array(name);
    for (std::int64_t e = 0; e < cache.dim(2); ++e) cache.Set(slot * cache.dim(2) + e, 100);
  }
  EXPECT_EQ(YOf(other), y);
}

TEST(SparseMlaDecodeStep, TokensWithoutASlotAreNotStored) {
  Call call = Small({5, 6});
  call.array("slot_mapping").SetInt(0, -1);
  call.array("slot_mapping").SetInt(1, -1);
  for (const char* name : kCaches) {
    for (std::int64_t i = 0; i < call.array(name).size(); ++i) {
      if (std::isnan(call.array(name).Get(i))) call.array(name).Set(i, 5);
    }
  }
  const Call kept = call;
  (void)call.Run();
  for (const char* name : kCaches) EXPECT_EQ(call.array(name), kept.array(name)) << name;
}

TEST(SparseMlaDecodeStep, ATopBeyondAllKeysIsAllOfThem) {
  const Call call = Small({6, 11});
  const Array all = YOf(Call(call).Set("top", 16));
  EXPECT_EQ(YOf(Call(call).Set("top", 11)), all);
  EXPECT_EQ(YOf(Call(call).Set("top", std::int64_t{1} << 50)), all);
  EXPECT_NE(YOf(Call(call).Set("top", 5)), all);
}

TEST(SparseMlaDecodeStep, TokensBeyondTheLastSequenceAreZeroAndAreStored) {
  Call call = Small({5, 6});
  call.array("query_start_loc").SetInt(2, 1);
  const Results results = call.Run();
  for (std::int64_t e = 0; e < 18; ++e) EXPECT_EQ(Row(results.at("y"), 1).Get(e), 0);
  const std::int64_t slot = call.array("slot_mapping").GetInt(1);
  EXPECT_NE(results.at("kv_cache").Get(slot * 6), Small({5, 6}).array("kv_cache").Get(slot * 6));
}

// Refusal() sees to it that no byte was written.
TEST(SparseMlaDecodeStep, RefusesBeforeAnythingIsStored) {
  const auto with_number = [](const char* name, std::int64_t at, std::int64_t value) {
    Call call = Small({5, 6});
    call.array(name).SetInt(at, value);
    return call.Refusal();
  };
  const std::string op = "sparse_mla_decode_step: ";
  EXPECT_EQ(with_number("block_table", 5, 8),
            op + "block_table[1, 1] is 8, but must be less than 8 (the blocks of kv_cache). Try -1 "
                 "for a block that does not exist.");
  EXPECT_EQ(with_number("seq_lens", 1, 17),
            op + "seq_lens[1] is 17, but must be at most 16 (4 columns of block_table, blocks of "
                 "4).");
  EXPECT_EQ(with_number("positions", 1, 20),
            op + "positions[1] is 20, but must be less than 20 (p).");
  EXPECT_EQ(with_number("slot_mapping", 0, 32),
            op + "slot_mapping[0] is 32, but must be less than 32 (nb*bs, nb is 8, bs is 4).");
  EXPECT_EQ(with_number("query_start_loc", 2, 3),
            op + "query_start_loc[2] is 3, but must be at most 2 (t).");
  Call call = Small({5, 6});
  Array lens(DType::kI64, {2}), starts(DType::kI64, {3});
  lens.SetInt(1, std::int64_t{1} << 31);
  starts.SetInt(2, 2);
  EXPECT_EQ(call.Set("seq_lens", lens).Set("query_start_loc", starts).Refusal(),
            op + "seq_lens[1] is 2147483648, but must be less than 2147483648, because the "
                 "indexer's positions are i32.");
  EXPECT_EQ(Small({5}).Set("index_eps", -1.0).Refusal(),
            op + "index_eps >= 0 must hold, but index_eps is -1.0.");
}

TEST(SparseMlaDecodeStep, RefusesTwoTokensInOneSlotInCheckMode) {
  Call call = Small({5, 6});
  call.array("slot_mapping").SetInt(1, call.array("slot_mapping").GetInt(0));
  EXPECT_NO_THROW(Call(call).Run());
  const Checking checking;
  EXPECT_EQ(call.Refusal(),
            "sparse_mla_decode_step: slot_mapping[1] is " +
                std::to_string(call.array("slot_mapping").GetInt(0)) +
                ", but must differ from slot_mapping[0], because a slot holds one token.");
}

}  // namespace
}  // namespace anyop::optest::sparse_mla_decode_step_test
