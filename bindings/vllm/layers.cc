// SPDX-License-Identifier: Apache-2.0
// Rotary embedding, dense layers behind handles, and mixtures of experts, as vLLM calls them.
#include <c10/util/accumulate.h>

#include "bytes.h"
#include "matrices.h"
#include "runtime/run/call.h"

namespace anyop::vllm_host {
namespace {

// Heads of a query or key, [..., heads * size] or [..., heads, size], as [..., heads, size], where
// `...` are the tokens. Sets how many dimensions those are. Most models give the first form, and
// DeepSeek's the second, as a strided slice of a wider tensor.
Lent HeadsOf(const char* op, const char* name, const at::Tensor& t, std::int64_t tokens,
             std::int64_t head_size, int* n_leading) {
  Lent heads(op, name, t, true);
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
  Refuse(op, std::string(name) + " is [" + sizes + "], but must be [tokens, heads * size] or " +
                 "[tokens, heads, size] with " + std::to_string(tokens) +
                 " tokens, as positions has, and heads of " + std::to_string(head_size) + ".");
}

// Features and inputs that lie together in a packed weight: the last two sizes that pack_weight's
// signature gives its result.
struct PackedBlock {
  std::int64_t features, inputs;
};

const PackedBlock& ThePackedBlock() {
  static const PackedBlock block = [] {
    const TorchOperator& op = Ours("pack_weight");
    const std::int64_t one[2] = {1, 1};
    const DLTensor weight = MakeDLTensor(nullptr, kHostDevice, ToDL(DType::kF32), 2, one);
    anyop_value frame[kMaxParams + kMaxResults] = {};
    frame[0] = TensorValue(&weight);
    const HeldPlan plan = GetPlan(*op.op, frame);
    const ResultShape& packed = plan->results[0];
    return PackedBlock{packed.shape[packed.rank - 2], packed.shape[packed.rank - 1]};
  }();
  return block;
}

// The sizes of what pack_weight makes of a weight [..., features, inputs]. Its plan is asked once,
// for a block, because layers of other sizes take turns and each would look for its own.
class PackedSizes {
 public:
  explicit PackedSizes(c10::IntArrayRef weight) : sizes_(weight.begin(), weight.end() - 2) {
    const auto [features, inputs] = ThePackedBlock();
    sizes_.append({(weight[weight.size() - 2] + features - 1) / features,
                   (weight.back() + inputs - 1) / inputs, features, inputs});
  }
  c10::IntArrayRef sizes() const { return sizes_; }
  std::int64_t elements() const { return c10::multiply_integers(sizes_); }
  // Gives a view of dense memory these sizes, which must outlive it.
  const DLTensor* Give(DLTensor& t) {
    t.ndim = int(sizes_.size());
    t.shape = sizes_.data();
    t.strides = nullptr;
    return &t;
  }
  // Whether a weight has as many elements when it is packed, so that the memory that vLLM gives
  // holds the packed form; other weights stay as they are.
  static bool Fits(const at::Tensor& weight) {
    return PackedSizes(weight.sizes()).elements() == weight.numel();
  }

 private:
  c10::SmallVector<std::int64_t, 5> sizes_;
};

c10::IValue RotaryEmbedding(const RowCall& a) {
  const std::int64_t tokens = a[0].toTensor().numel(), head_size = a[3].toInt();
  if (tokens == 0) return {};  // HeadsOf could not tell tokens from heads
  Lent positions(a.name, "positions", a[0].toTensor());
  bool is_merged = positions.MergeFirst(positions.rank());
  OpCall call(a.op());
  call.Tensor(positions);
  int n = 0;
  Lent query = HeadsOf(a.name, "query", a[1].toTensor(), tokens, head_size, &n);
  is_merged = query.MergeFirst(n) && is_merged;
  call.Tensor(query);
  std::optional<Lent> key;
  if (a[2].isNone()) {
    call.None();
  } else {
    key = HeadsOf(a.name, "key", a[2].toTensor(), tokens, head_size, &n);
    is_merged = key->MergeFirst(n) && is_merged;
    call.Tensor(*key);
  }
  if (!is_merged) {
    Refuse(a.name,
           "positions, query or key is a view whose tokens are no single dimension, but they are "
           "counted one after the other. Try contiguous().");
  }
  call.Tensor(a[4].toTensor()).Int(a[6].toInt()).Word(a[5].toBool() ? "neox" : "gptj");
  call.Bool(a[7].toBool()).Run();
  return {};
}

// b is the weight as columns, [inputs, features].
c10::IValue CreateMatrix(const RowCall& a) {
  const at::Tensor& b = a[0].toTensor();
  Lent weight(a.name, "b", b);
  weight.MustHaveRank(2, "[inputs, features]");
  weight.Swap(0, 1);
  const std::int64_t rows = weight.size(0), columns = weight.size(1);
  const PackedSizes sizes({rows, columns});
  Matrix matrix{at::detail::empty_cpu(sizes.sizes(), b.scalar_type(), false, {}), rows, columns};
  OpCall(a.op()).Tensor(weight).Written(matrix.packed).Run();
  return TheMatrices().Add(std::move(matrix));
}

c10::IValue MultiplyMatrix(const RowCall& a) {
  const auto matrix = TheMatrices().Get(a.name, a[3].toTensor(), false);
  const MatrixOperands operands(a.name, *matrix, a[0].toTensor(), a[1].toTensor());
  OpCall call(a.op());
  call.Tensor(operands.x).Tensor(matrix->packed).Int(matrix->rows).Optional(a[2]);
  call.Word("none").Word("same").Tensor(operands.c).Run();
  return {};
}

// Whether this vLLM is one until 0.28, which reads the number of features from a packed weight. It
// tells by a schema.
bool ReadsPackedSizes() {
  static const bool reads = [] {
    const auto name = c10::OperatorName("_C::weight_packed_linear", "");
    const auto found = c10::Dispatcher::singleton().findSchema(name);
    return found && !found->schema().returns().empty();
  }();
  return reads;
}

// Where vLLM reads the number of features from the result, this has the sizes of the weight, over
// memory of all that is packed. Of bytes it always does.
c10::IValue ConvertWeightPacked(const RowCall& a) {
  const at::Tensor& weight = a[0].toTensor();
  Lent(a.name, "weight", weight).MustHaveRank(2, "[features, inputs]");
  if (weight.scalar_type() == at::kChar) return PackBytes(a.op(1), weight);
  PackedSizes sizes(weight.sizes());
  const at::Tensor packed = at::detail::empty_cpu(sizes.sizes(), weight.scalar_type(), false, {});
  OpCall(a.op()).Tensor(weight).Written(packed).Run();
  if (!ReadsPackedSizes()) return packed;
  return packed.as_strided(weight.sizes(), {weight.size(1), 1});
}

// weight_packed_linear(mat1, mat2, bias, is_vnni) -> Tensor, until 0.28.
c10::IValue ReturnedPackedLinear(const RowCall& a) {
  const at::Tensor &x = a[0].toTensor(), &weight = a[1].toTensor();
  Lent(a.name, "mat2", weight).MustHaveRank(2, "[features, inputs]");
  PackedSizes sizes(weight.sizes());
  // A packed weight has the sizes of a plain one: only its memory, where it is longer, tells.
  if (weight.storage().nbytes() < std::size_t(sizes.elements()) * weight.itemsize()) {
    Refuse(a.name, "mat2 is a plain weight, but must be what convert_weight_packed made of one.");
  }
  if (x.dim() < 1 || x.size(-1) != weight.size(1)) {
    Refuse(a.name, "mat1 has rows of " + std::to_string(x.dim() ? x.size(-1) : 1) +
                       " elements, but mat2 takes " + std::to_string(weight.size(1)) + ".");
  }
  c10::SmallVector<std::int64_t, 8> y_sizes(x.sizes().begin(), x.sizes().end());
  y_sizes.back() = weight.size(0);
  const at::Tensor y = at::detail::empty_cpu(y_sizes, x.scalar_type(), false, {});
  at::Tensor bias;
  if (a[2].isTensor()) bias = a[2].toTensor().to(x.scalar_type());
  DLTensor packed;
  torch_host::ViewTensor(weight, false, packed);
  OpCall call(a.op());
  call.Tensor(x).Tensor(sizes.Give(packed)).Int(weight.size(0)).Optional(bias);
  call.Word("none").Word("same").Written(y).Run();
  return y;
}

// mat2 is what convert_weight_packed made. The bias is f32, of numbers that fit mat1's dtype.
c10::IValue WeightPackedLinear(const RowCall& a) {
  if (a[3].isBool()) return ReturnedPackedLinear(a);
  const at::Tensor &out = a[0].toTensor(), &x = a[1].toTensor();
  if (out.dim() < 1) Refuse(a.name, "out has no dimension, but must be [rows, features].");
  at::Tensor bias;
  if (a[3].isTensor()) bias = a[3].toTensor().to(x.scalar_type());
  OpCall call(a.op());
  call.Tensor(x).Tensor(a[2].toTensor()).Int(out.size(-1)).Optional(bias);
  call.Word("none").Word("same").Written(out).Run();
  return {};
}

c10::IValue ReleaseMatrix(const RowCall& a) {
  TheMatrices().Release(a.name, a[0].toInt());
  return {};
}

// packed_weight has the sizes of weight.
c10::IValue PrepackMoeWeight(const RowCall& a) {
  const at::Tensor& weight = a[0].toTensor();
  at::Tensor packed = a[1].toTensor();
  Lent(a.name, "weight", weight).MustHaveRank(3, "[experts, features, inputs]");
  if (packed.sizes() != weight.sizes() || packed.scalar_type() != weight.scalar_type() ||
      !packed.is_contiguous()) {
    Refuse(a.name,
           "packed_weight must be dense, of the sizes and dtype of weight. Try "
           "torch.empty_like(weight, memory_format=torch.contiguous_format).");
  }
  if (PackedSizes::Fits(weight)) {
    PackedSizes sizes(weight.sizes());
    DLTensor to;
    torch_host::ViewTensor(packed, true, to);
    OpCall(a.op()).Tensor(weight).Tensor(sizes.Give(to)).Run();
  } else {
    packed.copy_(weight);
  }
  return {};
}

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

const Activation& ActivationNamed(const RowCall& call, const std::string& name) {
  for (const Activation& activation : kActivations) {
    if (name == activation.theirs) return activation;
  }
  RefuseKernel(call.name,
               "act is '" + name +
                   "', but must be silu, gelu, gelu_tanh or swigluoai, because no kernel "
                   "has another.");
}

// The arguments of cpu_fused_moe, with vLLM's names.
struct MoeArguments {
  explicit MoeArguments(const RowCall& a)
      : name(a.name),
        output(a[0].toTensor()),
        input(a[1].toTensor()),
        w13(a[2].toTensor()),
        w2(a[3].toTensor()),
        w13_bias(a[4]),
        w2_bias(a[5]),
        topk_weights(a[6].toTensor()),
        topk_ids(a[7].toTensor()),
        skip_weighted(a[8].toBool()),
        act(ActivationNamed(a, a[9].toStringRef())) {}

  // w13 and w2 are as prepack_moe_weight leaves them: each packed if its sizes allow that.
  void Check() const {
    Lent(name, "w13", w13).MustHaveRank(3, "[experts, 2 * features, inputs]");
    Lent(name, "w2", w2).MustHaveRank(3, "[experts, inputs, features]");
    if (PackedSizes::Fits(w13) == PackedSizes::Fits(w2)) return;
    const auto shown = [](const at::Tensor& w) {
      return "[" + std::to_string(w.size(1)) + ", " + std::to_string(w.size(2)) + "]";
    };
    Refuse(name, "w13 has experts of " + shown(w13) + ", w2 of " + shown(w2) +
                     ", but both must be packed or neither. Try widths that are multiples of " +
                     std::to_string(ThePackedBlock().features) + ".");
  }

  const char* const name;  // of the row
  const at::Tensor &output, &input, &w13, &w2;
  const c10::IValue &w13_bias, &w2_bias;
  const at::Tensor &topk_weights, &topk_ids;
  const bool skip_weighted;  // the router's weights are in the input already
  const Activation& act;
};

// A weight that prepack_moe_weight has packed, as our kernels know it.
class PackedExperts {
 public:
  PackedExperts(const char* op, const at::Tensor& weight) : sizes_(weight.sizes()) {
    if (!torch_host::ViewTensor(weight, false, view_) || !weight.is_contiguous()) {
      Refuse(op, "w13 and w2 must be dense, as prepack_moe_weight makes them.");
    }
    sizes_.Give(view_);
  }
  PackedExperts(const PackedExperts&) = delete;
  const DLTensor* get() const { return &view_; }

 private:
  PackedSizes sizes_;
  DLTensor view_;
};

// What follows the weights in the signatures of fused_moe and fused_moe_packed.
void CallExperts(OpCall& call, const MoeArguments& moe) {
  // Our operators weight every choice: with 1 where the input has been weighted already.
  const at::Tensor weights = moe.skip_weighted ? at::ones_like(moe.topk_weights) : moe.topk_weights;
  call.Tensor(weights).Tensor(moe.topk_ids).Optional(moe.w13_bias).Optional(moe.w2_bias);
  call.Word(moe.act.ours);
  if (moe.act.limit) {
    call.Float(*moe.act.limit);
  } else {
    call.None();
  }
  call.Float(moe.act.alpha).Float(moe.act.beta).Word(moe.act.order).Bool(false);
  call.Written(moe.output).Run();
}

c10::IValue FusedMoe(const RowCall& a) {
  const MoeArguments moe(a);
  moe.Check();
  if (PackedSizes::Fits(moe.w13)) {
    const PackedExperts w13(a.name, moe.w13), w2(a.name, moe.w2);
    OpCall call(a.op(0));
    call.Tensor(moe.input).Tensor(w13.get()).Tensor(w2.get()).Int(moe.w2.size(2));
    CallExperts(call, moe);
  } else {
    OpCall call(a.op(1));
    call.Tensor(moe.input).Tensor(moe.w13).Tensor(moe.w2);
    CallExperts(call, moe);
  }
  return {};
}

constexpr NamedFunction kLayerFunctions[] = {
    {"rotary_embedding", &RotaryEmbedding},
    {"create_onednn_mm_handler", &CreateMatrix},
    {"onednn_mm", &MultiplyMatrix},
    {"release_dnnl_matmul_handler", &ReleaseMatrix},
    {"convert_weight_packed", &ConvertWeightPacked},
    {"weight_packed_linear", &WeightPackedLinear},
    {"prepack_moe_weight", &PrepackMoeWeight},
    {"cpu_fused_moe", &FusedMoe},
};

}  // namespace

std::span<const NamedFunction> LayerFunctions() { return kLayerFunctions; }

}  // namespace anyop::vllm_host
