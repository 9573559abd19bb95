// SPDX-License-Identifier: Apache-2.0
// The dtypes and shapes of results.
#include "signature/check.h"
#include "signature/messages.h"

namespace anyop {
namespace {

int ResultDType(const CallState& s, const DTypes& d) {
  if (d.kind == DTypes::kSet) return __builtin_ctz(d.mask);
  if (d.kind == DTypes::kParameter) {
    return s.bindings.unknown_params >> d.index & 1 ? -1 : int(s.frame[d.index].i);
  }
  return s.bindings.dtype_bound >> d.index & 1 ? s.bindings.dtype[d.index] : -1;
}

// Fills shape; false and a text for a size that is impossible, or unknown in a concrete call.
bool FillShape(const CallState& s, int index, ResultShape* out, std::string* error, bool symbolic) {
  const TensorType& type = s.form().results[std::size_t(index)].tensor;
  out->rank = 0;
  if (type.has_dots) {
    if (s.bindings.n_lead < 0) {
      out->rank = -1;
      return symbolic || (*error = ImpossibleResult(s, index, -1, {}), false);
    }
    for (int i = 0; i < s.bindings.n_lead; ++i) out->shape[out->rank++] = s.bindings.lead[i];
  }
  if (out->rank + int(type.dims.size()) > kMaxRank) {
    *error = "the result " + std::string(s.form().results[std::size_t(index)].name) +
             " would have more than " + std::to_string(kMaxRank) + " dimensions.";
    return false;
  }
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    const Number v = Evaluate(s.contract, s.form_index, type.dims[i], s.bindings, s.frame);
    if (v.fault != Fault::kNone || (v.known ? v.i < 0 : !symbolic)) {
      *error = ImpossibleResult(s, index, int(i), v);
      return false;
    }
    out->shape[out->rank++] = v.known ? v.i : v.symbol ? BitsOfSymbol(v.symbol) : -1;
  }
  return true;
}

bool CountBytes(const CallState& s, int index, ResultShape* out, std::string* error) {
  out->bytes = Bytes(out->dtype);
  bool unknown = out->rank < 0;
  std::int64_t all = out->bytes;  // without the sizes of 0, which must not hide an overflow
  for (int i = 0; i < out->rank; ++i) {
    unknown |= out->shape[i] < 0;
    if (out->shape[i] >= 0) out->bytes = out->shape[i] == 0 ? 0 : out->bytes;
    if (out->shape[i] > 0 && __builtin_mul_overflow(all, out->shape[i], &all)) {
      *error = ImpossibleResult(s, index, -1, {});
      return false;
    }
  }
  out->bytes = unknown || out->bytes == 0 ? 0 : all;
  return true;
}

// Whether two sizes that are not the same number differ, for a result that the caller gives.
// Symbols that may be equal do not differ, but it is required that they are equal.
bool Differ(const CallState& s, int index, std::int64_t given, std::int64_t want) {
  Symbols* const symbols = s.bindings.symbols;
  const Number a = SizeNumber(s.bindings, given), b = SizeNumber(s.bindings, want);
  if (a.known && b.known) return true;
  if (a.is_unknown() || b.is_unknown() || symbols->IsSame(a, b)) return false;
  const Number equal = Compute(symbols, NodeOp::kEq, a, b);
  const Result& r = s.form().results[std::size_t(index)];
  if (equal.symbol) {
    symbols->requirements.push_back(
        {equal, std::string(r.name) + " must be " + OneLine(r.tensor.text) + "."});
  }
  return equal.known && !equal.i;
}

bool CompareGiven(const CallState& s, int index, const ResultShape& want, std::string* error) {
  const anyop_value& v = s.frame[s.form().params.size() + std::size_t(index)];
  if (v.tag == ANYOP_NONE) return true;
  const std::string_view name = s.form().results[std::size_t(index)].name;
  if (v.tag != ANYOP_TENSOR) {
    *error = std::string(name) + " is " + Show(v) + ", but must be a tensor.";
    return false;
  }
  const DLTensor& t = *v.t;
  const bool dtype_is_wrong = FromDL(t.dtype) != int(want.dtype);
  const bool ranks_known = want.rank >= 0 && t.ndim >= 0;
  const bool rank_is_wrong = ranks_known && t.ndim != want.rank;
  int wrong = -1;  // the first wrong dimension
  for (int i = want.rank - 1; i >= 0 && ranks_known && !rank_is_wrong; --i) {
    if (t.shape[i] != want.shape[i] && Differ(s, index, t.shape[i], want.shape[i])) wrong = i;
  }
  if (wrong < 0 && !dtype_is_wrong && !rank_is_wrong) return true;
  *error = WrongResult(s, index, t, dtype_is_wrong, wrong);
  return false;
}

}  // namespace

bool InferResults(const Contract& contract, int form, const Bindings& bindings,
                  const anyop_value* frame, ResultShape* results, std::string* error,
                  bool symbolic) {
  const CallState s{contract, form, bindings, frame};
  for (int i = 0; i < contract.n_results(); ++i) {
    const Result& r = s.form().results[std::size_t(i)];
    const int dtype = ResultDType(s, r.tensor.dtypes);
    if (dtype < 0 && bindings.symbols) {
      *error = "the dtype of a result is not known.";
      return false;
    }
    if (dtype < 0) {
      *error = "the result " + std::string(r.name) + " has no dtype: no argument gives " +
               std::string(r.tensor.dtypes.name) + ".";
      return false;
    }
    results[i].dtype = DType(dtype);
    if (!FillShape(s, i, &results[i], error, symbolic)) return false;
    if (!CountBytes(s, i, &results[i], error)) return false;
    if (!CompareGiven(s, i, results[i], error)) return false;
  }
  return true;
}

}  // namespace anyop
