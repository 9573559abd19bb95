// SPDX-License-Identifier: Apache-2.0
// Rotary embedding, dense layers behind handles, and mixtures of experts, as vLLM calls them.
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "rows.h"
#include "runtime/run/call.h"

namespace anyop::vllm_host {
namespace {

constexpr char kRotary[] = "rotary_embedding";

// Heads of a query or key, [..., heads * size] or [..., heads, size], as [..., heads, size], where
// `...` are the tokens. Sets how many dimensions those are.
Lent HeadsOf(const char* name, const at::Tensor& t, std::int64_t tokens, std::int64_t head_size,
             int* n_leading) {
  Lent heads(kRotary, name, t, true);
  for (int n = heads.rank() - 1; n >= 0 && n >= heads.rank() - 2; --n) {
    std::int64_t rows = 1;
    for (int i = 0; i < n; ++i) rows *= heads.size(i);
    if (rows != tokens) continue;
    *n_leading = n;
    if (n == heads.rank() - 1) heads.Split(n, head_size);
    if (heads.size(n + 1) == head_size) return heads;
  }
  std::string sizes;
  for (const auto size : t.sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  Refuse(kRotary, std::string(name) + " is [" + sizes +
                      "], but must be [tokens, heads * size] or " + "[tokens, heads, size] with " +
                      std::to_string(tokens) + " tokens, as positions has, and heads of " +
                      std::to_string(head_size) + ".");
}

// A linear layer's weight as our kernels read it, for as long as vLLM holds the handle.
struct Matrix {
  at::Tensor packed;
  std::int64_t rows, columns;  // of the weight: features, then inputs
};

// Handles are numbers that are never given twice, so that one that was released is known as such.
class Matrices {
 public:
  std::int64_t Add(Matrix matrix) {
    const std::unique_lock lock(mutex_);
    matrices_.emplace(++last_, std::make_shared<const Matrix>(std::move(matrix)));
    return last_;
  }
  std::shared_ptr<const Matrix> Get(const char* op, std::int64_t handle) {
    const std::shared_lock lock(mutex_);
    const auto found = matrices_.find(handle);
    if (found == matrices_.end()) RefuseHandle(op, handle);
    return found->second;
  }
  // Calls that run keep what they hold.
  void Release(const char* op, std::int64_t handle) {
    const std::unique_lock lock(mutex_);
    if (!matrices_.erase(handle)) RefuseHandle(op, handle);
  }

 private:
  [[noreturn]] void RefuseHandle(const char* op, std::int64_t handle) const {
    const bool was_there = handle >= 1 && handle <= last_;
    Refuse(op, "the handle is " + std::to_string(handle) + ", but " +
                   (was_there ? "that one was released." : "no matrix has that one.") +
                   " Try one of create_onednn_mm_handler that is still held.");
  }
  std::shared_mutex mutex_;
  std::unordered_map<std::int64_t, std::shared_ptr<const Matrix>> matrices_;
  std::int64_t last_ = 0;
};

Matrices& TheMatrices() {
  static auto& matrices = *new Matrices;  // released by Python, which ends last
  return matrices;
}

// What pack_weight makes of a weight [n, k].
struct PackedSizes {
  explicit PackedSizes(const at::Tensor& weight)
      : sizes{(weight.size(0) + 31) / 32, (weight.size(1) + 1) / 2, 32, 2} {}
  std::int64_t elements() const { return sizes[0] * sizes[1] * 64; }
  const DLTensor* Give(DLTensor& t) {
    t.ndim = 4;
    t.shape = sizes;
    t.strides = nullptr;
    return &t;
  }
  std::int64_t sizes[4];
};

// pack_weight keeps the number of elements of these; others stay as they are.
bool IsPackable(const at::Tensor& weight) {
  return weight.size(1) % 32 == 0 && weight.size(2) % 2 == 0;
}

}  // namespace

c10::IValue RotaryEmbedding(const c10::IValue* a) {
  static const TorchOperator& op = Ours("rotary_embedding");
  const std::int64_t tokens = a[0].toTensor().numel(), head_size = a[3].toInt();
  if (tokens == 0) return {};
  Lent positions(kRotary, "positions", a[0].toTensor());
  bool is_merged = positions.MergeFirst(positions.rank());
  OpCall call(op);
  call.Tensor(positions);
  int n = 0;
  Lent query = HeadsOf("query", a[1].toTensor(), tokens, head_size, &n);
  is_merged = query.MergeFirst(n) && is_merged;
  call.Tensor(query);
  std::optional<Lent> key;
  if (a[2].isNone()) {
    call.None();
  } else {
    key = HeadsOf("key", a[2].toTensor(), tokens, head_size, &n);
    is_merged = key->MergeFirst(n) && is_merged;
    call.Tensor(*key);
  }
  if (!is_merged) {
    Refuse(kRotary,
           "positions, query or key is a view whose tokens are no single dimension, but they are "
           "counted one after the other. Try contiguous().");
  }
  call.Tensor(a[4].toTensor()).Int(a[6].toInt()).Word(a[5].toBool() ? "neox" : "gptj");
  call.Bool(a[7].toBool()).Run();
  return {};
}

// b is the weight as columns, [inputs, features].
c10::IValue CreateMatrix(const c10::IValue* a) {
  constexpr char kName[] = "create_onednn_mm_handler";
  static const TorchOperator& op = Ours("pack_weight");
  const at::Tensor& b = a[0].toTensor();
  Lent weight(kName, "b", b);
  weight.MustHaveRank(2, "[inputs, features]");
  weight.Swap(0, 1);
  const std::int64_t rows = weight.size(0), columns = weight.size(1);
  Matrix matrix{at::detail::empty_cpu({(rows + 31) / 32, (columns + 1) / 2, 32, 2}, b.scalar_type(),
                                      false, {}),
                rows, columns};
  OpCall(op).Tensor(weight).Written(matrix.packed).Run();
  return TheMatrices().Add(std::move(matrix));
}

c10::IValue MultiplyMatrix(const c10::IValue* a) {
  constexpr char kName[] = "onednn_mm";
  static const TorchOperator& op = Ours("linear_packed");
  const at::Tensor& handle = a[3].toTensor();
  if (handle.scalar_type() != at::kLong || handle.numel() != 1) {
    Refuse(kName,
           "handler_tensor must be one number of Long, which create_onednn_mm_handler gave.");
  }
  const auto matrix = TheMatrices().Get(kName, *handle.const_data_ptr<std::int64_t>());
  Lent c(kName, "c", a[0].toTensor(), true), x(kName, "a", a[1].toTensor());
  if (x.rank() < 1 || x.size(x.rank() - 1) != matrix->columns) {
    Refuse(kName, "a has rows of " + std::to_string(x.rank() ? x.size(x.rank() - 1) : 1) +
                      " elements, but the matrix behind the handle takes " +
                      std::to_string(matrix->columns) + ".");
  }
  if (c.rank() < 1 || !c.MergeFirst(c.rank() - 1) || !x.MergeFirst(x.rank() - 1)) {
    Refuse(kName, "a or c is a view whose rows are no single dimension. Try contiguous().");
  }
  OpCall call(op);
  call.Tensor(x).Tensor(matrix->packed).Int(matrix->rows).Optional(a[2]);
  call.Word("none").Word("same").Tensor(c).Run();
  return {};
}

// Until 0.28. The result has the sizes of the weight, which say how many features there are, over
// memory of all that pack_weight makes.
c10::IValue ConvertWeightPacked(const c10::IValue* a) {
  constexpr char kName[] = "convert_weight_packed";
  static const TorchOperator& op = Ours("pack_weight");
  const at::Tensor& weight = a[0].toTensor();
  Lent(kName, "weight", weight).MustHaveRank(2, "[features, inputs]");
  PackedSizes sizes(weight);
  const at::Tensor packed =
      at::detail::empty_cpu({sizes.elements()}, weight.scalar_type(), false, {});
  DLTensor to;
  torch_host::ViewTensor(packed, true, to);
  OpCall(op).Tensor(weight).Tensor(sizes.Give(to)).Run();
  return packed.as_strided(weight.sizes(), {weight.size(1), 1});
}

namespace {

// weight_packed_linear(mat1, mat2, bias, is_vnni) -> Tensor, until 0.28.
c10::IValue ReturnedPackedLinear(const c10::IValue* a) {
  constexpr char kName[] = "weight_packed_linear";
  static const TorchOperator& op = Ours("linear_packed");
  const at::Tensor &x = a[0].toTensor(), &weight = a[1].toTensor();
  Lent(kName, "mat2", weight).MustHaveRank(2, "[features, inputs]");
  PackedSizes sizes(weight);
  if (weight.storage().nbytes() < std::size_t(sizes.elements()) * weight.itemsize()) {
    Refuse(kName, "mat2 is a plain weight, but must be what convert_weight_packed made of one.");
  }
  if (x.dim() < 1 || x.size(-1) != weight.size(1)) {
    Refuse(kName, "mat1 has rows of " + std::to_string(x.dim() ? x.size(-1) : 1) +
                      " elements, but mat2 takes " + std::to_string(weight.size(1)) + ".");
  }
  c10::SmallVector<std::int64_t, 8> y_sizes(x.sizes().begin(), x.sizes().end());
  y_sizes.back() = weight.size(0);
  const at::Tensor y = at::detail::empty_cpu(y_sizes, x.scalar_type(), false, {});
  at::Tensor bias;
  if (a[2].isTensor()) bias = a[2].toTensor().to(x.scalar_type());
  DLTensor packed;
  torch_host::ViewTensor(weight, false, packed);
  OpCall call(op);
  call.Tensor(x).Tensor(sizes.Give(packed)).Int(weight.size(0)).Optional(bias);
  call.Word("none").Word("same").Written(y).Run();
  return y;
}

}  // namespace

// mat2 is what convert_weight_packed made. The bias is f32, of numbers that fit mat1's dtype.
c10::IValue WeightPackedLinear(const c10::IValue* a) {
  constexpr char kName[] = "weight_packed_linear";
  static const TorchOperator& op = Ours("linear_packed");
  if (a[3].isBool()) return ReturnedPackedLinear(a);
  const at::Tensor &out = a[0].toTensor(), &x = a[1].toTensor();
  if (out.dim() < 1) Refuse(kName, "out has no dimension, but must be [rows, features].");
  at::Tensor bias;
  if (a[3].isTensor()) bias = a[3].toTensor().to(x.scalar_type());
  OpCall call(op);
  call.Tensor(x).Tensor(a[2].toTensor()).Int(out.size(-1)).Optional(bias);
  call.Word("none").Word("same").Written(out).Run();
  return {};
}

c10::IValue ReleaseMatrix(const c10::IValue* a) {
  TheMatrices().Release("release_dnnl_matmul_handler", a[0].toInt());
  return {};
}

// packed_weight has the sizes of weight.
c10::IValue PrepackMoeWeight(const c10::IValue* a) {
  constexpr char kName[] = "prepack_moe_weight";
  static const TorchOperator& op = Ours("pack_weight");
  const at::Tensor& weight = a[0].toTensor();
  at::Tensor packed = a[1].toTensor();
  Lent(kName, "weight", weight).MustHaveRank(3, "[experts, features, inputs]");
  if (packed.sizes() != weight.sizes() || packed.scalar_type() != weight.scalar_type() ||
      !packed.is_contiguous()) {
    Refuse(kName,
           "packed_weight must be dense, of the sizes and dtype of weight. Try "
           "torch.empty_like(weight, memory_format=torch.contiguous_format).");
  }
  if (IsPackable(weight)) {
    DLTensor to;
    torch_host::ViewTensor(packed, true, to);
    std::int64_t sizes[] = {weight.size(0), weight.size(1) / 32, weight.size(2) / 2, 32, 2};
    to.ndim = 5;
    to.shape = sizes;
    to.strides = nullptr;
    OpCall(op).Tensor(weight).Tensor(&to).Run();
  } else {
    packed.copy_(weight);
  }
  return {};
}

namespace {

constexpr char kMoe[] = "cpu_fused_moe";

// What vLLM calls an activation.
struct Activation {
  const char* theirs;
  const char* ours;
  const char* order;
  std::optional<double> limit;
  double alpha, beta;
};
constexpr Activation kActivations[] = {
    {"silu", "silu", "halves", {}, 1, 0},
    {"gelu", "gelu", "halves", {}, 1, 0},
    {"gelu_tanh", "gelu_tanh", "halves", {}, 1, 0},
    {"swigluoai", "swiglu", "interleaved", 7.0, 1.702, 1},  // gpt-oss
};

const Activation& ActivationNamed(const std::string& name) {
  for (const Activation& activation : kActivations) {
    if (name == activation.theirs) return activation;
  }
  RefuseKernel(kMoe, "act is '" + name +
                         "', but must be silu, gelu, gelu_tanh or swigluoai, because no kernel "
                         "has another.");
}

// A weight that prepack_moe_weight has packed, as our kernels know it.
DLTensor PackedView(const at::Tensor& weight, std::int64_t (&sizes)[5]) {
  DLTensor view;
  if (!torch_host::ViewTensor(weight, false, view) || !weight.is_contiguous()) {
    Refuse(kMoe, "w13 and w2 must be dense, as prepack_moe_weight makes them.");
  }
  sizes[0] = weight.size(0);
  sizes[1] = weight.size(1) / 32;
  sizes[2] = weight.size(2) / 2;
  sizes[3] = 32;
  sizes[4] = 2;
  view.ndim = 5;
  view.shape = sizes;
  view.strides = nullptr;
  return view;
}

}  // namespace

// skip_weighted: the router's weights are in the input already.
c10::IValue FusedMoe(const c10::IValue* a) {
  static const TorchOperator& op = Ours("fused_moe");
  static const TorchOperator& packed_op = Ours("fused_moe_packed");
  const at::Tensor &w13 = a[2].toTensor(), &w2 = a[3].toTensor();
  const Activation& act = ActivationNamed(a[9].toStringRef());
  Lent(kMoe, "w13", w13).MustHaveRank(3, "[experts, 2 * features, inputs]");
  Lent(kMoe, "w2", w2).MustHaveRank(3, "[experts, inputs, features]");
  if (IsPackable(w13) != IsPackable(w2)) {
    Refuse(kMoe, "w13 has experts of [" + std::to_string(w13.size(1)) + ", " +
                     std::to_string(w13.size(2)) + "], w2 of [" + std::to_string(w2.size(1)) +
                     ", " + std::to_string(w2.size(2)) +
                     "], but both must be packed or neither. Try widths that are multiples of 32.");
  }
  at::Tensor weights = a[6].toTensor();
  if (a[8].toBool()) weights = at::ones_like(weights);
  const bool is_packed = IsPackable(w13);
  OpCall call(is_packed ? packed_op : op);
  std::int64_t sizes13[5], sizes2[5];
  DLTensor packed13, packed2;
  call.Tensor(a[1].toTensor());
  if (is_packed) {
    packed13 = PackedView(w13, sizes13);
    packed2 = PackedView(w2, sizes2);
    call.Tensor(&packed13).Tensor(&packed2).Int(w2.size(2));
  } else {
    call.Tensor(w13).Tensor(w2);
  }
  call.Tensor(weights).Tensor(a[7].toTensor()).Optional(a[4]).Optional(a[5]);
  call.Word(act.ours);
  if (act.limit) {
    call.Float(*act.limit);
  } else {
    call.None();
  }
  call.Float(act.alpha).Float(act.beta).Word(act.order).Bool(false).Written(a[0].toTensor()).Run();
  return {};
}

}  // namespace anyop::vllm_host
