// SPDX-License-Identifier: Apache-2.0
// toy: a device library in one file, to begin your own with. Its device is a piece of the host
// itself: malloc is its memory, and a thread for each stream is what works later. docs/devices.md
// goes through it.
#include <anyop/device.h>
#include <anyop/op.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

// ---- Errors: a code, and a sentence that the thread can ask for.

// No string, which would end before the last call of its thread: that of a destructor.
thread_local char t_error[1024];

int Fail(int code, const std::string& text) {
  std::snprintf(t_error, sizeof t_error, "%s", text.c_str());
  return code;
}
const char* ErrorText() { return t_error; }

// ---- Streams: a queue, and a thread that works on it.

struct LateError {
  int code = ANYOP_OK;
  std::string text;
  std::uint64_t number = 0;  // one error may come to several streams along events
};

struct Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  LateError late;          // the oldest that nobody has taken
  bool is_ending = false;  // once the work is done

  void Put(std::function<void()> f) {
    const std::lock_guard lock(mutex);
    work.push_back(std::move(f));
    changed.notify_one();
  }
  void Loop() {
    do {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_ending || !work.empty(); });
      while (!work.empty()) {
        const std::function<void()> f = std::move(work.front());
        work.pop_front();
        lock.unlock();
        f();
        lock.lock();
      }
    } while (!HasLeft());
    delete this;
  }
  bool HasLeft();  // the list of streams: it is ending, and there is no work

  LateError Late() {
    const std::lock_guard lock(mutex);
    return late;
  }
  void Fail(LateError error) {
    const std::lock_guard lock(mutex);
    if (!late.code) late = std::move(error);
  }
  void Forget(const LateError& error) {
    const std::lock_guard lock(mutex);
    if (late.number == error.number) late = {};
  }
};

// Never destroyed: threads may work while the process ends.
struct Streams {
  std::mutex mutex;
  std::vector<Stream*> all;
  std::deque<LateError> left_behind;  // by streams that are gone

  Stream* Make() {
    auto* stream = new Stream;
    std::thread([stream] { stream->Loop(); }).detach();
    const std::lock_guard lock(mutex);
    all.push_back(stream);
    return stream;
  }
};
Streams& TheStreams() {
  static auto* streams = new Streams;
  return *streams;
}
bool Stream::HasLeft() {
  Streams& streams = TheStreams();
  const std::lock_guard lock(streams.mutex);
  const std::lock_guard inner(mutex);
  if (!is_ending || !work.empty()) return false;
  if (late.code) streams.left_behind.push_back(std::move(late));
  std::erase(streams.all, this);
  return true;
}

Stream& Of(anyop_stream stream) { return *static_cast<Stream*>(stream); }

anyop_stream DefaultStream(std::int32_t) {
  static Stream* const first = TheStreams().Make();
  return first;
}
int CreateStream(std::int32_t, anyop_stream* stream) {
  *stream = TheStreams().Make();
  return ANYOP_OK;
}
int DestroyStream(anyop_stream stream) {
  const std::lock_guard lock(Of(stream).mutex);
  Of(stream).is_ending = true;
  Of(stream).changed.notify_one();
  return ANYOP_OK;
}

// ---- Memory, in the order of a stream: released when the stream gets there.

int Allocate(std::int32_t, anyop_stream, std::uint64_t bytes, void** memory) {
  *memory = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (*memory) return ANYOP_OK;
  return Fail(ANYOP_OUT_OF_MEMORY, "there is no room for " + std::to_string(bytes) + " bytes.");
}
int Release(std::int32_t, anyop_stream stream, void* memory) {
  Of(stream).Put([memory] { std::free(memory); });
  return ANYOP_OK;
}
int Copy(anyop_stream stream, std::int32_t, void* to, std::int32_t, const void* from,
         std::uint64_t bytes) {
  Of(stream).Put([=] { std::memmove(to, from, bytes); });
  return ANYOP_OK;
}
int Fill(anyop_stream stream, void* to, std::uint64_t count, const void* item,
         std::uint64_t item_bytes) {
  // The item is the caller's, which may be gone when the stream gets there.
  const std::string kept(static_cast<const char*>(item), item_bytes);
  Of(stream).Put([to, count, kept] {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(static_cast<char*>(to) + i * kept.size(), kept.data(), kept.size());
    }
  });
  return ANYOP_OK;
}

// ---- Events: how often one was recorded, and how many of these a stream has reached.

using Clock = std::chrono::steady_clock;

struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0, reached = 0;
  Clock::time_point when;
  LateError late;  // that the stream had there: who waits for it waits for wrong results
  const Stream* on = nullptr;  // that stream, which may be gone

  void Reach(std::uint64_t n, const LateError& error = {}, const Stream* stream = nullptr) {
    const std::lock_guard lock(mutex);
    reached = n, when = Clock::now(), late = error, on = stream;
    changed.notify_all();
  }
  LateError Wait(std::uint64_t n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= n; });
    return late;
  }
  std::uint64_t Recorded(int more = 0) {
    const std::lock_guard lock(mutex);
    return recorded += std::uint64_t(more);
  }
};
// Work that names an event keeps it, so that it may be destroyed earlier.
using MarkPtr = std::shared_ptr<Mark>;
const MarkPtr& MarkOf(anyop_event event) { return *static_cast<MarkPtr*>(event); }

int CreateEvent(std::int32_t, anyop_event* event) {
  *event = new MarkPtr(std::make_shared<Mark>());
  return ANYOP_OK;
}
int DestroyEvent(anyop_event event) {
  delete static_cast<MarkPtr*>(event);
  return ANYOP_OK;
}
int RecordEvent(anyop_event event, anyop_stream stream) {
  const MarkPtr mark = MarkOf(event);
  Of(stream).Put([mark, n = mark->Recorded(1), s = &Of(stream)] { mark->Reach(n, s->Late(), s); });
  return ANYOP_OK;
}
int WaitEvent(anyop_event event, anyop_stream stream) {
  const MarkPtr mark = MarkOf(event);
  Of(stream).Put([mark, n = mark->Recorded(), s = &Of(stream)] { s->Fail(mark->Wait(n)); });
  return ANYOP_OK;
}
int QueryEvent(anyop_event event, std::int32_t* is_complete) {
  const std::lock_guard lock(MarkOf(event)->mutex);
  *is_complete = MarkOf(event)->reached >= MarkOf(event)->recorded;
  return ANYOP_OK;
}
// The error is told here, so neither the event nor its stream tells it again.
int SynchronizeEvent(anyop_event event) {
  Mark& mark = *MarkOf(event);
  mark.Wait(mark.Recorded());
  const std::lock_guard lock(TheStreams().mutex);
  const std::lock_guard inner(mark.mutex);
  const LateError late = std::exchange(mark.late, LateError{});
  if (!late.code) return ANYOP_OK;
  for (Stream* each : TheStreams().all) {
    if (each == mark.on) each->Forget(late);
  }
  return Fail(late.code, late.text);
}
int Elapsed(anyop_event from, anyop_event to, double* milliseconds) {
  const auto between = MarkOf(to)->when - MarkOf(from)->when;
  *milliseconds = std::chrono::duration<double, std::milli>(between).count();
  return ANYOP_OK;
}

int Synchronize(std::int32_t, anyop_stream stream) {
  std::vector<MarkPtr> ends;
  {
    const std::lock_guard lock(TheStreams().mutex);  // none of them ends meanwhile
    for (Stream* each : TheStreams().all) {
      if (stream && each != stream) continue;
      ends.push_back(std::make_shared<Mark>());
      each->Put([end = ends.back()] { end->Reach(1); });
    }
  }
  for (const MarkPtr& end : ends) end->Wait(1);
  return ANYOP_OK;
}

// ---- Work: a function of the host, with a copy of its block.

int Submit(anyop_stream handle, const anyop_launch* launch) {
  Stream& stream = Of(handle);
  std::shared_ptr<char[]> block(new char[launch->block_bytes]);
  std::memcpy(block.get(), launch->block, launch->block_bytes);
  // Threads of toy see its memory where everybody does: launch->addresses are right as they are.
  stream.Put([&stream, block, task = launch->task] {
    if (stream.Late().code) {  // what follows an error is dropped, until somebody has seen it
      task(block.get(), nullptr, 0);  // gives back what it holds
      return;
    }
    char message[512] = "";
    const int code = task(block.get(), message, sizeof message);
    static std::atomic<std::uint64_t> n_errors{0};
    if (code != ANYOP_OK) stream.Fail({code, message, ++n_errors});
  });
  return ANYOP_OK;
}

int TakeLateError(std::int32_t, anyop_stream stream, std::int32_t all_streams, char* message,
                  std::uint64_t message_bytes) {
  LateError error;
  const std::lock_guard lock(TheStreams().mutex);
  auto& left = TheStreams().left_behind;
  if (all_streams && !left.empty()) {
    error = left.front();
    std::erase_if(left, [&](const LateError& each) { return each.number == error.number; });
  }
  for (Stream* each : TheStreams().all) {
    if (!all_streams && each != stream) continue;
    if (!error.code) error = each->Late();
    if (error.code) each->Forget(error);  // the same one, that came along an event, too
  }
  if (error.code) std::snprintf(message, message_bytes, "%s", error.text.c_str());
  return error.code;
}

// ---- The table.

std::int32_t Count() { return 1; }
int Properties(std::int32_t, anyop_device_properties* to) {
  const anyop_device_properties all = {to->size, 1, 0, 0, "a toy", ""};
  std::memcpy(to, &all, std::min<std::size_t>(to->size, sizeof all));
  return ANYOP_OK;
}

constexpr anyop_device kDevice = {
    .size = sizeof(anyop_device),
    .version = ANYOP_DEVICE_VERSION,
    .word = "toy",
    .dlpack_type = 12,  // "an extension"
    .host_can_read = 1,
    .runs = "cpu",  // every kernel of the host, by `submit`
    .error_text = &ErrorText,
    .count = &Count,
    .properties = &Properties,
    .allocate = &Allocate,
    .release = &Release,
    .copy = &Copy,
    .fill = &Fill,
    .default_stream = &DefaultStream,
    .create_stream = &CreateStream,
    .destroy_stream = &DestroyStream,
    .create_event = &CreateEvent,
    .destroy_event = &DestroyEvent,
    .record_event = &RecordEvent,
    .wait_event = &WaitEvent,
    .query_event = &QueryEvent,
    .synchronize_event = &SynchronizeEvent,
    .elapsed = &Elapsed,
    .synchronize = &Synchronize,
    .late_error = &TakeLateError,
    .activate = nullptr,  // kernels do not launch themselves: they are what Submit runs
    .submit = &Submit,
    .check_indices = nullptr,  // Submit does these as well
    .failed = nullptr,
    .pack = nullptr,
    .unpack = nullptr,
    .takes_host_calls = 0,
    .reserved = 0,
    .allocation = nullptr,
};

// ---- A kernel of its own for an operator that is there already.

using namespace anyop;

// ---8<---
void Add(const Context&, const Tensor& x, const Tensor& y, const Tensor& z) {
  const bool is_one_row = y.rank() == 1;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const auto a = x.row<const float>(r), b = y.row<const float>(is_one_row ? 0 : r);
    const auto sum = z.row<float>(r);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
  }
}
constexpr Kernel kAdd{.name = "toy_rows", .when = "T == f32", .run = Bind<&Add>()};

}  // namespace

extern "C" ANYOP_EXPORT const anyop_device_info* anyop_device_library() {
  static const anyop_device_kernel add = {sizeof add, 0, "anyop.add",
                                          reinterpret_cast<const anyop_kernel*>(&kAdd), nullptr};
  static const anyop_device_kernel* const kernels[] = {&add};
  static const anyop_device_info library = {
      sizeof library, ANYOP_DEVICE_VERSION, "toy", &kDevice, 1, 0, kernels};
  return &library;
}
// --->8---
