// SPDX-License-Identifier: Apache-2.0
// Dense layers with weights of 4 bits, as vLLM calls them.
#include "bindings/torch/allocate.h"
#include "rows.h"

namespace anyop::vllm_host {
namespace {

// Words of 32 bits that hold 8 elements each, as the bytes that they are: little-endian.
class WordBytes {
 public:
  // [rows, words] as [rows, words * 4 / inner, inner], or as [rows, words * 4] if inner is 0. name:
  // for the message if that cannot be.
  WordBytes(const char* op, const char* name, const at::Tensor& words, std::int64_t inner) {
    const bool is_dense = words.dim() == 2 && (words.size(1) < 2 || words.stride(1) == 1);
    if (words.scalar_type() != at::kInt || !is_dense ||
        !torch_host::ViewTensor(words, false, view_)) {
      Refuse(op, std::string(name) + " must be int32 [rows, words] with dense rows.");
    }
    const std::int64_t bytes = words.size(1) * 4;
    if (inner && (bytes % inner || !words.is_contiguous())) {
      Refuse(op, std::string(name) + " has rows of " + std::to_string(words.size(1)) +
                     " words, but must be dense with a multiple of " + std::to_string(inner / 4) +
                     " in a row: those of one input for 16 outputs.");
    }
    sizes_[0] = words.size(0);
    strides_[0] = words.stride(0) * 4;
    sizes_[1] = inner ? bytes / inner : bytes;
    strides_[1] = inner ? inner : 1;
    sizes_[2] = inner;
    strides_[2] = 1;
    view_.ndim = inner ? 3 : 2;
    view_.shape = sizes_;
    view_.strides = strides_;
    view_.dtype = ToDL(DType::kU8);
  }
  WordBytes(const WordBytes&) = delete;
  const DLTensor* get() const { return &view_; }

 private:
  std::int64_t sizes_[3], strides_[3];
  DLTensor view_;
};

at::Tensor MadeBy(const TorchOperator& op, const at::Tensor& from, const char* word,
                  c10::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor made = at::detail::empty_cpu(sizes, dtype, false, {});
  OpCall call(op);
  call.Tensor(from);
  if (word) call.Word(word);
  call.Written(made).Run();
  return made;
}

// zeros has rows of 4 bits an output. g_idx is an argument until 0.29.
c10::IValue GemmWna16(const RowCall& a) {
  const int bias = a[6].isInt() ? 5 : 6;
  const at::Tensor& scales = a[3].toTensor();
  if (scales.dim() != 2) Refuse(a.name, "scales must be [groups, outputs].");
  if (const auto factor = a[bias + 1].toInt(); factor != 8) {
    RefuseKernel(a.name, "pack_factor is " + std::to_string(factor) +
                             ", but must be 8: weights of 4 bits are all that kernels are for.");
  }
  const WordBytes weight(a.name, "q_weight", a[1].toTensor(), 8);
  OpCall call(a.op());
  call.Tensor(a[0].toTensor()).Tensor(weight.get()).Int(scales.size(1)).Tensor(scales);
  std::optional<WordBytes> zeros;
  if (a[4].isNone()) {
    call.None();
  } else {
    call.Tensor(zeros.emplace(a.name, "zeros", a[4].toTensor(), 0).get());
  }
  call.Optional(a[bias]);
  if (bias == 6) {
    call.Optional(a[5]);
  } else {
    call.None();
  }
  call.Word("exact").Written(a[2].toTensor()).Run();
  return {};
}

// The sizes of what comes out are ours, but for one thing: vLLM takes size(0) * size(-1) of the
// scales for the number of outputs.
c10::IValue ConvertU4(const RowCall& a) {
  const TorchOperator &rows = a.op(0), &zeros = a.op(1), &pack = a.op(2), &groups = a.op(3);
  const at::Tensor &words = a[0].toTensor(), &zero_words = a[1].toTensor();
  const at::Tensor& scales = a[2].toTensor();
  if (words.dim() != 2 || zero_words.dim() != 2 || scales.dim() != 2) {
    RefuseKernel(
        a.name,
        "qweight, qzeros and scales must have two dimensions, because no kernel multiplies "
        "experts of 4 bits.");
  }
  const bool is_awq = a[3].toInt() == 0;
  const std::int64_t k = is_awq ? words.size(0) : words.size(0) * 8;
  const std::int64_t n = is_awq ? words.size(1) * 8 : words.size(1);
  const std::int64_t g = zero_words.size(0);
  const at::Tensor weight = MadeBy(rows, words, is_awq ? "awq" : "gptq", {n, k / 2}, at::kByte);
  const at::Tensor zero =
      MadeBy(zeros, zero_words, is_awq ? "awq" : "gptq_v1", {zero_words.size(1) * 8, g}, at::kByte);
  if (zero.size(0) != n || scales.size(0) != g || scales.size(1) != n) {
    Refuse(a.name, "qweight has " + std::to_string(n) + " outputs, qzeros has " +
                       std::to_string(zero.size(0)) + " of " + std::to_string(g) +
                       " groups, and scales is [" + std::to_string(scales.size(0)) + ", " +
                       std::to_string(scales.size(1)) +
                       "], but must be [groups, outputs] of the same numbers.");
  }
  const at::Tensor packed = MadeBy(pack, weight, nullptr, {(n + 15) / 16, k / 2 * 2, 8}, at::kByte);
  const at::Tensor columns = MadeBy(groups, zero, nullptr, {g, n}, at::kByte);
  return c10::ivalue::Tuple::create(packed, columns.unsqueeze(0),
                                    scales.to(at::kFloat).contiguous().unsqueeze(0));
}

c10::IValue MultiplyU4(const RowCall& a) {
  const at::Tensor &x = a[0].toTensor(), &zeros = a[2].toTensor(), &scales = a[3].toTensor();
  if (x.dim() < 1 || zeros.dim() != 3 || scales.dim() != 3 || scales.size(0) != 1) {
    Refuse(a.name, "w, w_zeros and w_scales must be what convert_weight_packed_scale_zp made.");
  }
  c10::SmallVector<std::int64_t, 4> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = scales.size(2);
  const at::Tensor y = at::detail::empty_cpu(sizes, x.scalar_type(), false, {});
  OpCall call(a.op());
  call.Tensor(x).Tensor(a[1].toTensor()).Int(scales.size(2)).Tensor(scales.select(0, 0));
  call.Tensor(zeros.select(0, 0)).Optional(a[4]).None().Word("int8").Written(y).Run();
  return y;
}

constexpr NamedFunction kQuantizedFunctions[] = {
    {"cpu_gemm_wna16", &GemmWna16},
    {"convert_weight_packed_scale_zp", &ConvertU4},
    {"int4_scaled_mm_cpu", &MultiplyU4},
};

}  // namespace

std::span<const NamedFunction> QuantizedFunctions() { return kQuantizedFunctions; }

}  // namespace anyop::vllm_host
