// SPDX-License-Identifier: Apache-2.0
// Every signature of the operator library that the build made parses, has a schema, gives random
// calls in every form, and says the same of them in every kind of number. ANYOP_TEST_SIGNATURES may
// name a document of more, in blocks that ``` begins and ends.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "graph/ir/size_numbers.h"
#include "runtime/registry/registry.h"
#include "signature/expression.h"
#include "signature/generate.h"
#include "signature/symbolic.h"

namespace anyop::signatures_test {
namespace {

const anyop_library_info* Library() {
  void* file = dlopen((LibraryFolder() + "anyop_ops.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!file) ADD_FAILURE() << dlerror();
  const auto entry =
      file ? reinterpret_cast<anyop_library_fn>(dlsym(file, "anyop_library")) : nullptr;
  return entry ? entry() : nullptr;
}

// The forms of an operator lie in one block; lines that continue one begin with a space.
void AddBlocks(std::istream& document, std::vector<std::string>* all) {
  std::map<std::string, std::string> forms;  // by name
  std::string* last = nullptr;
  bool is_inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("```")) {
      is_inside = !is_inside;
      for (const auto& [name, text] : forms) all->push_back(text);
      forms.clear();
    } else if (is_inside && line[0] != ' ') {
      last = &forms[line.substr(0, line.find('('))];
      *last += line + "\n";
    } else if (is_inside) {
      *last += line + "\n";
    }
  }
}

// Sizes that are solved for and may come out below 0, which operators have seldom.
const std::vector<std::string> kOfSums = {
    "sum(x: f32[n+3]) -> (y: f32[n])",
    "difference(x: f32[m], y: f32[m-n]) -> (z: f32[n])",
    "mixed(x: f32[..., 2*n+4], y: f32[5-m]) -> (z: f32[..., n, m])",
    "negated(x: f32[7+-n], y: f32[n+m]) -> (z: f32[m])",
};

std::vector<std::string> Signatures() {
  std::vector<std::string> all;
  if (const auto* library = Library()) {
    for (std::uint32_t i = 0; i < library->n_ops; ++i) all.push_back(library->ops[i]->signature);
  }
  if (!all.empty()) all.insert(all.end(), kOfSums.begin(), kOfSums.end());
  if (const char* path = std::getenv("ANYOP_TEST_SIGNATURES")) {
    std::ifstream file(path);
    EXPECT_TRUE(file) << path;
    AddBlocks(file, &all);
  }
  return all;
}

TEST(Signatures, AllGiveRandomCallsInEveryForm) {
  const auto all = Signatures();
  if (all.empty()) GTEST_SKIP() << "no operator library was built";
  Random random(1);
  for (const std::string& text : all) {
    const auto c = ParseContract(text);
    for (int form = 0; form < int(c->forms.size()); ++form) {
      GenerateOptions options;
      options.form = form;
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(Generate(*c, random, options)) << c->name << ", form " << form;
      }
    }
  }
}

TEST(Signatures, TheirExpressionsCompile) {
  const auto* library = Library();
  if (!library) GTEST_SKIP() << "no operator library was built";
  for (std::uint32_t i = 0; i < library->n_ops; ++i) {
    const anyop_op& op = *library->ops[i];
    const auto c = ParseContract(op.signature, op.gradient);
    for (const char* text : {op.flops, op.bytes}) {
      if (!*text) continue;
      EXPECT_NO_THROW(CompileExpression(*c, text)) << text;
    }
    const anyop_kernel_list kernels =
        op.n_kernels ? anyop_kernel_list{op.n_kernels, op.kernels} : library->kernels[i];
    for (const anyop_kernel* kernel : std::span(kernels.first, kernels.n)) {
      if (!kernel) continue;
      EXPECT_NO_THROW(CompileConditions(*c, kernel->when)) << kernel->when;
      if (*kernel->workspace) {
        EXPECT_NO_THROW(CompileExpression(*c, kernel->workspace, ThreadsName::kKnown))
            << kernel->workspace;
      }
    }
  }
}

// What a kind of number says of a call.
struct Answer {
  int form = -1;
  std::string error;
  ResultShape results[kMaxResults];
};

Answer Checked(const Contract& c, const OwnedCall& call) {
  Answer a;
  Bindings b;
  const int form = Check(c, call.frame(), &b, &a.error);
  if (form >= 0 && InferResults(c, form, b, call.frame(), a.results, &a.error)) a.form = form;
  return a;
}

Answer Inferred(const Contract& c, const OwnedCall& call, std::uint64_t unknown = 0,
                Symbols* symbols = nullptr) {
  Answer a;
  a.form = InferPartial(c, call.frame(), unknown, a.results, &a.error, symbols);
  return a;
}

// Each size of a call, to be changed.
void ForEachSize(const Contract& c, OwnedCall* call, const std::function<void(std::int64_t*)>& f) {
  const auto each = [&](const DLTensor& t) {
    for (int k = 0; k < t.ndim; ++k) f(&t.shape[k]);
  };
  for (int i = 0; i < c.n_params(); ++i) {
    const anyop_value& v = (*call)[i];
    if (v.tag == ANYOP_TENSOR) each(*v.t);
    for (std::uint32_t k = 0; v.tag == ANYOP_TENSORS && k < v.count; ++k) each(*v.ts[k]);
  }
}

// A call, spoiled now and then.
std::optional<GeneratedCall> RandomCall(const Contract& c, Random& random) {
  auto g = Generate(c, random);
  if (!g || random() % 2) return g;
  int n = 0;
  ForEachSize(c, &g->call, [&](std::int64_t*) { ++n; });
  int at = n ? int(random() % std::uint64_t(n)) : -1;
  ForEachSize(c, &g->call, [&](std::int64_t* size) {
    if (at-- == 0) *size = std::max<std::int64_t>(0, *size + std::int64_t(random() % 9) - 4);
  });
  return g;
}

// Calls of each signature, with the number of those that are refused.
void ForEachCall(const std::function<void(const Contract&, OwnedCall*, const Answer&)>& f) {
  const auto all = Signatures();
  if (all.empty()) GTEST_SKIP() << "no operator library was built";
  Random random(2);
  int calls = 0, refused = 0;
  for (const std::string& text : all) {
    const auto c = ParseContract(text);
    for (int k = 0; k < 100; ++k) {
      auto g = RandomCall(*c, random);
      if (!g) continue;
      const Answer want = Checked(*c, g->call);
      SCOPED_TRACE(c->name + ": " + g->call.Text());
      f(*c, &g->call, want);
      ++calls, refused += want.form < 0;
    }
  }
  EXPECT_GT(calls, 75 * int(all.size()));
  EXPECT_GT(refused, 15 * int(all.size()));
}

// What is known of a result must be so; reveal: the size that a symbol stands for.
void ExpectNotWrong(const Contract& c, const Answer& got, const Answer& want,
                    const std::function<std::int64_t(std::int64_t)>& reveal) {
  for (int r = 0; r < c.n_results(); ++r) {
    const ResultShape &g = got.results[r], &w = want.results[r];
    EXPECT_EQ(g.dtype, w.dtype);
    EXPECT_TRUE(g.rank < 0 || g.rank == w.rank) << g.rank;
    for (int k = 0; k < g.rank; ++k) {
      EXPECT_TRUE(g.shape[k] == -1 || reveal(g.shape[k]) == w.shape[k]) << k;
    }
  }
}

TEST(Numbers, InferenceWithNothingUnknownIsTheCheck) {
  ForEachCall([](const Contract& c, OwnedCall* call, const Answer& want) {
    const Answer got = Inferred(c, *call);
    EXPECT_EQ(got.form, want.form);
    EXPECT_EQ(got.error, want.error);
    if (want.form < 0) return;
    for (int r = 0; r < c.n_results(); ++r) {
      EXPECT_EQ(std::vector(got.results[r].shape, got.results[r].shape + got.results[r].rank),
                std::vector(want.results[r].shape, want.results[r].shape + want.results[r].rank));
      EXPECT_EQ(got.results[r].bytes, want.results[r].bytes);
    }
  });
}

TEST(Numbers, WhatIsInferredWithUnknownOnesIsRight) {
  Random random(3);
  int known = 0;
  ForEachCall([&](const Contract& c, OwnedCall* call, const Answer& want) {
    if (want.form < 0) return;
    ForEachSize(c, call, [&](std::int64_t* size) { *size = random() % 2 ? -1 : *size; });
    std::uint64_t unknown = 0;
    for (int i = 0; i < c.n_params(); ++i) {
      const ParamKind kind = c.forms[0].params[std::size_t(i)].kind;
      const bool is_left = IsTensor(kind) || kind == ParamKind::kDType || (*call)[i].tag == 0;
      unknown |= std::uint64_t(!is_left && random() % 4 == 0) << i;
      if (kind != ParamKind::kTensor || (*call)[i].tag == 0 || random() % 8) continue;
      call->SetTensor(i, DType(FromDL((*call)[i].t->dtype)), UnknownRank());
    }
    const Answer got = Inferred(c, *call, unknown);
    if (got.error.ends_with(" depends on what is not known yet.")) return;  // a dtype
    ASSERT_GE(got.form, 0) << got.error;
    ExpectNotWrong(c, got, want, [&](std::int64_t size) { return ++known, size; });
  });
  EXPECT_GT(known, 1000);
}

// A host's integers, that tell nobody what they are.
class HiddenNumbers : public Symbols {
 public:
  Number Compute(NodeOp op, const Number& a, const Number& b) override {
    const Number x = Reveal(a), y = Reveal(b);
    if (op == NodeOp::kNeg) return Hide(Negative(nullptr, x));
    if (op == NodeOp::kNot) return Hide(Int(!x.i));
    if (op == NodeOp::kAnd) return Hide(Int(x.i && y.i));
    if (op == NodeOp::kOr) return Hide(Int(x.i || y.i));
    const Number n = anyop::Compute(nullptr, op, x, y);
    has_faulted_ |= n.fault != Fault::kNone;
    return Hide(n);
  }
  bool IsSame(const Number&, const Number&) override { return false; }

  Number Hide(const Number& n) {
    hidden_.push_back(n);
    Number symbol;
    symbol.symbol = std::uint32_t(hidden_.size());
    return symbol;
  }
  Number Reveal(const Number& n) const { return n.symbol ? hidden_[n.symbol - 1] : n; }
  std::int64_t Reveal(std::int64_t size) const {
    return IsSymbol(size) ? hidden_[SymbolOf(size) - 1].i : size;
  }
  bool Hold() const {
    return !has_faulted_ && std::all_of(requirements.begin(), requirements.end(),
                                        [&](const auto& r) { return Reveal(r.holds).i != 0; });
  }

 private:
  std::vector<Number> hidden_;
  bool has_faulted_ = false;
};

TEST(Numbers, SymbolsOfAHostRequireWhatTheCheckRefuses) {
  Random random(4);
  int required = 0;
  ForEachCall([&](const Contract& c, OwnedCall* call, const Answer& want) {
    HiddenNumbers numbers;
    const auto hide = [&](std::int64_t v) {
      return random() % 4 ? BitsOfSymbol(numbers.Hide(Int(v)).symbol) : v;
    };
    ForEachSize(c, call, [&](std::int64_t* size) { *size = hide(*size); });
    for (int i = 0; i < c.n_params(); ++i) {
      anyop_value& v = (*call)[i];
      if (v.tag == ANYOP_INT || v.tag == ANYOP_BOOL) v.i = hide(v.i);
      if (v.tag == ANYOP_FLOAT)
        v.f = std::bit_cast<double>(BitsOfSymbol(numbers.Hide(Float(v.f)).symbol));
    }
    const Answer got = Inferred(c, *call, 0, &numbers);
    bool is_right = got.form >= 0 && numbers.Hold();
    for (int r = 0; is_right && r < c.n_results(); ++r) {
      for (int k = 0; k < got.results[r].rank; ++k) {
        is_right &= numbers.Reveal(got.results[r].shape[k]) >= 0;
      }
    }
    ASSERT_EQ(is_right, want.form >= 0) << got.error << want.error;
    required += int(numbers.requirements.size());
    if (!is_right) return;
    EXPECT_EQ(got.form, want.form);
    ExpectNotWrong(c, got, want, [&](std::int64_t size) { return numbers.Reveal(size); });
  });
  EXPECT_GT(required, 1000);
}

// A polynomial over `symbols` that is `size` where they have these values.
Size PolynomialOf(std::int64_t size, const std::vector<std::int64_t>& symbols, Random& random) {
  const int k = int(random() % symbols.size());
  const std::int64_t value = symbols[std::size_t(k)], factor = 1 + std::int64_t(random() % 3);
  if (random() % 3 == 0) return Size(size);
  if (size >= factor * value || random() % 4 == 0) {
    return Size(factor) * Size::Symbol(k) + Size(size - factor * value);
  }
  return Size::Symbol(k) + Size(size - value);
}

TEST(Numbers, WhatIsProvenOfTheSizesOfAGraphHoldsAtEachSize) {
  Random random(5);
  int proven = 0, open = 0;
  ForEachCall([&](const Contract& c, OwnedCall* call, const Answer& want) {
    const std::vector<std::int64_t> symbols = {1, 2, 3, 8};
    SizeNumbers numbers;
    for (int s = 0; s < int(symbols.size()); ++s) numbers.AddSizeSymbol(s);
    std::map<std::int64_t, Size> known;  // equal sizes are mostly the same polynomial
    ForEachSize(c, call, [&](std::int64_t* size) {
      if (!known.contains(*size) || random() % 8 == 0) {
        known[*size] = PolynomialOf(*size, symbols, random);
      }
      *size = numbers.Bits(known[*size]);
    });
    const Answer got = Inferred(c, *call, 0, &numbers);
    bool is_right = got.form >= 0 && numbers.is_sure();
    const auto reveal = [&](std::int64_t size) {
      if (!IsSymbol(size)) return size;
      Number n;
      n.symbol = SymbolOf(size);
      return numbers.ToSize(n).At(symbols);
    };
    for (int r = 0; got.form >= 0 && r < c.n_results(); ++r) {
      for (int k = 0; k < got.results[r].rank; ++k)
        is_right &= reveal(got.results[r].shape[k]) >= 0;
    }
    EXPECT_TRUE(!is_right || want.form == got.form) << want.error;
    EXPECT_TRUE(got.form >= 0 || want.form < 0) << got.error;
    if (got.form >= 0 && want.form >= 0) ExpectNotWrong(c, got, want, reveal);
    ++(is_right ? proven : open);
  });
  EXPECT_GT(proven, 1000);
  EXPECT_GT(open, 1000);
}

}  // namespace
}  // namespace anyop::signatures_test
