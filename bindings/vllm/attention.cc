// SPDX-License-Identifier: Apache-2.0
// vLLM's paged attention: caches of [blocks, heads, block, head size], both as plain rows. Ours are
// [blocks, block, heads, head size], the same memory with other strides.
#include <algorithm>

#include "rows.h"

namespace anyop::vllm_host {
namespace {

constexpr char kCacheSizes[] = "[blocks, heads, block size, head size]";

// Whether a cache holds f8e4m3 bytes. Raises for a cache that no kernel reads.
bool IsFp8(const char* op, const std::string& cache_dtype) {
  if (cache_dtype == "fp8" || cache_dtype == "fp8_e4m3") return true;
  for (const char* plain : {"auto", "float32", "float16", "bfloat16"}) {
    if (cache_dtype == plain) return false;
  }
  RefuseKernel(op, "kv_cache_dtype is '" + cache_dtype +
                       "', but a cache is read as auto, float32, float16, bfloat16, fp8 or "
                       "fp8_e4m3. Try --kv-cache-dtype fp8_e4m3.");
}

// A cache as our operators take it. vLLM has fp8 caches as tensors of bytes.
Lent CacheOf(const char* op, const char* name, const at::Tensor& cache, bool is_fp8,
             bool is_written) {
  Lent lent(op, name, cache, is_written);
  lent.MustHaveRank(4, kCacheSizes);
  lent.Swap(1, 2);
  if (!is_fp8 || cache.scalar_type() == at::kFloat8_e4m3fn) return lent;
  if (cache.scalar_type() == at::kByte) return lent.As(DType::kF8E4M3);
  Refuse(op, std::string(name) + " is " + c10::toString(cache.scalar_type()) +
                 ", but an fp8 cache must be Byte.");
}

// vLLM's one scale for all heads, once for each head, as our operators take scales.
class Scale {
 public:
  Scale(const char* op, const char* name, double scale, std::int64_t heads)
      : numbers_(std::size_t(heads), float(scale)), view_(numbers_.data(), heads) {
    if (scale > 0) return;
    Refuse(op, std::string(name) + " is " + std::to_string(scale) +
                   ", but must be above 0, because numbers are stored divided by it.");
  }
  const DLTensor* get() const { return &view_.view; }

 private:
  c10::SmallVector<float, 64> numbers_;
  Numbers view_;
};

// f32 numbers of a tensor of another floating dtype, in memory of its own.
class AsF32 {
 public:
  AsF32(const char* op, const char* name, const c10::IValue& value) : view_(nullptr, 0) {
    if (value.isNone()) return;
    const at::Tensor& t = value.toTensor();
    if (t.dim() != 1) Refuse(op, std::string(name) + " must have one number for each head.");
    numbers_.resize(std::size_t(t.size(0)));
    const auto read = [&](const auto* from) {
      for (std::size_t i = 0; i < numbers_.size(); ++i) {
        numbers_[i] = float(from[std::int64_t(i) * t.stride(0)]);
      }
    };
    switch (t.scalar_type()) {
      case at::kFloat:
        read(t.const_data_ptr<float>());
        break;
      case at::kBFloat16:
        read(t.const_data_ptr<at::BFloat16>());
        break;
      case at::kHalf:
        read(t.const_data_ptr<at::Half>());
        break;
      default:
        Refuse(op, std::string(name) + " is " + c10::toString(t.scalar_type()) +
                       ", but must be Float, BFloat16 or Half.");
    }
    view_.size = t.size(0);
    view_.view.data = numbers_.data();
    is_given_ = true;
  }
  void AddTo(OpCall& call) const {
    if (is_given_) {
      call.Tensor(&view_.view);
    } else {
      call.None();
    }
  }

 private:
  c10::SmallVector<float, 64> numbers_;
  Numbers view_;
  bool is_given_ = false;
};

// An argument by the place that it has in vLLM's schema.
struct AttentionArguments {
  const RowCall& a;
  const at::Tensor& query() const { return a[0].toTensor(); }
  double scale() const { return a[6].toDouble(); }
  bool causal() const { return a[7].toBool(); }
  std::int64_t window() const { return a[9].toInt(); }
  double softcap() const { return a[11].toDouble(); }
  std::int64_t requests() const { return a[12].toTensor().const_data_ptr<std::int64_t>()[0]; }
};

// What all requests share, as our operator takes it.
struct Attention {
  explicit Attention(const RowCall& a)
      : given{a},
        is_fp8(IsFp8(a.name, a[17].toStringRef())),
        query(a.name, "query", given.query()),
        output(a.name, "output", a[3].toTensor(), true),
        keys(CacheOf(a.name, "key_cache", a[1].toTensor(), is_fp8, false)),
        values(CacheOf(a.name, "value_cache", a[2].toTensor(), is_fp8, false)),
        table(a.name, "block_table", a[10].toTensor()),
        lengths(a.name, "seq_lens", a[5].toTensor()),
        starts(a.name, "query_start_loc", a[4].toTensor()),
        slopes(a.name, "alibi_slopes", a[8]),
        sinks(a.name, "s_aux", a[13]),
        k_scale(a.name, "k_scale", a[15].toDouble(), keys.size(2)),
        v_scale(a.name, "v_scale", a[16].toDouble(), keys.size(2)) {
    query.MustHaveRank(3, "[tokens, heads, head size]");
    output.MustHaveRank(3, "[tokens, heads, head size]");
    table.MustHaveRank(2, "[requests, blocks]");
  }

  void Run(const Lent& q, const Lent& y, const Lent& blocks, const Lent& seq_lens,
           const Lent& query_starts, bool causal) {
    // vLLM's window counts the token itself, window_left the keys before it.
    const std::int64_t window = given.window() < 0 ? -1 : given.window() - 1;
    const std::int64_t no_lse[2] = {q.size(1), 0};  // return_lse is false: no element of it
    const DLTensor lse = MakeDLTensor(nullptr, kHostDevice, ToDL(DType::kF32), 2, no_lse);
    OpCall call(given.a.op());
    call.Tensor(q).Tensor(keys).Tensor(values).Tensor(blocks).Tensor(seq_lens).Tensor(query_starts);
    call.Float(given.scale()).Bool(causal).Int(window).Int(causal ? -1 : window);
    call.Float(given.softcap());
    slopes.AddTo(call);
    sinks.AddTo(call);
    if (is_fp8) {
      call.Tensor(k_scale.get()).Tensor(v_scale.get());
    } else {
      call.None().None();
    }
    call.Bool(false).Tensor(y).Tensor(&lse).Run();
  }

  AttentionArguments given;
  bool is_fp8;
  Lent query, output, keys, values, table, lengths, starts;
  AsF32 slopes, sinks;
  Scale k_scale, v_scale;
};

// Runs each request as a call of its own, since dynamic_causal says of each whether it is causal,
// and our operator takes one word for all.
void RunEach(Attention& attention, const at::Tensor& causal, std::int64_t requests) {
  const at::Tensor& starts = attention.given.a[4].toTensor();
  if (starts.scalar_type() != at::kInt || !starts.is_contiguous() || causal.numel() < requests ||
      !causal.is_contiguous() ||
      (causal.scalar_type() != at::kBool && causal.scalar_type() != at::kInt)) {
    Refuse(attention.given.a.name,
           "dynamic_causal must be dense, Bool or Int, with a number for each request, and "
           "query_start_loc dense and Int.");
  }
  const auto* begin = starts.const_data_ptr<std::int32_t>();
  for (std::int64_t r = 0; r < requests; ++r) {
    const std::int64_t first = begin[r], n = begin[r + 1] - first;
    if (first < 0 || n < 0 || first + n > attention.query.size(0)) {
      Refuse(attention.given.a.name, "query_start_loc[" + std::to_string(r + 1) + "] is " +
                                         std::to_string(begin[r + 1]) +
                                         ", but must rise from 0 to at most the number of tokens.");
    }
    if (!n) continue;
    std::int32_t own[2] = {0, std::int32_t(n)};
    Lent query = attention.query, output = attention.output, table = attention.table;
    Lent lengths = attention.lengths, both = attention.starts;
    query.Slice(0, first, n);
    output.Slice(0, first, n);
    both.Slice(0, 0, 2).Point(own);
    const bool is_causal = causal.scalar_type() == at::kBool ? causal.const_data_ptr<bool>()[r]
                                                             : causal.const_data_ptr<int>()[r] != 0;
    attention.Run(query, output, table.Slice(0, r, 1), lengths.Slice(0, r, 1), both, is_causal);
  }
}

// The number of requests, as a tensor: vLLM hands on to the attention whatever this returns, and
// looks into it nowhere.
c10::IValue GetSchedulerMetadata(const RowCall& a) {
  IsFp8(a.name, a[12].toStringRef());
  const at::ScalarType dtype = a[5].toScalarType();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf) {
    RefuseKernel(a.name, std::string("dtype is ") + c10::toString(dtype) +
                             ", but attention computes in Float, BFloat16 or Half.");
  }
  if (a[2].toInt() < 1 || a[1].toInt() % a[2].toInt()) {
    Refuse(a.name, "num_heads_q is " + std::to_string(a[1].toInt()) +
                       ", but must be a multiple of num_heads_kv, which is " +
                       std::to_string(a[2].toInt()) + ".");
  }
  at::Tensor made = at::detail::empty_cpu({1}, at::kLong, false, {});
  made.mutable_data_ptr<std::int64_t>()[0] = a[0].toInt();
  return made;
}

c10::IValue ReshapeAndCache(const RowCall& a) {
  const bool is_fp8 = IsFp8(a.name, a[8].toStringRef());
  Lent keys = CacheOf(a.name, "key_cache", a[2].toTensor(), is_fp8, true);
  Lent values = CacheOf(a.name, "value_cache", a[3].toTensor(), is_fp8, true);
  Lent slots(a.name, "slot_mapping", a[4].toTensor());
  const at::Tensor& key = a[0].toTensor();
  slots.MustHaveRank(1, "[tokens]");
  // A batch may be padded: slots beyond its tokens are none.
  if (key.dim() == 3 && slots.size(0) > key.size(0)) slots.Slice(0, 0, key.size(0));
  const Scale k_scale(a.name, "k_scale", a[6].toDouble(), keys.size(2));
  const Scale v_scale(a.name, "v_scale", a[7].toDouble(), keys.size(2));
  OpCall call(a.op());
  call.Tensor(key).Tensor(a[1].toTensor()).Tensor(keys).Tensor(values).Tensor(slots);
  if (is_fp8) {
    call.Tensor(k_scale.get()).Tensor(v_scale.get());
  } else {
    call.None().None();
  }
  call.Word("ND").Run();
  return {};
}

c10::IValue AttentionWithKvCache(const RowCall& a) {
  Attention attention(a);
  const std::int64_t n = attention.given.requests();
  const std::int64_t known = std::min(
      {attention.lengths.rank() == 1 ? attention.lengths.size(0) : 0, attention.table.size(0),
       attention.starts.rank() == 1 ? attention.starts.size(0) - 1 : 0});
  if (n < 0 || n > known) {
    Refuse(a.name, "scheduler_metadata is of " + std::to_string(n) +
                       " requests, but seq_lens, block_table and query_start_loc tell of " +
                       std::to_string(known) + ". Try the metadata of this batch.");
  }
  // The tensors may have room for more requests than the batch has.
  attention.lengths.Slice(0, 0, n);
  attention.table.Slice(0, 0, n);
  attention.starts.Slice(0, 0, n + 1);
  if (a[14].isTensor()) {
    RunEach(attention, a[14].toTensor(), n);
  } else {
    attention.Run(attention.query, attention.output, attention.table, attention.lengths,
                  attention.starts, attention.given.causal());
  }
  return {};
}

// vLLM's tensors have room for its largest batch: of the table the requests of query_start_loc are
// read, and of the slots those of tokens with a position are written.
c10::IValue ComputeSlotMapping(const RowCall& a) {
  const at::Tensor& starts = a[0].toTensor();
  const at::Tensor& positions = a[1].toTensor();
  Lent table(a.name, "block_table", a[2].toTensor());
  Lent slots(a.name, "slot_mapping", a[3].toTensor(), true);
  table.MustHaveRank(2, "[requests, blocks]");
  slots.MustHaveRank(1, "[tokens]");
  if (starts.dim() == 1 && starts.size(0) >= 1) {
    if (table.size(0) > starts.size(0) - 1) table.Slice(0, 0, starts.size(0) - 1);
  }
  if (positions.dim() == 1 && slots.size(0) > positions.size(0)) {
    slots.Slice(0, 0, positions.size(0));
  }
  OpCall(a.op())
      .Tensor(starts)
      .Tensor(positions)
      .Tensor(table)
      .Int(a[4].toInt())
      .Tensor(slots)
      .Run();
  return {};
}

// A row of the query and of the cache is the latent, as wide as the output, then the rotated part.
c10::IValue MlaDecode(const RowCall& a) {
  const Lent out(a.name, "out", a[0].toTensor(), true);
  Lent nope(a.name, "query", a[1].toTensor()), latent(a.name, "kv_cache", a[2].toTensor());
  out.MustHaveRank(3, "[requests, heads, latent size]");
  nope.MustHaveRank(3, "[requests, heads, latent and rotated size]");
  latent.MustHaveRank(3, "[blocks, block size, latent and rotated size]");
  const std::int64_t c = out.size(2), r = nope.size(2) - c;
  if (r < 0 || latent.size(2) != c + r) {
    Refuse(a.name, "query, kv_cache and out have rows of " + std::to_string(nope.size(2)) + ", " +
                       std::to_string(latent.size(2)) + " and " + std::to_string(c) +
                       " elements, but the first two must be as long, and out at most that.");
  }
  Lent rope = nope, rope_cache = latent;
  nope.Slice(2, 0, c);
  latent.Slice(2, 0, c);
  rope.Slice(2, c, r);
  rope_cache.Slice(2, c, r);
  const std::int64_t no_lse[2] = {out.size(1), 0};
  const DLTensor lse = MakeDLTensor(nullptr, kHostDevice, ToDL(DType::kF32), 2, no_lse);
  OpCall call(a.op());
  call.Tensor(nope).Tensor(rope).Tensor(latent).Tensor(rope_cache).Tensor(a[4].toTensor());
  call.Tensor(a[5].toTensor()).None().Float(a[3].toDouble()).Bool(true).Bool(false);
  call.Tensor(out).Tensor(&lse).Run();
  return {};
}

constexpr NamedFunction kAttentionFunctions[] = {
    {"get_scheduler_metadata", &GetSchedulerMetadata},
    {"cpu_attn_reshape_and_cache", &ReshapeAndCache},
    {"cpu_attention_with_kv_cache", &AttentionWithKvCache},
    {"compute_slot_mapping_kernel_impl", &ComputeSlotMapping},
    {"mla_decode_kvcache", &MlaDecode},
};

}  // namespace

std::span<const NamedFunction> AttentionFunctions() { return kAttentionFunctions; }

}  // namespace anyop::vllm_host
