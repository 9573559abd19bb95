// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/capsule.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "anyop/scope.h"
#include "platform/byte_count.h"
#include "platform/cpu.h"
#include "platform/env.h"
#include "platform/files.h"
#include "platform/hash_bytes.h"
#include "platform/safetensors_header.h"
#include "platform/threads.h"
#include "runtime/memory/copy.h"
#include "runtime/memory/overlap.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/key.h"
#include "runtime/plan/services.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

constexpr std::int64_t kMostFindingBytes = std::int64_t(1) << 30;

// f(name, tensor) for the arguments that are tensors.
template <class F>
void ForInputs(const Operator& op, const anyop_value* frame, F&& f) {
  for (int i = 0; i < op.n_params; ++i) {
    ForTensors(frame[i], [&](const DLTensor& t, std::uint32_t k) {
      std::string name(EntryName(op, i));
      if (frame[i].tag == ANYOP_TENSORS) name += "." + std::to_string(k);
      f(name, t);
    });
  }
}

// As Show, but with every number of a list, and with all digits of floats: a replay makes the very
// same call.
std::string ExactValue(const anyop_value& v) {
  const auto list = [&](auto&& element) {
    std::string text = "[";
    for (std::uint32_t k = 0; k < v.count; ++k) text += (k ? ", " : "") + element(k);
    return text + "]";
  };
  switch (v.tag) {
    case ANYOP_FLOAT:
      return ExactFloat(v.f);
    case ANYOP_TENSORS:
      return list([&](std::uint32_t k) { return Show(*v.ts[k]); });
    case ANYOP_INTS:
      return list([&](std::uint32_t k) { return std::to_string(v.is[k]); });
    case ANYOP_FLOATS:
      return list([&](std::uint32_t k) { return ExactFloat(v.fs[k]); });
    default:
      return Show(v);
  }
}

std::string ExactCall(const Operator& op, const anyop_value* frame) {
  std::string text;
  for (int i = 0; i < op.n_params; ++i) {
    text += (i ? ", " : "") + std::string(EntryName(op, i)) + " = " + ExactValue(frame[i]);
  }
  return text;
}

void AddLayouts(const Operator& op, const anyop_value* frame, SafetensorsHeader* header) {
  std::string strides, over, declined;
  ForInputs(op, frame, [&](const std::string& name, const DLTensor& t) {
    if (ClassOf(t) != kContiguous) strides += name + " = " + ShowStrides(t) + "\n";
  });
  for (int r = op.n_params; r < op.n_params + op.n_results; ++r) {
    if (frame[r].tag != ANYOP_TENSOR) {
      declined += std::string(EntryName(op, r)) + "\n";
      continue;
    }
    for (int i = 0; i < op.n_params; ++i) {
      if (frame[i].tag != ANYOP_TENSOR || !IsSameMemory(*frame[i].t, *frame[r].t)) continue;
      over += std::string(EntryName(op, r)) + " = " + std::string(EntryName(op, i)) + "\n";
      break;
    }
  }
  header->Metadata("strides", strides).Metadata("over", over).Metadata("declined", declined);
}

// The file up to the tensors' bytes: the length of the JSON, and the JSON.
std::string Header(const Operator& op, const Plan& plan, const anyop_value* frame,
                   std::string_view finding, std::string_view message) {
  SafetensorsHeader header("anyop-capsule 1");
  header.Metadata("op", op.name).Metadata("library", op.library).Metadata("file", op.file);
  header.Metadata("call", ExactCall(op, frame)).Metadata("kernel", KernelName(plan));
  AddLayouts(op, frame, &header);
  header.Metadata("threads", std::to_string(NumThreads()));
  header.Metadata("isa", Environment("ANYOP_ISA")).Metadata("policy", ProcessPolicy());
  header.Metadata("batch_invariant", plan.flags & ANYOP_FLAG_BATCH_INVARIANT ? "1" : "0");
  header.Metadata("finding", finding).Metadata("message", message);
  ForInputs(op, frame, [&](const std::string& name, const DLTensor& t) {
    header.Add(name, DType(FromDL(t.dtype)), {t.shape, std::size_t(t.ndim)}, PackedBytes(t));
  });
  return header.Finish();
}

}  // namespace

std::int64_t CapsuleBytes(const Operator& op, const anyop_value* frame) {
  std::int64_t bytes = 0;
  ForInputs(op, frame, [&](const std::string&, const DLTensor& t) {
    bytes = AddBytes(bytes, PackedBytes(t));
  });
  return bytes;
}

std::string SaveCapsule(const std::string& path, const Operator& op, const Plan& plan,
                        const anyop_value* frame, std::string_view finding,
                        std::string_view message) {
  MakeOwnFolder(std::filesystem::path(path).parent_path().string());
  // Under another name first: a process that ends meanwhile leaves no half of a capsule.
  const std::string made = path + "." + std::to_string(getpid()) + ".part";
  std::FILE* const file = std::fopen(made.c_str(), "wb");
  if (!file) return std::string(path) + " cannot be written: " + std::strerror(errno);
  const std::string header = Header(op, plan, frame, finding, message);
  bool is_written = std::fwrite(header.data(), 1, header.size(), file) == header.size();
  ForInputs(op, frame, [&](const std::string&, const DLTensor& t) {
    const std::vector<char> packed = Packed(t);
    is_written &= std::fwrite(packed.data(), 1, packed.size(), file) == packed.size();
  });
  is_written &= std::fclose(file) == 0;
  if (is_written && !std::rename(made.c_str(), path.c_str())) return "";
  const std::string why = std::strerror(errno);
  std::remove(made.c_str());
  return path + " cannot be written: " + why;
}

std::string SaveFinding(const Operator& op, const Plan& plan, const anyop_value* frame,
                        std::string_view code, std::string_view message) {
  const std::string recorded = Environment("ANYOP_RECORD"), cache = CacheFolder();
  const std::string folder = !recorded.empty() ? recorded
                             : cache.empty()   ? ""
                                               : cache + "/findings";
  if (folder.empty() || CapsuleBytes(op, frame) > kMostFindingBytes) return "";
  const std::string call = ExactCall(op, frame) + std::string(code);
  const std::string path = folder + "/" + op.name + "-" + std::string(code) + "-" +
                           DigestOf(HashBytes(call.data(), call.size())) + ".safetensors";
  return SaveCapsule(path, op, plan, frame, code, message).empty() ? path : "";
}

}  // namespace anyop
