// SPDX-License-Identifier: Apache-2.0
// Dense layers whose inputs and weights are bytes, as vLLM calls them.
#include "bytes.h"

#include <c10/util/accumulate.h>

#include "bindings/torch/allocate.h"
#include "matrices.h"

namespace anyop::vllm_host {
namespace {

// What pack_weight_int8's signature gives its result.
struct PackedBytes {
  explicit PackedBytes(std::int64_t features, std::int64_t inputs)
      : sizes{(features + 31) / 32, (inputs + 3) / 4, 32, 4} {}
  std::int64_t bytes() const { return c10::multiply_integers(sizes); }
  // A view of dense memory of them; it must not outlive this.
  const DLTensor* Give(DLTensor& t) {
    t.ndim = 4;
    t.shape = sizes.data();
    t.strides = nullptr;
    return &t;
  }
  std::array<std::int64_t, 4> sizes;
};

// One number as [1].
Lent One(const char* op, const char* name, const at::Tensor& t, bool is_written = false) {
  Lent one(op, name, t, is_written);
  one.MergeFirst(one.rank());
  return one;
}

// A number for each row, [rows, 1].
Lent OfRows(const char* op, const char* name, const at::Tensor& t, std::int64_t rows,
            bool is_written = false) {
  Lent lent(op, name, t, is_written);
  if (t.numel() != rows || !lent.MergeFirst(lent.rank())) {
    Refuse(op, std::string(name) + " has " + std::to_string(t.numel()) +
                   " numbers, but must have one for each of the " + std::to_string(rows) +
                   " rows.");
  }
  return lent.Split(0, 1);
}

// The same, or one for all as [1].
Lent OfRowsOrOne(const char* op, const char* name, const at::Tensor& t, std::int64_t rows) {
  return t.numel() == 1 ? One(op, name, t) : OfRows(op, name, t, rows);
}

// [..., width] as [rows, width].
Lent AsRows(const char* op, const char* name, const at::Tensor& t, bool is_written = false) {
  Lent lent(op, name, t, is_written);
  if (lent.rank() < 1 || !lent.MergeFirst(lent.rank() - 1)) {
    Refuse(op,
           std::string(name) + " must have rows that are a single dimension. Try contiguous().");
  }
  return lent;
}

void MustBeBytes(const char* op, const char* name, const at::Tensor& t) {
  if (t.scalar_type() == at::kChar) return;
  Refuse(op, std::string(name) + " is " + c10::toString(t.scalar_type()) + ", but must be Char.");
}

// Sums of more products may not fit 32 bits.
void CheckInputs(const char* op, std::int64_t inputs, bool has_zero) {
  const std::int64_t most = has_zero ? 65535 : 131071;
  if (inputs <= most) return;
  RefuseKernel(op, "b has " + std::to_string(inputs) + " inputs, but must have at most " +
                       std::to_string(most) + (has_zero ? " where inputs have zero points." : "."));
}

// Scales of rows in memory of the matrix's own: vLLM keeps one for all as one number.
at::Tensor ScalesOf(const char* op, const at::Tensor& scales, std::int64_t rows) {
  if (scales.scalar_type() != at::kFloat || (scales.numel() != 1 && scales.numel() != rows)) {
    Refuse(op, std::string("b_scales has ") + std::to_string(scales.numel()) + " numbers of " +
                   c10::toString(scales.scalar_type()) + ", but must have one of Float, or " +
                   std::to_string(rows) + ": one for each feature.");
  }
  const at::Tensor made = at::detail::empty_cpu({rows}, at::kFloat, false, {});
  const at::Tensor given = scales.detach().reshape({-1});
  auto* to = made.mutable_data_ptr<float>();
  const auto* from = given.const_data_ptr<float>();
  const std::int64_t step = scales.numel() == 1 ? 0 : given.stride(0);
  for (std::int64_t j = 0; j < rows; ++j) to[j] = from[j * step];
  return made;
}

// b is the weight as columns, [inputs, features]. Whether inputs have one scale is seen in each
// call.
c10::IValue CreateBytes(const RowCall& a) {
  const at::Tensor& b = a[0].toTensor();
  Lent weight(a.name, "b", b);
  weight.MustHaveRank(2, "[inputs, features]");
  MustBeBytes(a.name, "b", b);
  weight.Swap(0, 1);
  const std::int64_t rows = weight.size(0), columns = weight.size(1);
  const bool has_zero = a[4].toBool();
  CheckInputs(a.name, columns, has_zero);
  const PackedBytes packed(rows, columns);
  Matrix matrix{at::detail::empty_cpu(packed.sizes, at::kChar, false, {}), rows, columns};
  matrix.scale = ScalesOf(a.name, a[1].toTensor(), rows);
  OpCall(a.op(0)).Tensor(weight).Written(matrix.packed).Run();
  if (has_zero) {
    matrix.sums = at::detail::empty_cpu({rows}, at::kInt, false, {});
    OpCall(a.op(1)).Tensor(weight).Written(matrix.sums).Run();
  }
  return TheMatrices().Add(std::move(matrix));
}

// azp_adj, what vLLM's kernel subtracts for zero points, is a product with rounded scales; ours
// subtracts in integers.
c10::IValue MultiplyBytes(const RowCall& a) {
  const auto matrix = TheMatrices().Get(a.name, a[6].toTensor(), true);
  const MatrixOperands operands(a.name, *matrix, a[0].toTensor(), a[1].toTensor());
  const std::int64_t rows = operands.x.size(0);
  const Lent scale = OfRowsOrOne(a.name, "a_scales", a[2].toTensor(), rows);
  OpCall call(a.op());
  call.Tensor(operands.x).Tensor(scale).Tensor(matrix->packed).Int(matrix->rows);
  call.Tensor(matrix->scale).Optional(a[5]).Type(a[0].toTensor().scalar_type());
  std::optional<Lent> zero;
  if (a[3].isNone()) {
    call.None();
  } else {
    call.Tensor(zero.emplace(OfRowsOrOne(a.name, "azp", a[3].toTensor(), rows)));
  }
  call.Optional(matrix->sums).Tensor(operands.c).Run();
  return {};
}

c10::IValue QuantizeStatic(const RowCall& a) {
  const Lent out = AsRows(a.name, "out", a[0].toTensor(), true);
  const Lent x = AsRows(a.name, "input", a[1].toTensor());
  OpCall call(a.op());
  const Lent scale = One(a.name, "scale", a[2].toTensor());
  call.Tensor(x).Tensor(scale);
  std::optional<Lent> zero;
  if (a[3].isNone()) {
    call.None();
  } else {
    call.Tensor(zero.emplace(One(a.name, "azp", a[3].toTensor())));
  }
  call.Tensor(out).Run();
  return {};
}

// The range of a row holds 0, unlike vLLM's, so that a row of one value has a scale. Scales and
// zero points go to onednn_scaled_mm alone.
c10::IValue QuantizeDynamic(const RowCall& a) {
  const Lent out = AsRows(a.name, "out", a[0].toTensor(), true);
  const Lent x = AsRows(a.name, "input", a[1].toTensor());
  const std::int64_t rows = x.size(0), no_zeros[2] = {rows, 0};
  const bool has_zero = a[3].isTensor();
  const Lent scale = OfRows(a.name, "scale", a[2].toTensor(), rows, true);
  OpCall call(a.op());
  call.Tensor(x).Bool(has_zero).Word("zero").Tensor(out).Tensor(scale);
  if (has_zero) {
    const Lent zero = OfRows(a.name, "azp", a[3].toTensor(), rows, true);
    call.Tensor(zero).Run();
  } else {
    const DLTensor none = MakeDLTensor(nullptr, kHostDevice, ToDL(DType::kI32), 2, no_zeros);
    call.Tensor(&none).Run();
  }
  return {};
}

// mat2 is what convert_weight_packed made of bytes, or without is_vnni the bytes as they are.
c10::IValue QuantizeAndMultiply(const RowCall& a) {
  const at::Tensor &x = a[0].toTensor(), &weight = a[1].toTensor();
  Lent(a.name, "mat2", weight).MustHaveRank(2, "[features, inputs]");
  MustBeBytes(a.name, "mat2", weight);
  if (x.dim() < 1 || a[4].toScalarType() != x.scalar_type()) {
    RefuseKernel(a.name, std::string("out_dtype is ") + c10::toString(a[4].toScalarType()) +
                             ", but must be that of mat1, which is " +
                             c10::toString(x.scalar_type()) + ".");
  }
  const std::int64_t features = weight.size(0);
  const Lent scales = [&] {
    Lent lent(a.name, "scales2", a[2].toTensor());
    lent.MergeFirst(lent.rank());
    return lent;
  }();
  c10::SmallVector<std::int64_t, 4> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = features;
  const at::Tensor y = at::detail::empty_cpu(sizes, x.scalar_type(), false, {});
  if (!a[5].toBool()) {
    OpCall(a.op(1)).Tensor(x).Tensor(weight).Tensor(scales).Optional(a[3]).Written(y).Run();
    return y;
  }
  PackedBytes packed(features, weight.size(1));
  // A packed weight has the sizes of a plain one: only its memory, where it is longer, tells.
  if (weight.storage().nbytes() < std::size_t(packed.bytes()) || x.size(-1) != weight.size(1)) {
    Refuse(a.name,
           "mat2 must be what convert_weight_packed made of a weight whose inputs are the " +
               std::to_string(x.size(-1)) + " elements of a row of mat1.");
  }
  DLTensor view;
  torch_host::ViewTensor(weight, false, view);
  OpCall call(a.op(0));
  call.Tensor(x).Tensor(packed.Give(view)).Int(features).Tensor(scales).Optional(a[3]);
  call.Written(y).Run();
  return y;
}

constexpr NamedFunction kBytesFunctions[] = {
    {"create_onednn_scaled_mm_handler", &CreateBytes},
    {"onednn_scaled_mm", &MultiplyBytes},
    {"static_scaled_int8_quant", &QuantizeStatic},
    {"dynamic_scaled_int8_quant", &QuantizeDynamic},
    {"int8_scaled_mm_with_quant", &QuantizeAndMultiply},
};

}  // namespace

at::Tensor PackBytes(const TorchOperator& pack_weight_int8, const at::Tensor& weight) {
  const PackedBytes packed(weight.size(0), weight.size(1));
  const at::Tensor made = at::detail::empty_cpu(packed.sizes, at::kChar, false, {});
  OpCall(pack_weight_int8).Tensor(weight).Written(made).Run();
  return made.as_strided(weight.sizes(), {weight.size(1), 1});
}

std::span<const NamedFunction> BytesFunctions() { return kBytesFunctions; }

}  // namespace anyop::vllm_host
