// SPDX-License-Identifier: Apache-2.0
// penalties: makes tokens that have occurred less (or more) likely, in place.
//
//   seen in prompt or output:  l = l > 0 ? l / repetition : l * repetition
//   seen n times in output:    l = l - frequency * n, then l = l - presence
//
//   prompt_tokens, output_tokens  padded with negative numbers or with v
//   repetition, frequency, presence  per row; 1, 0, 0 leave the row as it is, to the bit.
//                                    repetition is above 0 (check mode refuses others)
//
// Numerics  Each step rounded to f32, no fused multiply-add. Logits of tokens that have not
//           occurred keep their bits.
// Source    arXiv:1909.05858; vLLM 0.27.1.
#include <algorithm>
#include <string>

#include "anyop/op.h"
#include "ops/common/check_data.h"
#include "ops/common/workspace.h"

namespace anyop::ops {
namespace {

// How often each token of a row has occurred: a hash table with at least half its entries free.
class Counts {
 public:
  struct Entry {
    std::int32_t token, count;  // token -1: free
  };
  Counts(Entry* entries, std::int64_t size) : entries_(entries), size_(size) {
    std::fill_n(entries, size, Entry{-1, 0});
  }
  void Add(std::int64_t token, int count) {
    const std::uint32_t hash = std::uint32_t(token) * 2654435769u;
    std::int64_t i = std::int64_t(std::uint64_t(hash) * std::uint64_t(size_) >> 32);
    while (entries_[i].token >= 0 && entries_[i].token != token) i = i + 1 < size_ ? i + 1 : 0;
    entries_[i].token = std::int32_t(token);
    entries_[i].count += count;
  }
  std::span<const Entry> entries() const { return {entries_, std::size_t(size_)}; }

 private:
  Entry* entries_;
  std::int64_t size_;
};

// A table for each of the rows that run at once.
template <class N>
struct CountsWorkspace : Workspace<N> {
  Part<Counts::Entry, N> tables;  // [rows][size]
  constexpr CountsWorkspace(N rows, N size)
      : tables(this->template Add<Counts::Entry>(rows * size)) {}
};
template <class N>
constexpr N TableSize(N prompt, N output) {
  return N(2) * (prompt + output) + N(1);
}
constexpr SizeText CountsBytes() {
  const SizeText size = TableSize<SizeText>("p", "o");
  return CountsWorkspace<SizeText>(Min(SizeText("b"), "threads"), size).bytes();
}

struct Penalty {
  float repetition, frequency, presence;
  bool is_none() const { return repetition == 1 && frequency == 0 && presence == 0; }
  float Apply(float l, std::int32_t count) const {
    l = l > 0 ? l / repetition : l * repetition;
    if (count == 0) return l;
    const float used = frequency * float(count);
    return (l - used) - presence;
  }
};

void CheckTokens(const char* name, const Tensor& tokens, std::int64_t v) {
  for (std::int64_t r = 0; r < tokens.dim(0); ++r) {
    for (std::int64_t j = 0; j < tokens.dim(1); ++j) {
      const std::int64_t token = ReadIndex(tokens, r * tokens.stride(0) + j);
      if (token <= v) continue;
      Refuse(std::string(name) + "[" + std::to_string(r) + ", " + std::to_string(j) + "] is " +
             std::to_string(token) + ", but must be at most " + std::to_string(v) +
             ", the vocabulary size, which stands for padding.");
    }
  }
}

void Check(const Context&, const TensorShape& logits, const Tensor& prompt_tokens,
           const Tensor& output_tokens, const TensorShape&, const TensorShape&,
           const TensorShape&) {
  CheckTokens("prompt_tokens", prompt_tokens, logits.dim(1));
  CheckTokens("output_tokens", output_tokens, logits.dim(1));
}

void CheckRepetition(const Context&, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor& repetition, const Tensor&, const Tensor&) {
  CheckElements(
      "repetition", repetition, [](double r) { return r > 0; },
      "above 0, because logits are divided by it");
}

void Count(const Tensor& tokens, std::int64_t row, std::int64_t v, int weight, Counts* counts) {
  for (std::int64_t j = 0; j < tokens.dim(1); ++j) {
    const std::int64_t token = ReadIndex(tokens, row * tokens.stride(0) + j);
    if (token >= 0 && token < v) counts->Add(token, weight);
  }
}

void Run(const Context& ctx, const Tensor& logits, const Tensor& prompt_tokens,
         const Tensor& output_tokens, const Tensor& repetition, const Tensor& frequency,
         const Tensor& presence) {
  const std::int64_t rows = logits.dim(0), v = logits.dim(1);
  const std::int64_t size = TableSize(prompt_tokens.dim(1), output_tokens.dim(1));
  // One part per thread, each with its own table.
  const std::int64_t parts = std::min(ThreadsOf(ctx), rows);
  const CountsWorkspace<std::int64_t> layout(parts, size);
  const Placed placed(ctx, layout);
  ctx.ParallelFor(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      Counts::Entry* table = placed[layout.tables] + part * size;
      for (std::int64_t r = part; r < rows; r += parts) {
        const Penalty penalty{repetition.base<const float>()[r], frequency.base<const float>()[r],
                              presence.base<const float>()[r]};
        if (penalty.is_none()) continue;
        Counts counts(table, size);
        Count(prompt_tokens, r, v, 0, &counts);
        Count(output_tokens, r, v, 1, &counts);
        float* row = logits.row<float>(r).data();
        for (const Counts::Entry& e : counts.entries()) {
          if (e.token >= 0) row[e.token] = penalty.Apply(row[e.token], e.count);
        }
      }
    }
  });
}

}  // namespace

ANYOP_KERNEL(penalties){
    .when = "v < 2147483648", .workspace = kWorkspace<&CountsBytes>, .run = Bind<&Run>()};

extern constinit const Op penalties{
    .signature =
        "penalties(logits: mut f32[b, v], prompt_tokens: I[b, p], output_tokens: I[b, o], "
        "repetition: f32[b], frequency: f32[b], presence: f32[b]) -> () where I in i32 | i64",
    .flops = "20 * b * (p + o)",
    .bytes = "b * (p + o) * 12",
    .check = Bind<&Check>(),
    .check_data = Bind<&CheckRepetition>(),
};

}  // namespace anyop::ops
