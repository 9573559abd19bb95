// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "table.h"

namespace virtual_torch {
namespace {

struct Block {
  c10::DeviceIndex device;
  anyop_stream home;  // on which it was allocated
  void* memory;
  std::size_t bytes;
  std::set<anyop_stream> guests;  // by record_stream
};

std::mutex g_mutex;  // of statistics, guests and pinned memory
std::array<c10::CachingDeviceAllocator::DeviceStats, kMostDevices> g_stats;
std::map<const char*, std::size_t> g_pinned;

// May run anywhere, so nothing is thrown. A pool would ask events of guests; here the home stream
// waits for them.
void Free(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  const anyop_device& table = *Table();
  for (const anyop_stream guest : block->guests) {
    anyop_event end;
    if (table.create_event(block->device, &end) != ANYOP_OK) return;
    table.record_event(end, guest);
    table.wait_event(end, block->home);
    table.destroy_event(end);
  }
  table.release(block->device, block->home, block->memory);
  const std::lock_guard lock(g_mutex);
  g_stats[std::size_t(block->device)].allocated_bytes[0].decrease(block->bytes);
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::DeviceIndex index = DeviceAt(-1).index();
    if (bytes == 0) return {nullptr, DeviceAt(index)};
    const anyop_stream stream = CurrentNative(index);
    void* memory = nullptr;
    int code = Table()->allocate(index, stream, bytes, &memory);
    if (code == ANYOP_OUT_OF_MEMORY) {  // the host runs ahead of releases
      Must(Table()->synchronize(index, nullptr));
      code = Table()->allocate(index, stream, bytes, &memory);
    }
    Must(code);
    const std::lock_guard lock(g_mutex);
    g_stats[std::size_t(index)].allocated_bytes[0].increase(bytes);
    return {memory, new Block{index, stream, memory, bytes, {}}, &Free, DeviceAt(index)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const c10::DeviceIndex index = DeviceAt(-1).index();
    Must(Table()->copy(CurrentNative(index), index, to, index, from, bytes));
  }
  bool initialized() override { return Table() != nullptr; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (data.get_deleter() != &Free) return;
    auto& block = *static_cast<Block*>(data.get_context());
    const std::lock_guard lock(g_mutex);
    if (Native(stream) != block.home) block.guests.insert(Native(stream));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const std::lock_guard lock(g_mutex);
    return g_stats[std::size_t(index)];
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex index) override {
    anyop_device_properties properties = {};
    properties.size = sizeof properties;
    Must(Table()->properties(index, &properties));
    return {properties.free_bytes, properties.total_bytes};
  }
};

void FreePinned(void* memory) {
  const std::lock_guard lock(g_mutex);
  g_pinned.erase(static_cast<char*>(memory));
  std::free(memory);
}

class Pinned final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    constexpr std::size_t kAlign = 64;
    void* memory = std::aligned_alloc(kAlign, (bytes / kAlign + 1) * kAlign);
    const std::lock_guard lock(g_mutex);
    g_pinned[static_cast<char*>(memory)] = bytes + 1;  // an empty one is pinned too
    return {memory, memory, &FreePinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &FreePinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

c10::DeviceAllocator& DeviceMemory() {
  static auto& allocator = *new Allocator;  // storages may outlive everything
  return allocator;
}

c10::Allocator& PinnedAllocator() {
  static auto& allocator = *new Pinned;
  return allocator;
}

bool IsPinned(const void* data) {
  const std::lock_guard lock(g_mutex);
  auto behind = g_pinned.upper_bound(static_cast<const char*>(data));
  if (behind == g_pinned.begin()) return false;
  --behind;
  return data < behind->first + behind->second;
}

void ResizeBytes(const c10::Storage& storage, std::size_t bytes) {
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr fresh = DeviceMemory().allocate(bytes);
  const std::size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) DeviceMemory().copy_data(fresh.get(), storage.data(), kept);
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}

// torch's own copies the old bytes on the host.
void Resize(const at::Tensor& tensor, c10::IntArrayRef sizes,
            std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format.has_value()) impl->empty_tensor_restride(*format);
  const std::size_t items = std::size_t(impl->numel() + impl->storage_offset());
  const std::size_t bytes = items * impl->itemsize();
  if (impl->numel() && bytes > tensor.storage().nbytes()) ResizeBytes(tensor.storage(), bytes);
}

}  // namespace virtual_torch
