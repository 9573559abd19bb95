// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "anyop/op.h"
#include "anyop/simd/bytes.h"
#include "ops/common/stream.h"

namespace anyop::ops {
namespace {

// Rows of new tokens on their way into one paged cache.

[[gnu::always_inline]] inline F32 Clamp(F32 x, std::int8_t) {
  const F32 number = Select(IsNan(x), Zero(), x);
  return Round(Max(Min(number, Set(127.0f)), Set(-128.0f)));
}
[[gnu::always_inline]] inline F32 Clamp(F32 x, F8E4M3) { return x; }

template <class From, class To>
void QuantizeRun(const char* from, char* to, std::int64_t n, float factor) {
  const From* x = reinterpret_cast<const From*>(from);
  To* q = reinterpret_cast<To*>(to);
  ForLanes(n, [&](std::int64_t i, auto count) [[gnu::always_inline]] {
    StoreBytes(q + i, Clamp(LoadN(x + i, count) * Set(factor), To{}), count);
  });
}

// A call of memcpy takes as long as the copy of a short row.
template <bool kStreams>
[[gnu::always_inline]] inline void CopyRow(char* to, const char* from, std::int64_t bytes) {
  if constexpr (kStreams) return StreamCopy(to, from, bytes);
  if (bytes < kLineBytes) {
    std::memcpy(to, from, std::size_t(bytes));
    return;
  }
  for (std::int64_t i = 0; i + kLineBytes <= bytes; i += kLineBytes) {
    std::memcpy(to + i, from + i, kLineBytes);
  }
  const std::int64_t last = bytes - kLineBytes;  // the rest, and what lies before it again
  if (bytes % kLineBytes) std::memcpy(to + last, from + last, kLineBytes);
}

using Quantizer = void (*)(const char* from, char* to, std::int64_t n, float factor);

template <class To>
Quantizer QuantizerTo(DType from) {
  if (from == DType::kF32) return &QuantizeRun<float, To>;
  return from == DType::kF16 ? &QuantizeRun<F16, To> : &QuantizeRun<BF16, To>;
}

class CacheRows {
 public:
  // rows [t, h, d]; cache [nb, bs, h, d] or, with nz, [nb, h*d/c0, bs, c0]; scale [h] or null
  CacheRows(const Tensor& rows, const Tensor& cache, const Tensor* scale, bool nz)
      : from_(rows.base<const char>()),
        to_(cache.base<char>()),
        scale_(scale),
        heads_(rows.dim(1)),
        width_(rows.dim(2)),
        from_bytes_(Bytes(rows.type())),
        to_bytes_(Bytes(cache.type())),
        from_row_(rows.stride(0) * from_bytes_),
        from_head_(rows.stride(1) * from_bytes_),
        block_size_(cache.dim(nz ? 2 : 1)),
        to_block_(cache.stride(0) * to_bytes_),
        to_offset_(cache.stride(nz ? 2 : 1) * to_bytes_),
        to_part_(cache.stride(nz ? 1 : 2) * to_bytes_),
        part_(cache.dim(3)) {
    if (rows.type() != cache.type()) {
      quantize_ = cache.type() == DType::kI8 ? QuantizerTo<std::int8_t>(rows.type())
                                             : QuantizerTo<F8E4M3>(rows.type());
    }
    MergeHeads();
  }

  std::int64_t bytes() const { return heads_ * width_ * (from_bytes_ + to_bytes_); }

  // Where a slot (>= 0) begins.
  char* at(std::int64_t slot) const {
    return to_ + slot / block_size_ * to_block_ + slot % block_size_ * to_offset_;
  }

  // Asks for the lines of a slot: the next one is nowhere that the machine could guess.
  void PrefetchSlot(std::int64_t slot) const {
    constexpr std::int64_t kMostBytes = 4096;
    if (!is_copy_ || slot < 0) return;
    const char* to = at(slot);
    const std::int64_t bytes = std::min(kMostBytes, width_ * to_bytes_);
    for (std::int64_t i = 0; i < bytes; i += kLineBytes) Prefetch(to + i);
  }

  // Stores row i; a negative slot stores nothing.
  template <bool kStreams>
  void Store(std::int64_t i, std::int64_t slot) const {
    if (slot < 0) return;
    const char* from = from_ + i * from_row_;
    char* to = at(slot);
    if (is_copy_) return CopyRow<kStreams>(to, from, width_ * to_bytes_);
    std::int64_t x = 0;  // the element within the row, counted over all heads
    for (std::int64_t head = 0; head < heads_; ++head) {
      const float factor = Factor(head);
      for (std::int64_t e = 0; e < width_;) {
        const std::int64_t n = std::min(width_ - e, part_ - x % part_);
        const char* source = from + head * from_head_ + e * from_bytes_;
        Move(source, to + x / part_ * to_part_ + x % part_ * to_bytes_, n, factor);
        e += n;
        x += n;
      }
    }
  }

 private:
  // A copy whose heads touch each other on both sides moves whole rows.
  void MergeHeads() {
    if (quantize_ || from_head_ != width_ * from_bytes_) return;
    if (part_ == width_ && to_part_ == width_ * to_bytes_) part_ = heads_ * width_;
    width_ *= heads_;
    heads_ = 1;
    is_copy_ = part_ == width_;
  }
  float Factor(std::int64_t head) const {
    return quantize_ && scale_ ? 1.0f / scale_->base<const float>()[head] : 1.0f;
  }
  void Move(const char* from, char* to, std::int64_t n, float factor) const {
    if (quantize_) return quantize_(from, to, n, factor);
    if (n * to_bytes_ == 32) {  // a piece of the NZ layout
      std::memcpy(to, from, 32);
    } else {
      std::memcpy(to, from, std::size_t(n * to_bytes_));
    }
  }

  const char* from_;
  char* to_;
  const Tensor* scale_;
  std::int64_t heads_, width_;          // of a row of the source
  std::int64_t from_bytes_, to_bytes_;  // of an element
  std::int64_t from_row_, from_head_;   // strides in bytes
  std::int64_t block_size_;
  std::int64_t to_block_, to_offset_, to_part_;  // strides in bytes; a part is a head, or a piece
  std::int64_t part_;                            // elements that lie together in the cache
  Quantizer quantize_ = nullptr;                 // null: equal dtypes
  bool is_copy_ = false;                         // of whole rows, in one piece
};

// Parts of a row of `bytes`, so that one part is worth 2 us at 20 GB/s.
std::int64_t Grain(std::int64_t bytes) { return 40000 / (bytes + 1) + 1; }

// Stores tokens `begin` to `end`; values: null where there are keys only.
template <bool kStreams>
void StoreTokens(const CacheRows& keys, const CacheRows* values, const Tensor& slot_mapping,
                 std::int64_t begin, std::int64_t end) {
  std::int64_t next = ReadIndex(slot_mapping, begin);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t slot = next;
    if (i + 1 < end) next = ReadIndex(slot_mapping, i + 1);
    if (!kStreams && i + 1 < end) {
      keys.PrefetchSlot(next);
      if (values) values->PrefetchSlot(next);
    }
    keys.Store<kStreams>(i, slot);
    if (values) values->Store<kStreams>(i, slot);
  }
  if (kStreams) EndStream();
}

void Run(const Context& ctx, const Tensor& key, const Tensor* value, const Tensor& key_cache,
         const Tensor* value_cache, const Tensor& slot_mapping, const Tensor* k_scale,
         const Tensor* v_scale, std::string_view layout) {
  const bool nz = layout == "NZ";
  const CacheRows keys(key, key_cache, k_scale, nz);
  std::optional<CacheRows> values;
  if (value) values.emplace(*value, *value_cache, v_scale, nz);
  const std::int64_t tokens = slot_mapping.dim(0);
  const std::int64_t row_bytes = keys.bytes() + (values ? values->bytes() : 0);
  const bool streams = Streams(ctx, tokens * row_bytes);
  ctx.ParallelFor(tokens, Grain(row_bytes), [&](std::int64_t begin, std::int64_t end) {
    const auto store = streams ? &StoreTokens<true> : &StoreTokens<false>;
    store(keys, values ? &*values : nullptr, slot_mapping, begin, end);
  });
}

}  // namespace

ANYOP_KERNEL(reshape_and_cache){.run = Bind<&Run>()};

}  // namespace anyop::ops
