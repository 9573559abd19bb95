// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/packed_call.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "anyop/tensor.h"
#include "anyop/value.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "platform/float_mode.h"
#include "runtime/memory/copy.h"
#include "runtime/plan/frame.h"
#include "runtime/run/run.h"
#include "signature/contract.h"

namespace anyop {
namespace {

// Pointers within a block are offsets until the block lies where it is read.
struct PackedTensor {
  DLTensor tensor;
  std::int64_t shape[kMaxRank], strides[kMaxRank];
};

struct PackedHeader {
  const Operator* op;
  Plan* plan;  // with a reference
  void* workspace;
  PackedChecks checks;
  std::uint32_t n_values, values;
};

struct PackedCopy {
  PackedTensor from_or_to;
  void* packed;
  bool to_packed;
};

constexpr std::int64_t kMostPlanned = std::int64_t{1} << 30;  // places in a block have 32 bits

PackedTensor PackTensor(const DLTensor& t) {
  PackedTensor packed{};
  packed.tensor = t;
  packed.tensor.byte_offset = 0;
  std::int64_t size = 1;
  for (int d = 0; d < t.ndim; ++d) {
    packed.shape[d] = t.shape[d];
    if (t.strides) packed.strides[d] = t.strides[d];
    size *= t.shape[d];
  }
  packed.tensor.data = size ? BaseOf(t) : nullptr;  // of nothing, which may lie anywhere
  return packed;
}

void Settle(PackedTensor& packed) {
  packed.tensor.shape = packed.shape;
  if (packed.tensor.strides) packed.tensor.strides = packed.strides;
}

class BlockWriter {
 public:
  // Bytes at a multiple of 8; where they lie.
  std::uint32_t Add(const void* from, std::size_t bytes) {
    const std::size_t at = words_.size() * sizeof(std::uint64_t);
    words_.resize(words_.size() + (bytes + 7) / 8);
    if (bytes) std::memcpy(data() + at, from, bytes);
    return std::uint32_t(at);
  }
  std::uint32_t AddTensor(const DLTensor& t) {
    PackedTensor packed = PackTensor(t);
    if (IsHost(t.device)) {  // planned: its data go along
      packed.tensor.strides = nullptr;
      packed.tensor.data = reinterpret_cast<void*>(std::uintptr_t{AddData(t)});
      return Add(&packed, sizeof packed);
    }
    const std::uint32_t at = Add(&packed, sizeof packed);
    AddAddress(at + std::uint32_t(offsetof(PackedTensor, tensor) + offsetof(DLTensor, data)));
    return at;
  }
  void AddAddress(std::uint32_t at) { addresses_.push_back(at); }
  char* data() { return reinterpret_cast<char*>(words_.data()); }

  void Submit(const DeviceKind& kind, int number, const char* name, anyop_task task,
              anyop_stream stream) {
    const anyop_launch launch{sizeof launch,
                              std::uint32_t(addresses_.size()),
                              name,
                              task,
                              words_.data(),
                              words_.size() * sizeof(std::uint64_t),
                              addresses_.data()};
    kind.Check(kind.table.submit(stream, &launch), number);
  }

 private:
  std::uint32_t AddData(const DLTensor& t) {
    const std::size_t at = words_.size() * sizeof(std::uint64_t);
    words_.resize(words_.size() + (std::size_t(PackedBytes(t)) + 7) / 8);
    CopyToPacked(t, data() + at);
    return std::uint32_t(at);
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> addresses_;
};

// The value with its pointer as an offset.
anyop_value PackValue(BlockWriter& block, anyop_value v) {
  switch (v.tag) {
    case ANYOP_TENSOR:
      v.i = block.AddTensor(*v.t);
      break;
    case ANYOP_TENSORS: {
      std::vector<std::int64_t> at;
      for (std::uint32_t k = 0; k < v.count; ++k) at.push_back(block.AddTensor(*v.ts[k]));
      v.i = block.Add(at.data(), at.size() * sizeof(std::int64_t));
      break;
    }
    case ANYOP_WORD:
      v.i = block.Add(std::string(v.s, v.count).c_str(), v.count + 1);
      break;
    case ANYOP_INTS:
    case ANYOP_FLOATS:
      v.i = block.Add(v.is, v.count * sizeof(std::int64_t));
      break;
    default:
      break;
  }
  return v;
}

void SettleValue(char* block, anyop_value& v) {
  // Called only once the tag has said that there is an offset: the bits of a number are none, and
  // adding them to a pointer would overflow.
  const auto at = [block, &v] { return block + v.i; };
  const auto tensor = [block](char* where) {
    auto* packed = reinterpret_cast<PackedTensor*>(where);
    Settle(*packed);
    if (IsHost(packed->tensor.device)) {
      packed->tensor.data = block + reinterpret_cast<std::uintptr_t>(packed->tensor.data);
    }
    return &packed->tensor;
  };
  if (v.tag == ANYOP_TENSOR) {
    v.t = tensor(at());
  } else if (v.tag == ANYOP_TENSORS) {
    auto* list = reinterpret_cast<const DLTensor**>(at());
    for (std::uint32_t k = 0; k < v.count; ++k) {
      std::int64_t offset;
      std::memcpy(&offset, &list[k], sizeof offset);
      list[k] = tensor(block + offset);
    }
    v.ts = list;
  } else if (v.tag == ANYOP_WORD) {
    v.s = at();
  } else if (v.tag == ANYOP_INTS) {
    v.is = reinterpret_cast<const std::int64_t*>(at());
  } else if (v.tag == ANYOP_FLOATS) {
    v.fs = reinterpret_cast<const double*>(at());
  }
}

int RunPackedKernel(void* memory, char* message, std::uint64_t bytes) {
  char* block = static_cast<char*>(memory);
  const auto& h = *reinterpret_cast<PackedHeader*>(block);
  // Before all else, so that a task that is dropped gives back its plan, too.
  const std::unique_ptr<Plan, void (*)(Plan*)> plan(h.plan, &Release);
  if (!message) return ANYOP_OK;  // it is dropped
  auto* frame = reinterpret_cast<anyop_value*>(block + h.values);
  for (std::uint32_t i = 0; i < h.n_values; ++i) SettleValue(block, frame[i]);
  try {
    // The device's thread may have any float mode.
    const DefaultFloatMode mode;
    if (h.checks.indices) CheckIndices(*h.op, *h.plan, h.plan->index_checks, frame);
    if (h.checks.own) CallCheck(*h.op, *h.plan, frame, h.op->data->check);
    if (h.plan->kernel < 0) return ANYOP_OK;
    RunKernelIn(h.workspace, *h.plan, frame, DeviceCountersOf(*h.op, *h.plan));
  } catch (const Error& e) {
    std::snprintf(message, bytes, "%s", e.what());
    return e.code;
  }
  return ANYOP_OK;
}

int RunPackedCopy(void* memory, char* message, std::uint64_t) {
  if (!message) return ANYOP_OK;
  auto& copy = *static_cast<PackedCopy*>(memory);
  Settle(copy.from_or_to);
  if (copy.to_packed) {
    CopyToPacked(copy.from_or_to.tensor, copy.packed);
  } else {
    CopyFromPacked(copy.packed, copy.from_or_to.tensor);
  }
  return ANYOP_OK;
}

}  // namespace

void CheckPlannedBytes(const Operator& op, const anyop_value* frame) {
  std::int64_t bytes = 0;
  for (int i = 0; i < op.n_params; ++i) {
    if (!(op.planned >> i & 1)) continue;
    ForTensors(frame[i],
               [&](const DLTensor& t, std::uint32_t) { bytes = AddBytes(bytes, PackedBytes(t)); });
  }
  if (bytes <= kMostPlanned) return;
  Fail(ANYOP_UNSUPPORTED, op.Message("the planned tensors have " + std::to_string(bytes) +
                                     " bytes, but at most 2^30 go along with a "
                                     "call's work. Try smaller tensors."));
}

void SubmitKernel(const Operator& op, Plan& plan, const anyop_value* frame, PackedChecks checks,
                  void* workspace, anyop_stream stream) {
  BlockWriter block;
  const auto n = std::uint32_t(op.n_params + op.n_results);
  const PackedHeader empty{&op, &plan, workspace, checks, n, 0};
  const std::uint32_t at = block.Add(&empty, sizeof empty);
  block.AddAddress(at + std::uint32_t(offsetof(PackedHeader, workspace)));
  const std::uint32_t values = block.Add(frame, n * sizeof(anyop_value));
  for (std::uint32_t i = 0; i < n; ++i) {
    const anyop_value v = PackValue(block, frame[i]);
    std::memcpy(block.data() + values + i * sizeof v, &v, sizeof v);
  }
  reinterpret_cast<PackedHeader*>(block.data() + at)->values = values;
  Acquire(&plan);  // first: the task may have run, and released it, before Submit returns
  try {
    block.Submit(*plan.device_kind, plan.device.device_id, op.shown_name.c_str(), &RunPackedKernel,
                 stream);
  } catch (...) {
    Release(&plan);
    throw;
  }
}

void SubmitCopy(const DeviceKind& kind, int number, const DLTensor& tensor, void* packed,
                bool to_packed, anyop_stream stream) {
  BlockWriter block;
  const PackedCopy copy{PackTensor(tensor), packed, to_packed};
  block.Add(&copy, sizeof copy);
  block.AddAddress(
      std::uint32_t(offsetof(PackedCopy, from_or_to.tensor) + offsetof(DLTensor, data)));
  block.AddAddress(std::uint32_t(offsetof(PackedCopy, packed)));
  block.Submit(kind, number, "a strided copy", &RunPackedCopy, stream);
}

}  // namespace anyop
