// SPDX-License-Identifier: Apache-2.0
// Collective calls (HCCL) of one process, where all that they do is to copy. More processes than
// one have no way to one another here. Names, arguments and numbers are those of Ascend's public
// documentation.
#include <array>
#include <cstdio>

#include "acl.h"

using namespace npu;

namespace {

constexpr int kNotSupported = 5;  // HcclResult
constexpr std::size_t kNameBytes = 128;
char g_comm;  // its address is the one communicator

// Of an element, by HcclDataType: int8, int16, int32, float16, float32, int64, uint64, uint8,
// uint16, uint32, float64, bfloat16.
constexpr std::array<std::uint64_t, 12> kBytes = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2};

int Refuse(const char* who, const std::string& what) {
  Fail(kUnsupported, std::string(who) + ": " + what);
  return kNotSupported;
}

int Begin(const char* who, std::uint32_t ranks, void** comm) {
  if (ranks != 1) {
    return Refuse(who, std::to_string(ranks) +
                           " processes are to work together, but the virtual NPU has collective "
                           "calls of one process alone. Try the backend gloo, with tensors of the "
                           "host.");
  }
  *comm = &g_comm;
  return 0;
}

int Copy(const char* who, const void* from, void* to, std::uint64_t count, int type, void* stream) {
  if (type < 0 || std::size_t(type) >= kBytes.size()) {
    return Refuse(who, "elements of type " + std::to_string(type) + " are not supported.");
  }
  const std::uint64_t bytes = count * kBytes[std::size_t(type)];
  if (bytes == 0 || from == to) return 0;
  return Answer(
      virtual_device::kTable.copy(StreamOf(stream), PlaceOf(to), to, PlaceOf(from), from, bytes));
}

int Peerless(const char* who) { return Refuse(who, "there is no other process to reach."); }

}  // namespace

ACL int HcclGetRootInfo(void*) { return 0; }
ACL int HcclCommInitRootInfo(std::uint32_t ranks, const void*, std::uint32_t, void** comm) {
  return Begin("HcclCommInitRootInfo", ranks, comm);
}
ACL int HcclCommInitRootInfoConfig(std::uint32_t ranks, const void*, std::uint32_t, const void*,
                                   void** comm) {
  return Begin("HcclCommInitRootInfoConfig", ranks, comm);
}
ACL int HcclCommDestroy(void*) { return 0; }
ACL int HcclGetCommName(void*, char* name) {
  std::snprintf(name, kNameBytes, "virtual_npu");
  return 0;
}
ACL int HcclGetCommAsyncError(void*, int* error) { return *error = 0; }

ACL int HcclAllReduce(void* from, void* to, std::uint64_t count, int type, int, void*,
                      void* stream) {
  return Copy("HcclAllReduce", from, to, count, type, stream);
}
ACL int HcclReduce(void* from, void* to, std::uint64_t count, int type, int, std::uint32_t, void*,
                   void* stream) {
  return Copy("HcclReduce", from, to, count, type, stream);
}
ACL int HcclReduceScatter(void* from, void* to, std::uint64_t count, int type, int, void*,
                          void* stream) {
  return Copy("HcclReduceScatter", from, to, count, type, stream);
}
ACL int HcclAllGather(void* from, void* to, std::uint64_t count, int type, void*, void* stream) {
  return Copy("HcclAllGather", from, to, count, type, stream);
}
ACL int HcclScatter(void* from, void* to, std::uint64_t count, int type, std::uint32_t, void*,
                    void* stream) {
  return Copy("HcclScatter", from, to, count, type, stream);
}
ACL int HcclAlltoAll(const void* from, std::uint64_t count, int type, const void* to, std::uint64_t,
                     int, void*, void* stream) {
  return Copy("HcclAlltoAll", from, const_cast<void*>(to), count, type, stream);
}
ACL int HcclBroadcast(void*, std::uint64_t, int, std::uint32_t, void*, void*) { return 0; }
ACL int HcclBarrier(void*, void*) { return 0; }
ACL int HcclSend(void*, std::uint64_t, int, std::uint32_t, void*, void*) {
  return Peerless("HcclSend");
}
ACL int HcclRecv(void*, std::uint64_t, int, std::uint32_t, void*, void*) {
  return Peerless("HcclRecv");
}
