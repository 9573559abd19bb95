// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace virtual_torch {
namespace {

constexpr int kPooled = 8;

const anyop_device* g_table = nullptr;
thread_local c10::DeviceIndex t_device = 0;
thread_local std::array<c10::StreamId, kMostDevices> t_streams{};

c10::Stream StreamOf(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, DeviceAt(index), id);
}

void RaiseLate(c10::DeviceIndex index, anyop_stream stream) {
  char message[512] = "";
  const int code = g_table->late_error(index, stream, stream == nullptr, message, sizeof message);
  if (!message[0]) Must(code);
  if (code != ANYOP_OK) Raise(code, message);
}

struct Kept {
  anyop_event end;
  std::shared_ptr<void> what;
};
// Never destroyed: the process may end with work under way.
struct AllKept {
  std::mutex mutex;
  std::map<anyop_stream, std::deque<Kept>> by_stream;
};
AllKept& TheKept() {
  static auto& all = *new AllKept;
  return all;
}

// Those of the stream whose work is over; they die behind the lock.
std::vector<Kept> TakeOver(AllKept& all, anyop_stream stream) {
  std::vector<Kept> over;
  const std::lock_guard lock(all.mutex);
  std::deque<Kept>& kept = all.by_stream[stream];
  while (!kept.empty()) {
    std::int32_t is_complete = 0;
    if (g_table->query_event(kept.front().end, &is_complete) != ANYOP_OK || !is_complete) break;
    over.push_back(std::move(kept.front()));
    kept.pop_front();
  }
  return over;
}

void Sweep(anyop_stream stream) {
  for (const Kept& kept : TakeOver(TheKept(), stream)) g_table->destroy_event(kept.end);
}

}  // namespace

const anyop_device* Table() { return g_table; }
void SetTable(const anyop_device* table) { g_table = table; }
std::string Word() { return g_table->word; }

// As torch's adapter of anyop does: the same error is of the same kind, whoever sees it.
void Raise(int code, const std::string& text) {
  switch (code) {
    case ANYOP_INVALID_ARGUMENT:
      C10_THROW_ERROR(ValueError, text);
    case ANYOP_UNSUPPORTED:
      C10_THROW_ERROR(NotImplementedError, text);
    case ANYOP_OUT_OF_MEMORY:
      C10_THROW_ERROR(OutOfMemoryError, text);
    default:
      C10_THROW_ERROR(Error, text);
  }
}

void Must(int code) {
  if (code != ANYOP_OK) Raise(code, Word() + ": " + g_table->error_text());
}

c10::Device DeviceAt(c10::DeviceIndex index) { return {kType, index < 0 ? t_device : index}; }
void SetCurrentDevice(c10::DeviceIndex index) { t_device = index; }

c10::Stream CurrentStream(c10::DeviceIndex index) {
  return StreamOf(index, t_streams[std::size_t(DeviceAt(index).index())]);
}
void SetCurrentStream(const c10::Stream& stream) {
  t_streams[std::size_t(stream.device_index())] = stream.id();
}
c10::Stream DefaultStream(c10::DeviceIndex index) { return StreamOf(index, 0); }

c10::Stream PooledStream(c10::DeviceIndex index) {
  static std::mutex mutex;
  static std::array<std::vector<anyop_stream>, kMostDevices> pools;
  static std::array<std::size_t, kMostDevices> next{};
  const auto device = std::size_t(DeviceAt(index).index());
  const std::lock_guard lock(mutex);
  if (pools[device].size() < kPooled) {
    anyop_stream made;
    Must(g_table->create_stream(std::int32_t(device), &made));
    pools[device].push_back(made);
  }
  const anyop_stream given = pools[device][next[device]++ % kPooled];
  return StreamOf(c10::DeviceIndex(device), reinterpret_cast<c10::StreamId>(given));
}

anyop_stream Native(const c10::Stream& stream) {
  if (stream.id() != 0) return reinterpret_cast<anyop_stream>(stream.id());
  const anyop_stream handle = g_table->default_stream(stream.device_index());
  if (handle == nullptr) Must(ANYOP_NOT_AVAILABLE);
  return handle;
}
anyop_stream CurrentNative(c10::DeviceIndex index) { return Native(CurrentStream(index)); }

void Synchronize(const c10::Stream& stream) {
  const anyop_stream native = Native(stream);
  Must(g_table->synchronize(stream.device_index(), native));
  Sweep(native);
  RaiseLate(stream.device_index(), native);
}

void Synchronize(c10::DeviceIndex index) {
  Must(g_table->synchronize(index, nullptr));
  RaiseLate(index, nullptr);
}

void Order(anyop_stream before, anyop_stream after, c10::DeviceIndex index) {
  if (before == after) return;
  anyop_event event;
  Must(g_table->create_event(index, &event));
  Must(g_table->record_event(event, before));
  Must(g_table->wait_event(event, after));
  Must(g_table->destroy_event(event));
}

void KeepUntilOver(std::shared_ptr<void> what, anyop_stream stream, c10::DeviceIndex index) {
  Sweep(stream);
  AllKept& all = TheKept();
  const std::lock_guard lock(all.mutex);
  anyop_event end;
  Must(g_table->create_event(index, &end));
  Must(g_table->record_event(end, stream));
  all.by_stream[stream].push_back({end, std::move(what)});
}

}  // namespace virtual_torch
