// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/device_copy.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "anyop/tensor.h"
#include "platform/error.h"
#include "runtime/memory/copy.h"
#include "runtime/memory/overlap.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/make_plan.h"
#include "runtime/plan/services.h"
#include "runtime/run/packed_call.h"

namespace anyop {
namespace {

// Packs a tensor whose address is no multiple of its element size. The device's `pack` counts on
// aligned elements, so the bytes are copied to an aligned place first.
void PackMisaligned(const DeviceTarget& to, const DLTensor& from, void* packed) {
  const Extent extent = ExtentOf(from);
  const std::uint64_t bytes = extent.end - extent.begin;
  const DeviceMemory moved(to.kind, to.number, bytes);
  to.Check(to.table().copy(to.stream, to.number, moved.data(), to.number,
                           reinterpret_cast<const void*>(extent.begin), bytes));
  DLTensor aligned = from;
  aligned.data = static_cast<char*>(moved.data()) +
                 (reinterpret_cast<std::uintptr_t>(BaseOf(from)) - extent.begin);
  aligned.byte_offset = 0;
  to.Check(to.table().pack(to.stream, &aligned, packed));
}

void Pack(const DeviceTarget& to, const DLTensor& from, void* packed) {
  if (!PackedBytes(from)) return;
  if (ClassOf(from) == kContiguous) {
    to.Check(to.table().copy(to.stream, to.number, packed, to.number, BaseOf(from),
                             std::uint64_t(PackedBytes(from))));
  } else if (to.table().pack && IsMisaligned(from)) {
    PackMisaligned(to, from, packed);
  } else if (to.table().pack) {
    to.Check(to.table().pack(to.stream, &from, packed));
  } else if (to.table().submit) {
    SubmitCopy(to.kind, to.number, from, packed, /*to_packed=*/true, to.stream);
  } else {
    RefuseStrides(to, "", from);
  }
}

void Unpack(const DeviceTarget& at, const void* packed, const DLTensor& to) {
  if (!PackedBytes(to)) return;
  if (ClassOf(to) == kContiguous) {
    at.Check(at.table().copy(at.stream, at.number, BaseOf(to), at.number, packed,
                             std::uint64_t(PackedBytes(to))));
  } else if (at.table().unpack) {
    at.Check(at.table().unpack(at.stream, packed, &to));
  } else if (at.table().submit) {
    SubmitCopy(at.kind, at.number, to, const_cast<void*>(packed), /*to_packed=*/false, at.stream);
  } else {
    RefuseStrides(at, "", to);
  }
}

// Copies all bytes from the first element to the last, and packs them on the host. `shift` keeps
// the address modulo 8, and with it the alignment of elements.
void CopyExtentToHost(const DeviceTarget& from, const DLTensor& t, void* to) {
  const Extent extent = ExtentOf(t);
  const std::uint64_t bytes = extent.end - extent.begin, shift = extent.begin % 8;
  std::vector<std::uint64_t> memory((bytes + shift) / 8 + 1);
  char* const begin = reinterpret_cast<char*>(memory.data()) + shift;
  from.Check(from.table().copy(from.stream, ANYOP_AT_HOST, begin, from.number,
                               reinterpret_cast<const void*>(extent.begin), bytes));
  try {
    from.Wait();
  } catch (const StillCopying&) {
    new std::vector<std::uint64_t>(std::move(memory));  // never freed
    throw;
  }
  DLTensor here = t;
  here.data = begin + (AddressOf(t) - extent.begin);
  here.byte_offset = 0;
  CopyToPacked(here, static_cast<char*>(to));
}

}  // namespace

bool DeviceTarget::Settle() const {
  // The stream is tried once more, because an error that is told once may be gone now. Then all of
  // the device's streams together, in case this one is what fails.
  return table().synchronize(number, stream) == ANYOP_OK ||
         table().synchronize(number, nullptr) == ANYOP_OK;
}

void DeviceTarget::Wait() const {
  if (const int code = table().synchronize(number, stream)) {
    try {
      kind.FailWith(code, number);
    } catch (const Error& e) {
      if (Settle()) throw;
      throw StillCopying(e.code, e.what());
    }
  }
  RaiseLate(kind, number, stream);
}

void RefuseStrides(const DeviceTarget& target, const std::string& what, const DLTensor& t) {
  Fail(ANYOP_UNSUPPORTED, (what.empty() ? "" : what + " is ") + Show(t) + " on " +
                              Device(t.device).name() + (what.empty() ? " has" : " with") +
                              " strides " + ShowStrides(t) + ", but the library of " +
                              target.kind.word +
                              " copies contiguous memory alone. Try a contiguous tensor.");
}

void StartCopyToHost(const DeviceTarget& from, const DLTensor& t, void* to) {
  const std::uint64_t bytes = std::uint64_t(PackedBytes(t));
  if (!bytes) return;
  if (ClassOf(t) != kContiguous && !CanPack(from.table())) return CopyExtentToHost(from, t, to);
  std::optional<DeviceMemory> packed;  // given back in the order of the stream, behind the copy
  const void* source = BaseOf(t);
  if (ClassOf(t) != kContiguous) {
    packed.emplace(from.kind, from.number, bytes);
    Pack(from, t, packed->data());
    source = packed->data();
  }
  from.Check(from.table().copy(from.stream, ANYOP_AT_HOST, to, from.number, source, bytes));
}

void PackOnDevice(const DLTensor& from, void* to) { Pack(DeviceTarget(from.device), from, to); }
void UnpackOnDevice(const void* from, const DLTensor& to) {
  Unpack(DeviceTarget(to.device), from, to);
}

void FillOnDevice(const DLTensor& to, const void* item) {
  const DeviceTarget target(to.device);
  const std::uint64_t size = std::uint64_t(Bytes(to.dtype));
  const std::uint64_t bytes = std::uint64_t(PackedBytes(to));
  if (bytes) target.Check(target.table().fill(target.stream, BaseOf(to), bytes / size, item, size));
}

void CopyToHost(const DLTensor& from, void* to) {
  const DeviceTarget target(from.device);
  StartCopyToHost(target, from, to);
  target.Wait();
}

void CopyFromHost(const void* from, const DLTensor& to) {
  const DeviceTarget target(to.device);
  const std::uint64_t bytes = std::uint64_t(PackedBytes(to));
  if (!bytes) return;
  std::optional<DeviceMemory> packed;
  void* goal = BaseOf(to);
  const bool is_strided = ClassOf(to) != kContiguous;
  if (is_strided && !CanUnpack(target.table())) RefuseStrides(target, "", to);
  if (is_strided) {
    packed.emplace(target.kind, target.number, bytes);
    goal = packed->data();
  }
  target.Check(target.table().copy(target.stream, target.number, goal, ANYOP_AT_HOST, from, bytes));
  try {
    if (is_strided) Unpack(target, goal, to);
  } catch (const Error& e) {  // the copy still reads the caller's memory
    if (target.Settle()) throw;
    throw StillCopying(e.code, e.what());
  } catch (...) {
    target.Settle();
    throw;
  }
  target.Wait();
}

}  // namespace anyop
