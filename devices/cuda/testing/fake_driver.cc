// SPDX-License-Identifier: Apache-2.0
#include "devices/cuda/testing/fake_driver.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "devices/cuda/driver.h"

namespace anyop::cuda {
namespace {

constexpr Result kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500,
                 kIllegalAddress = 700;
constexpr int kMostCards = 8;

struct Stream {
  int card;
  std::deque<std::function<Result()>> work;
  std::uint64_t put = 0, done = 0;
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  int card;
  StreamPtr at = nullptr;  // null: never recorded
  std::uint64_t place = 0;
  double when = 0;
  bool is_reached() const { return !at || at->done >= place; }
};

struct Block {
  std::uint64_t bytes;
  int card;
  bool is_live;
};

struct World {
  std::recursive_mutex mutex;
  FakeCuda seen;
  Result broken = kSuccess;  // what every function answers from then on
  char contexts[kMostCards];
  StreamPtr defaults[kMostCards];
  std::map<void*, StreamPtr> streams;
  std::map<void*, std::shared_ptr<Event>> events;
  std::map<Pointer, Block> blocks;  // released ones too
  std::uint64_t in_use[kMostCards] = {};
  double clock = 0;
};
World& TheWorld() {
  static auto* world = new World;
  return *world;
}
thread_local std::vector<void*> contexts;

// One function of the driver at a time. What is broken stays so.
template <class F>
Result Answer(F&& f) {
  World& world = TheWorld();
  const std::lock_guard lock(world.mutex);
  if (world.broken) return world.broken;
  const Result result = f(world);
  return world.broken ? world.broken : result;
}

int CardOfContext(const World& world, const void* context) {
  return int(static_cast<const char*>(context) - world.contexts);
}
// -1: there is none.
int CurrentCard(const World& world) {
  return contexts.empty() || !contexts.back() ? -1 : CardOfContext(world, contexts.back());
}

// Null: none of the driver's, or a default one without a context.
StreamPtr Find(World& world, StreamHandle* handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) > 2) {
    const auto found = world.streams.find(handle);
    return found == world.streams.end() ? nullptr : found->second;
  }
  const int card = CurrentCard(world);
  if (card < 0) return nullptr;
  StreamPtr& stream = world.defaults[card];
  if (!stream) stream = std::make_shared<Stream>(Stream{card, {}});
  return stream;
}
std::shared_ptr<Event> Find(World& world, EventHandle* handle) {
  const auto found = world.events.find(handle);
  return found == world.events.end() ? nullptr : found->second;
}

void Advance(World& world, Stream& stream, std::uint64_t place) {
  while (stream.done < place) {
    const std::function<Result()> work = std::move(stream.work.front());
    stream.work.pop_front();
    const Result result = work();
    ++stream.done;
    if (result && !world.broken) world.broken = result;
  }
}

Result Put(StreamHandle* handle, std::function<Result()> work) {
  return Answer([&](World& world) {
    const StreamPtr stream = Find(world, handle);
    if (!stream) return kInvalidHandle;
    if (CurrentCard(world) < 0) return kInvalidContext;
    if (CurrentCard(world) != stream->card) return kInvalidHandle;
    stream->work.push_back(std::move(work));
    ++stream->put;
    return kSuccess;
  });
}

// Whether a card may touch this, if it is memory of one; what is none is the host's.
bool IsOpen(const World& world, Pointer at, std::uint64_t bytes) {
  auto found = world.blocks.upper_bound(at);
  if (found == world.blocks.begin()) return true;
  const auto& [begin, block] = *--found;
  if (at >= begin + block.bytes) return true;
  return block.is_live && at + bytes <= begin + block.bytes;
}

Pointer NewBlock(World& world, std::uint64_t bytes, int card) {
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xff, bytes);
  const auto at = Pointer(reinterpret_cast<std::uintptr_t>(memory));
  world.blocks[at] = {bytes, card, true};
  return at;
}

template <class T>
Result Set(Pointer at, T item, std::size_t n, StreamHandle* stream) {
  return Put(stream, [=] {
    if (!IsOpen(TheWorld(), at, n * sizeof(T))) return kIllegalAddress;
    for (std::size_t i = 0; i < n; ++i) reinterpret_cast<T*>(std::uintptr_t(at))[i] = item;
    return kSuccess;
  });
}

const char* NameOf(Result result) {
  switch (result) {
    case kSuccess:
      return "CUDA_SUCCESS";
    case kInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case kOutOfMemory:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case kNoDevice:
      return "CUDA_ERROR_NO_DEVICE";
    case kInvalidContext:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case kInvalidHandle:
      return "CUDA_ERROR_INVALID_HANDLE";
    case kNotFound:
      return "CUDA_ERROR_NOT_FOUND";
    case kNotReady:
      return "CUDA_ERROR_NOT_READY";
    case kIllegalAddress:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace anyop::cuda

#define FAKE extern "C" __attribute__((visibility("default")))
using namespace anyop::cuda;

FAKE FakeCuda* fake_cuda() { return &TheWorld().seen; }

// ---- Errors and cards.

FAKE Result cuInit(unsigned) { return TheWorld().seen.init_result; }
FAKE Result cuGetErrorName(Result result, const char** to) {
  *to = NameOf(result);
  return *to ? kSuccess : kInvalidValue;
}
FAKE Result cuGetErrorString(Result result, const char** to) {
  *to = result == kIllegalAddress ? "an illegal memory access was encountered"
        : NameOf(result)          ? "an error of the fake driver"
                                  : nullptr;
  return *to ? kSuccess : kInvalidValue;
}
FAKE Result cuDeviceGetCount(int* to) {
  *to = TheWorld().seen.cards;
  return kSuccess;
}
FAKE Result cuDeviceGetName(char* to, int bytes, int card) {
  std::strncpy(to, ("Fake " + std::to_string(card)).c_str(), std::size_t(bytes));
  return kSuccess;
}
FAKE Result cuDeviceGetAttribute(int* to, int attribute, int) {
  const FakeCuda& seen = TheWorld().seen;
  *to = attribute == kMajor            ? seen.major
        : attribute == kMinor          ? seen.minor
        : attribute == kPoolsSupported ? seen.has_pools
                                       : 3;
  return kSuccess;
}
FAKE Result cuDeviceTotalMem_v2(std::size_t* to, int) {
  *to = TheWorld().seen.pool_bytes;
  return kSuccess;
}

// ---- Contexts.

FAKE Result cuDevicePrimaryCtxRetain(ContextHandle** to, int card) {
  *to = reinterpret_cast<ContextHandle*>(TheWorld().contexts + card);
  return kSuccess;
}
FAKE Result cuCtxGetCurrent(ContextHandle** to) {
  *to = contexts.empty() ? nullptr : static_cast<ContextHandle*>(contexts.back());
  return kSuccess;
}
FAKE Result cuCtxSetCurrent(ContextHandle* context) {
  if (!contexts.empty()) contexts.pop_back();
  if (context) contexts.push_back(context);
  return kSuccess;
}
FAKE Result cuCtxPushCurrent_v2(ContextHandle* context) {
  contexts.push_back(context);
  ++TheWorld().seen.contexts_pushed;
  return kSuccess;
}
FAKE Result cuCtxPopCurrent_v2(ContextHandle** to) {
  if (contexts.empty()) return kInvalidContext;
  *to = static_cast<ContextHandle*>(contexts.back());
  contexts.pop_back();
  --TheWorld().seen.contexts_pushed;
  return kSuccess;
}
FAKE Result cuCtxGetDevice(int* to) {
  *to = CurrentCard(TheWorld());
  return *to < 0 ? kInvalidContext : kSuccess;
}
FAKE Result cuCtxSynchronize() {
  return Answer([](World& world) {
    const int card = CurrentCard(world);
    if (card < 0) return kInvalidContext;
    if (world.defaults[card]) Advance(world, *world.defaults[card], world.defaults[card]->put);
    for (const auto& [_, stream] : world.streams) {
      if (stream->card == card) Advance(world, *stream, stream->put);
    }
    return kSuccess;
  });
}

// ---- Memory.

FAKE Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return Answer([&](World& world) {
    if (CurrentCard(world) < 0) return kInvalidContext;
    *total = world.seen.pool_bytes;
    *free = *total - world.in_use[CurrentCard(world)];
    return kSuccess;
  });
}
FAKE Result cuMemAlloc_v2(Pointer* to, std::size_t bytes) {
  return Answer([&](World& world) {
    if (CurrentCard(world) < 0) return kInvalidContext;
    *to = NewBlock(world, bytes, CurrentCard(world));
    return kSuccess;
  });
}
FAKE Result cuMemHostAlloc(void** to, std::size_t bytes, unsigned) {
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return kSuccess;
}
FAKE Result cuMemPoolCreate(PoolHandle** to, const PoolProperties* properties) {
  *to = reinterpret_cast<PoolHandle*>(TheWorld().contexts + properties->location_id);
  return kSuccess;
}
FAKE Result cuMemPoolSetAttribute(PoolHandle*, int, void*) { return kSuccess; }
FAKE Result cuMemPoolTrimTo(PoolHandle*, std::size_t) { return kSuccess; }
FAKE Result cuMemAllocFromPoolAsync(Pointer* to, std::size_t bytes, PoolHandle* pool,
                                    StreamHandle* stream) {
  return Answer([&](World& world) {
    const StreamPtr on = Find(world, stream);
    const int card = CardOfContext(world, pool);
    if (!on || on->card != card) return kInvalidHandle;
    if (world.in_use[card] + bytes > world.seen.pool_bytes) return kOutOfMemory;
    world.in_use[card] += bytes;
    world.seen.bytes_in_use += bytes;
    *to = NewBlock(world, bytes, card);
    return kSuccess;
  });
}
// The addresses are never given again, so that what is used too late is found.
FAKE Result cuMemFreeAsync(Pointer at, StreamHandle* stream) {
  return Put(stream, [at] {
    World& world = TheWorld();
    const auto found = world.blocks.find(at);
    if (found == world.blocks.end() || !found->second.is_live) return kInvalidValue;
    Block& block = found->second;
    std::memset(reinterpret_cast<void*>(std::uintptr_t(at)), 0xff, block.bytes);
    block.is_live = false;
    world.in_use[block.card] -= block.bytes;
    world.seen.bytes_in_use -= block.bytes;
    return kSuccess;
  });
}
FAKE Result cuMemcpyAsync(Pointer to, Pointer from, std::size_t bytes, StreamHandle* stream) {
  return Put(stream, [=] {
    const World& world = TheWorld();
    if (!IsOpen(world, to, bytes) || !IsOpen(world, from, bytes)) return kIllegalAddress;
    std::memmove(reinterpret_cast<void*>(std::uintptr_t(to)),
                 reinterpret_cast<const void*>(std::uintptr_t(from)), bytes);
    return kSuccess;
  });
}
FAKE Result cuMemsetD8Async(Pointer at, unsigned char item, std::size_t n, StreamHandle* s) {
  return Set(at, item, n, s);
}
FAKE Result cuMemsetD16Async(Pointer at, unsigned short item, std::size_t n, StreamHandle* s) {
  return Set(at, item, n, s);
}
FAKE Result cuMemsetD32Async(Pointer at, unsigned item, std::size_t n, StreamHandle* s) {
  return Set(at, item, n, s);
}

// ---- Streams and events.

FAKE Result cuStreamCreate(StreamHandle** to, unsigned) {
  return Answer([&](World& world) {
    if (CurrentCard(world) < 0) return kInvalidContext;
    auto stream = std::make_shared<Stream>(Stream{CurrentCard(world), {}});
    *to = reinterpret_cast<StreamHandle*>(stream.get());
    world.streams[*to] = std::move(stream);
    ++world.seen.streams;
    return kSuccess;
  });
}
FAKE Result cuStreamDestroy_v2(StreamHandle* handle) {
  return Answer([&](World& world) {
    const StreamPtr stream = Find(world, handle);
    if (!stream) return kInvalidHandle;
    Advance(world, *stream, stream->put);
    world.streams.erase(handle);
    --world.seen.streams;
    return kSuccess;
  });
}
FAKE Result cuStreamSynchronize(StreamHandle* handle) {
  return Answer([&](World& world) {
    const StreamPtr stream = Find(world, handle);
    if (!stream) return kInvalidHandle;
    if (world.seen.capturing == handle) return kInvalidValue;  // which would end the capture
    Advance(world, *stream, stream->put);
    return kSuccess;
  });
}
FAKE Result cuStreamGetCtx(StreamHandle* handle, ContextHandle** to) {
  return Answer([&](World& world) {
    const StreamPtr stream = Find(world, handle);
    if (!stream) return kInvalidHandle;
    *to = reinterpret_cast<ContextHandle*>(world.contexts + stream->card);
    return kSuccess;
  });
}
FAKE Result cuStreamGetCaptureInfo(StreamHandle* handle, int* status, std::uint64_t* id) {
  const bool is_captured = handle && TheWorld().seen.capturing == handle;
  *status = is_captured ? kIsCapturing : 0;
  *id = is_captured ? 7 : 0;
  return kSuccess;
}
#ifndef FAKE_IS_OLD
FAKE Result cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int current = 0;
  std::swap(current, *mode);
  return kSuccess;
}
#endif
FAKE Result cuStreamWaitEvent(StreamHandle* handle, EventHandle* event_handle, unsigned) {
  return Answer([&](World& world) {
    const std::shared_ptr<Event> event = Find(world, event_handle);
    if (!event) return kInvalidHandle;
    if (!event->at) return kSuccess;
    return Put(handle, [&world, at = event->at, place = event->place] {
      Advance(world, *at, place);
      return kSuccess;
    });
  });
}
FAKE Result cuEventCreate(EventHandle** to, unsigned) {
  return Answer([&](World& world) {
    if (CurrentCard(world) < 0) return kInvalidContext;
    auto event = std::make_shared<Event>(Event{CurrentCard(world)});
    *to = reinterpret_cast<EventHandle*>(event.get());
    world.events[*to] = std::move(event);
    ++world.seen.events;
    return kSuccess;
  });
}
FAKE Result cuEventDestroy_v2(EventHandle* handle) {
  return Answer([&](World& world) {
    if (!world.events.erase(handle)) return kInvalidHandle;
    --world.seen.events;
    return kSuccess;
  });
}
FAKE Result cuEventRecord(EventHandle* handle, StreamHandle* stream_handle) {
  return Answer([&](World& world) {
    const std::shared_ptr<Event> event = Find(world, handle);
    const StreamPtr stream = Find(world, stream_handle);
    if (!event || !stream || event->card != stream->card) return kInvalidHandle;
    event->at = stream;
    event->place = stream->put + 1;
    return Put(stream_handle, [&world, event] {
      event->when = ++world.clock;
      return kSuccess;
    });
  });
}
FAKE Result cuEventQuery(EventHandle* handle) {
  return Answer([&](World& world) {
    const std::shared_ptr<Event> event = Find(world, handle);
    if (!event) return kInvalidHandle;
    return event->is_reached() ? kSuccess : kNotReady;
  });
}
FAKE Result cuEventSynchronize(EventHandle* handle) {
  return Answer([&](World& world) {
    const std::shared_ptr<Event> event = Find(world, handle);
    if (!event) return kInvalidHandle;
    if (event->at) Advance(world, *event->at, event->place);
    return kSuccess;
  });
}
FAKE Result cuEventElapsedTime(float* to, EventHandle* from, EventHandle* until) {
  return Answer([&](World& world) {
    const auto a = Find(world, from), b = Find(world, until);
    if (!a || !b || !a->at || !b->at) return kInvalidHandle;
    if (!a->is_reached() || !b->is_reached()) return kNotReady;
    *to = float(b->when - a->when);
    return kSuccess;
  });
}

// ---- Kernels.

FAKE Result cuModuleLoadData(ModuleHandle** to, const void* image) {
  *to = static_cast<ModuleHandle*>(const_cast<void*>(image));
  return kSuccess;
}
FAKE Result cuModuleGetFunction(FunctionHandle** to, ModuleHandle* module, const char* name) {
  for (const auto* k = reinterpret_cast<const FakeKernel*>(module); k->name; ++k) {
    if (std::strcmp(k->name, name)) continue;
    *to = reinterpret_cast<FunctionHandle*>(const_cast<FakeKernel*>(k));
    return kSuccess;
  }
  return kNotFound;
}
FAKE Result cuFuncGetAttribute(int* to, int, FunctionHandle*) {
  *to = 1;
  return kSuccess;
}
FAKE Result cuLaunchKernel(FunctionHandle* function, unsigned grid, unsigned, unsigned, unsigned x,
                           unsigned y, unsigned z, unsigned, StreamHandle* stream,
                           void** parameters, void**) {
  if (!grid || !x || x * y * z > 1024) return kInvalidValue;
  const auto& kernel = *reinterpret_cast<const FakeKernel*>(function);
  const std::string call(static_cast<const char*>(parameters[0]), kernel.bytes);
  return Put(stream, [&kernel, call] {
    kernel.run(call.data());
    return kSuccess;
  });
}
