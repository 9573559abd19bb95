// SPDX-License-Identifier: Apache-2.0
// What MindSpore runs for a node that is a bound call: its `Custom` (aot) finds these functions by
// their names, and the call by the attribute `call`, its text. Built for MindSpore's C++ ABI and
// linked to nothing of it, so that one file serves every MindSpore of that ABI; of anyop it uses
// the C header alone. MindSpore closes and opens it at will: it is linked to stay.
#include <cstring>
#include <stdexcept>
#include <vector>

#include "anyop/host.h"
#include "anyop/value.h"
#include "attributes.h"
#include "dtypes.h"

namespace {

using anyop::mindspore::Attributes;
using anyop::mindspore::DTypeRow;
using anyop::mindspore::Kept;
using Sizes = std::vector<std::int64_t>;
constexpr int kMaxTensors = 1024;      // of a node; 48 bytes each, on the stack
constexpr std::int64_t kAnyRank = -2;  // the only size of a tensor whose rank is unknown

enum TypeId : int {};  // as wide as MindSpore's

[[noreturn]] void Throw() { throw std::runtime_error(anyop_error_text()); }

const anyop_call* CallOf(void* extra) {
  const std::string text = static_cast<Attributes*>(extra)->GetStr("call");
  const anyop_call* call;
  if (anyop_find_call(text.data(), text.size(), &call)) Throw();
  return call;
}

// The call of a kernel, found once: asking for the attribute copies its text.
struct Node final : Kept {
  explicit Node(const anyop_call* found)
      : call(found), n_inputs(anyop_input_count(found)), n_results(anyop_result_count(found)) {}
  const anyop_call* call;
  int n_inputs, n_results;
};

// The results of a call on tensors of these sizes; ranks null: nothing is known of the tensors.
std::vector<anyop_shape> Infer(const anyop_call* call, const int* ranks, std::int64_t** sizes) {
  const int n = anyop_input_count(call);
  std::vector<DLTensor> inputs(std::size_t(n),
                               anyop::MakeDLTensor(nullptr, anyop::kHostDevice, {}, -1, nullptr));
  for (int i = 0; ranks && i < n; ++i) {
    if (ranks[i] == 1 && sizes[i][0] == kAnyRank) continue;
    inputs[std::size_t(i)].ndim = ranks[i];
    inputs[std::size_t(i)].shape = sizes[i];
  }
  const int n_results = anyop_result_count(call);
  std::vector<anyop_shape> results{std::size_t(n_results)};
  if (anyop_infer_call(call, inputs.data(), n, results.data(), n_results)) Throw();
  return results;
}

}  // namespace

namespace {

std::vector<Sizes> InferSizes(int* ranks, std::int64_t** sizes, void* extra) {
  std::vector<Sizes> found;
  for (const anyop_shape& s : Infer(CallOf(extra), ranks, sizes)) {
    found.push_back(s.rank < 0 ? Sizes{kAnyRank} : Sizes(s.shape, s.shape + s.rank));
  }
  return found;
}

std::vector<TypeId> InferTypes(void* extra) {
  const anyop_call* call = CallOf(extra);
  std::vector<TypeId> found;
  for (const anyop_shape& s : Infer(call, nullptr, nullptr)) {
    const DTypeRow* row = anyop::mindspore::FindDType(s.dtype);
    if (!row) {
      throw std::runtime_error(std::string(anyop_call_text(call)) +
                               " has a result whose dtype MindSpore lacks, or which only ranks "
                               "tell. Try the call outside of graphs.");
    }
    found.push_back(TypeId(row->id));
  }
  return found;
}

TypeId Byte() { return TypeId(anyop::mindspore::FindDType(DLDataType{0, 8, 1})->id); }

}  // namespace

extern "C" {

// A call with several results.
ANYOP_EXPORT std::vector<Sizes> AnyopCallsInferShape(int* ranks, std::int64_t** sizes,
                                                     void* extra) {
  return InferSizes(ranks, sizes, extra);
}
ANYOP_EXPORT std::vector<TypeId> AnyopCallsInferType(std::vector<TypeId>, void* extra) {
  return InferTypes(extra);
}

// A call with one result, or with none: every node of MindSpore has one, and of such a call it is a
// byte that nobody reads. A lone result without dimensions stays a tensor here. Among several,
// MindSpore makes it a number, so the two kinds of call have functions of their own.
ANYOP_EXPORT Sizes AnyopCallInferShape(int* ranks, std::int64_t** sizes, void* extra) {
  const std::vector<Sizes> found = InferSizes(ranks, sizes, extra);
  return found.empty() ? Sizes{1} : found.front();
}
ANYOP_EXPORT TypeId AnyopCallInferType(std::vector<TypeId>, void* extra) {
  const std::vector<TypeId> found = InferTypes(extra);
  return found.empty() ? Byte() : found.front();
}

// MindSpore calls this when it makes a kernel, and hands its attributes to each run of the kernel.
// It would only log an error of this function, so none is reported: the run says what is wrong.
ANYOP_EXPORT int AnyopCallInit(int*, std::int64_t**, const char**, void* extra) {
  auto* attributes = static_cast<Attributes*>(extra);
  try {
    if (!attributes->kept) attributes->kept = new Node(CallOf(extra));
  } catch (const std::runtime_error&) {
  }
  return 0;
}
ANYOP_EXPORT int AnyopCallsInit(int* ranks, std::int64_t** sizes, const char** dtypes,
                                void* extra) {
  return AnyopCallInit(ranks, sizes, dtypes, extra);
}

ANYOP_EXPORT int AnyopCall(int n, void** data, int* ranks, std::int64_t** sizes,
                           const char** dtypes, void*, void* extra) {
  const auto* kept = static_cast<const Node*>(static_cast<Attributes*>(extra)->kept);
  const Node node = kept ? *kept : Node(CallOf(extra));
  if (n > kMaxTensors || n != node.n_inputs + (node.n_results ? node.n_results : 1)) {
    throw std::runtime_error(std::string(anyop_call_text(node.call)) + ": MindSpore gives it " +
                             std::to_string(n) + " tensors, which is not what it takes.");
  }
  DLTensor tensors[kMaxTensors];
  for (int i = 0; i < n; ++i) {
    const DTypeRow* row = anyop::mindspore::FindDType(dtypes[i]);
    anyop::FillTensor(&tensors[i], data[i], anyop::kHostDevice, row ? row->dtype : DLDataType{},
                      ranks[i], sizes[i]);
  }
  const DLTensor* results = tensors + node.n_inputs;
  if (anyop_run_call(node.call, tensors, node.n_inputs, results, node.n_results)) Throw();
  return 0;
}
ANYOP_EXPORT int AnyopCalls(int n, void** data, int* ranks, std::int64_t** sizes,
                            const char** dtypes, void* stream, void* extra) {
  return AnyopCall(n, data, ranks, sizes, dtypes, stream, extra);
}

// Stands before a write into what is no Parameter, so that MindSpore orders what reads it.
ANYOP_EXPORT Sizes AnyopTouchInferShape(int*, std::int64_t**, void*) { return {1}; }
ANYOP_EXPORT TypeId AnyopTouchInferType(std::vector<TypeId>, void*) { return Byte(); }
ANYOP_EXPORT int AnyopTouch(int, void**, int*, std::int64_t**, const char**, void*, void*) {
  return 0;
}

// Stands for a gradient that does not exist, with the sizes of the tensor that it would be the
// gradient of. MindSpore removes the node where nothing uses it, so that only a use raises.
ANYOP_EXPORT Sizes AnyopRefuseInferShape(int* ranks, std::int64_t** sizes, void*) {
  return Sizes(sizes[0], sizes[0] + ranks[0]);
}
ANYOP_EXPORT TypeId AnyopRefuseInferType(std::vector<TypeId> types, void*) { return types[0]; }
ANYOP_EXPORT int AnyopRefuse(int, void**, int*, std::int64_t**, const char**, void*, void* extra) {
  throw std::runtime_error(static_cast<Attributes*>(extra)->GetStr("why"));
}

}  // extern "C"
