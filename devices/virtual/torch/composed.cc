// SPDX-License-Identifier: Apache-2.0
#include "composed.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <optional>
#include <tuple>

namespace virtual_torch {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// The CPU's kernel draws from the host's generator, which the host's own calls move on meanwhile.
std::tuple<Tensor, Tensor> Dropout(const Tensor& input, double p, std::optional<bool> train) {
  const auto flags = input.options().dtype(at::kBool);
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, flags)};
  const Tensor mask = at::empty_like(input, flags).bernoulli_(1 - p);
  return {input.mul(mask).mul_(p == 1 ? 0.0 : 1 / (1 - p)), mask};
}

// ---- Steps of LSTM and GRU, for which torch calls these on devices, and others on the CPU.

Tensor Wide(const Tensor& t) { return t.to(at::toOpMathType(t.scalar_type())); }
Tensor Wide(const std::optional<Tensor>& t, const Tensor& like) {
  return t && t->defined() ? Wide(*t) : at::zeros({}, Wide(like).options());
}

Tensor OfSigmoid(const Tensor& y) { return y * (1 - y); }  // its derivative, where it is y

// gates [rows, 4 d], in the order: input, forget, cell, output. Gives h and c, [rows, d], and what
// the backward pass reads.
Three LstmCell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
               const std::optional<Tensor>& input_bias, const std::optional<Tensor>& hidden_bias) {
  const Tensor sums =
      Wide(input_gates) + Wide(hidden_gates) + Wide(input_bias, cx) + Wide(hidden_bias, cx);
  const auto gates = sums.chunk(4, 1);
  const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid();
  const Tensor cell = gates[2].tanh(), out = gates[3].sigmoid();
  const Tensor cy = forget * Wide(cx) + in * cell, hy = out * cy.tanh();
  const auto dtype = cx.scalar_type();
  return {hy.to(dtype), cy.to(dtype), at::cat({in, forget, cell, out}, 1).to(dtype)};
}

Three LstmCellBackward(const std::optional<Tensor>& grad_hy, const std::optional<Tensor>& grad_cy,
                       const Tensor& cx, const Tensor& cy, const Tensor& workspace, bool has_bias) {
  const auto is_there = [](const std::optional<Tensor>& t) { return t && t->defined(); };
  if (!is_there(grad_hy) && !is_there(grad_cy)) return {};
  const auto gates = Wide(workspace).chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const Tensor dh = Wide(grad_hy, cx), t = Wide(cy).tanh();
  const Tensor dc = Wide(grad_cy, cx) + dh * out * (1 - t * t);
  const Tensor sums =
      at::cat({dc * cell * OfSigmoid(in), dc * Wide(cx) * OfSigmoid(forget),
               dc * in * (1 - cell * cell), (dh * t * OfSigmoid(out)).expand_as(dc)},
              1);
  const auto dtype = workspace.scalar_type();
  return {sums.to(dtype), (dc * forget).to(cx.scalar_type()),
          has_bias ? sums.sum(0).to(dtype) : Tensor()};
}

// gates [rows, 3 d], in the order: reset, update, new. Gives h [rows, d], and what the backward
// pass reads.
std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                   const Tensor& hx, const std::optional<Tensor>& input_bias,
                                   const std::optional<Tensor>& hidden_bias) {
  const auto in = (Wide(input_gates) + Wide(input_bias, hx)).chunk(3, 1);
  const auto hidden = (Wide(hidden_gates) + Wide(hidden_bias, hx)).chunk(3, 1);
  const Tensor reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
  const Tensor fresh = (in[2] + reset * hidden[2]).tanh(), h = Wide(hx);
  const auto dtype = hx.scalar_type();
  return {(fresh + update * (h - fresh)).to(dtype),
          at::cat({reset, update, fresh, h, hidden[2]}, 1).to(dtype)};
}

Five GruCellBackward(const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const auto kept = Wide(workspace).chunk(5, 1);
  const Tensor &reset = kept[0], &update = kept[1], &fresh = kept[2], &h = kept[3];
  const Tensor dh = Wide(grad_hy);
  const Tensor dfresh = dh * (1 - update) * (1 - fresh * fresh);
  const Tensor dreset = dfresh * kept[4] * OfSigmoid(reset);
  const Tensor dupdate = dh * (h - fresh) * OfSigmoid(update);
  const Tensor in = at::cat({dreset, dupdate, dfresh}, 1);
  const Tensor hidden = at::cat({dreset, dupdate, dfresh * reset}, 1);
  const auto dtype = workspace.scalar_type();
  const auto bias = [&](const Tensor& t) { return has_bias ? t.sum(0).to(dtype) : Tensor(); };
  return {in.to(dtype), hidden.to(dtype), (dh * update).to(dtype), bias(in), bias(hidden)};
}

}  // namespace

void RegisterComposed(torch::Library& aten) {
  aten.impl("native_dropout", &Dropout);
  aten.impl("_thnn_fused_lstm_cell", &LstmCell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", &LstmCellBackward);
  aten.impl("_thnn_fused_gru_cell", &GruCell);
  aten.impl("_thnn_fused_gru_cell_backward", &GruCellBackward);
}

}  // namespace virtual_torch
