// SPDX-License-Identifier: Apache-2.0
#include "signature/facts.h"

#include <algorithm>

#include "signature/expression.h"

namespace anyop {
namespace {

bool HasInPlace(const Contract& contract) {
  if (contract.n_params() == 0) return false;
  const Form& first = contract.forms[0];
  if (first.results[0].is_optional || first.params[0].kind != ParamKind::kTensor) return false;
  // Bit 0: the first parameter.
  return std::ranges::all_of(contract.forms, [](const Form& f) { return f.results[0].over & 1; });
}

// The optional parameter p whose absence declines result dp, a gradient; -1: none.
int DeclinedWithout(const Form& form, const Result& result) {
  const int p = result.is_optional ? form.param(PrimalOf(result.name)) : -1;
  return p >= 0 && form.params[std::size_t(p)].is_optional ? p : -1;
}

std::vector<std::vector<int>> DTypeGroups(const Form& form) {
  std::vector<std::vector<int>> groups(form.dtype_vars.size());
  std::uint64_t refused = 0;
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    const Param& p = form.params[i];
    if (!IsTensor(p.kind) || p.tensor.dtypes.kind != DTypes::kVariable) continue;
    const int variable = p.tensor.dtypes.index;
    groups[std::size_t(variable)].push_back(int(i));
    // What a call writes into a cast copy would be lost.
    if (p.is_mut || p.kind == ParamKind::kTensors) refused |= 1ull << variable;
  }
  std::vector<std::vector<int>> kept;
  for (std::size_t v = 0; v < groups.size(); ++v) {
    if (groups[v].size() > 1 && !(refused >> v & 1)) kept.push_back(groups[v]);
  }
  return kept;
}

void AddMeasures(const Form& form, int node, std::vector<Measure>* measures) {
  if (node < 0) return;
  const Node& n = form.nodes[std::size_t(node)];
  const bool is_measure = n.op == NodeOp::kSize || n.op == NodeOp::kRank || n.op == NodeOp::kRows ||
                          n.op == NodeOp::kBytes;
  if (is_measure) {
    const auto t = std::size_t(n.a), n_params = form.params.size();
    const bool has_dots =
        t < n_params ? form.params[t].tensor.has_dots : form.results[t - n_params].tensor.has_dots;
    if (has_dots) measures->push_back({Symbol(n.op), n.a});
    return;
  }
  const bool is_unary = n.op == NodeOp::kNeg || n.op == NodeOp::kNot || n.op == NodeOp::kIn;
  if (IsBinary(n.op) || is_unary) AddMeasures(form, n.a, measures);
  if (IsBinary(n.op)) AddMeasures(form, n.b, measures);
}

}  // namespace

std::vector<Measure> MeasuresOf(const Form& form) {
  std::vector<Measure> measures;
  const auto add = [&](int node) { AddMeasures(form, node, &measures); };
  for (const Condition& c : form.conditions) add(c.node);
  for (const Param& p : form.params) {
    for (const int d : p.tensor.dims) add(d);
    add(p.size);
    add(p.bound);
  }
  for (const Result& r : form.results) {
    for (const int d : r.tensor.dims) add(d);
  }
  return measures;
}

Facts FactsOf(const Contract& contract) {
  const Form& form = contract.forms[0];
  Facts facts{};
  for (std::size_t i = 0; i < form.params.size(); ++i) {
    const Param& p = form.params[i];
    if (p.is_mut) facts.mut_params |= 1ull << i;
    facts.needs_tensor |= IsTensor(p.kind) && !p.is_optional;
    if (p.has_default && i < FirstWithDefaults(form)) facts.by_keyword.push_back(int(i));
  }
  for (const Result& r : form.results) {
    facts.declined_without.push_back(DeclinedWithout(form, r));
    facts.takes_mask |= r.is_optional;
  }
  facts.takes_mask &= form.results.size() > 1;  // a call without its only result does nothing
  facts.has_out = !form.results.empty();
  facts.has_lone_result = form.results.size() == 1 && !facts.mut_params;
  facts.has_in_place = facts.has_lone_result && HasInPlace(contract);
  facts.dtype_groups = DTypeGroups(form);
  return facts;
}

}  // namespace anyop
