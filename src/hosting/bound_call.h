// SPDX-License-Identifier: Apache-2.0
// A bound call: an operator (or a compiled graph) with everything fixed but its tensors, known by
// a text. A compiler keeps the text as one attribute of a node, a cache compares it, a file carries
// it to another process.
//
//   anyop.call/1 anyop.rms_norm(x = f32, weight = None, eps = 1e-06, weight_offset = 0.0) -> y
//   anyop.call/1 anyop.topk(x = bf16, k = 4) -> _, indices in batch_invariant, threads = 2
//   anyop.call/1 graph("input x: f32[n, 4]\ny: f32[n, 4] = anyop.add(x, x)\noutput y\n")
//
// A tensor is its dtype, an absent one None, a declined result _. What follows `in` is the scope
// that the call was bound in, where it differs from the default: strict, batch_invariant,
// threads = 2, policy = "all,-anyop.add". The call runs in that scope on whatever thread it is
// made.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "anyop/host.h"
#include "anyop/scope.h"
#include "signature/check.h"

namespace anyop {

struct Operator;
class BoundCall;

struct BoundInput {
  std::string name;  // "x", "caches[1]"
  DType dtype;
  bool is_written;  // in place, by a `mut` parameter
};

struct BoundResult {
  std::string name;
  int dtype;              // -1: the ranks of inputs decide
  std::vector<int> over;  // inputs whose very memory it may be written to
};

struct BoundGradient {
  const BoundCall* forward;   // the call to differentiate: with every result that sources name
  const BoundCall* gradient;  // declines the gradients that are not wanted
  std::vector<anyop_source> sources;  // per input of `gradient`, by numbers of `forward`
  std::vector<int> targets;           // per result of `gradient`: the input of `forward`
};

class BoundCall {
 public:
  virtual ~BoundCall() = default;
  BoundCall(const BoundCall&) = delete;
  BoundCall& operator=(const BoundCall&) = delete;

  const std::string& text() const { return text_; }  // canonical
  std::span<const BoundInput> inputs() const { return inputs_; }
  std::span<const BoundResult> results() const { return results_; }  // those that are wanted
  // A value per parameter of the operator, of tensors the dtype only; none for a graph.
  virtual std::span<const anyop_value> arguments() const { return {}; }
  // The Contract::hash of the call's operator, by which a compiled node is found to be of another
  // version; "" for a graph, whose text says it all.
  virtual std::string_view contract() const { return ""; }
  virtual std::string shown_name() const = 0;         // with which messages begin
  const ScopeState& scope() const { return scope_; }  // in which it runs

  // Checks and runs. One tensor per input and per result, of the bound dtypes; nothing is written
  // if it throws.
  void Run(std::span<const DLTensor> inputs, std::span<const DLTensor> results) const;
  // The types of the results. A size or rank of -1 is unknown, and so is a dtype of 0 bits: that
  // of the text is taken. Data, device and strides are not looked at.
  void Infer(std::span<const DLTensor> inputs, std::span<ResultShape> results) const;
  // The call that computes the gradients of the inputs whose entry in `wanted` is 1. given: 1 for
  // each result that has a gradient; empty: all have. Where the gradient operator cannot do without
  // the gradient of a result, it is among the sources all the same (and is zero). Throws
  // Unsupported where there is no gradient.
  const BoundGradient& Gradient(std::span<const std::uint8_t> wanted,
                                std::span<const std::uint8_t> given = {}) const;

 protected:
  explicit BoundCall(const ScopeState& scope) : scope_(scope) {}
  virtual void DoRun(const DLTensor* inputs, const DLTensor* results) const = 0;
  // inputs: all with a dtype.
  virtual void DoInfer(std::span<const DLTensor> inputs, ResultShape* results) const = 0;
  virtual BoundGradient MakeGradient(std::span<const std::uint8_t> wanted,
                                     std::span<const std::uint8_t> given) const = 0;

  std::string text_;
  std::vector<BoundInput> inputs_;
  std::vector<BoundResult> results_;
  const ScopeState scope_;

 private:
  void CheckCounts(std::size_t inputs, std::size_t results) const;
  [[noreturn]] void RefuseDType(std::size_t input, const DLTensor& t) const;

  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<const BoundGradient>> gradients_;
};

// The call of this text; equal calls are one object, which lives as long as the process (about
// 2 KB). Reads any text that means the same; throws what is wrong with it, with its place.
// Takes no lock where the text was seen before.
const BoundCall& FindBoundCall(std::string_view text);

// The canonical text of a call of `op`. frame: its parameters; of tensors only the dtype counts.
// wanted: results by bit; those that cannot be declined are always wanted.
std::string TextOfCall(const Operator& op, const anyop_value* frame, std::uint32_t wanted,
                       const ScopeState& scope);

}  // namespace anyop
