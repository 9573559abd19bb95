// SPDX-License-Identifier: Apache-2.0
#include "devices/cuda/index_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "anyop/tensor.h"
#include "devices/cuda/device_kernels.h"
#include "devices/cuda/launch.h"
#include "devices/cuda/strided.h"

namespace anyop::cuda {
namespace {

constinit const Function kCheck{anyop_cuda_image_device, "check_indices"};
constexpr std::size_t kSlotsAtATime = 256;

struct Slot {
  StreamHandle* stream;
  std::uint64_t capture;  // 0: of calls that run as they come
  bool is_gone;           // its stream is destroyed
  bool must_clear;        // the words, before the stream is used again
  CheckWords* words;
  volatile CheckRecord* record;
};

// What a card knows of checks. Nothing is given back: graphs hold addresses.
struct Checks {
  std::mutex mutex;
  std::uint32_t* any = nullptr;  // in the host's memory: some record is set
  std::vector<Slot> slots;       // in the order of first use
  std::map<std::pair<StreamHandle*, std::uint64_t>, std::size_t> found;
  CheckWords* free_words = nullptr;
  CheckRecord* free_records = nullptr;
  std::size_t n_free = 0;
};

Checks& ChecksOf(const Card& card) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Checks>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Checks>& checks = (*all)[card.number];
  if (!checks) checks = std::make_unique<Checks>();
  return *checks;
}

// The host's memory has the same address on the card (all are in one space of addresses).
void Grow(const Card& card, Checks& checks) {
  const Driver& driver = TheDriver();
  const Relaxed relaxed;
  void* host = nullptr;
  Pointer words = 0;
  const std::size_t record_bytes = (kSlotsAtATime + 1) * sizeof(CheckRecord);
  Must(driver.allocate_host(&host, record_bytes, kPortableMapped), "cuMemHostAlloc");
  std::memset(host, 0, record_bytes);
  Must(driver.allocate(&words, kSlotsAtATime * sizeof(CheckWords)), "cuMemAlloc");
  Must(driver.fill8(words, 0, kSlotsAtATime * sizeof(CheckWords), card.private_stream),
       "cuMemsetD8Async");
  Must(driver.synchronize_stream(card.private_stream), "cuStreamSynchronize");
  checks.free_words = reinterpret_cast<CheckWords*>(words);
  checks.free_records = static_cast<CheckRecord*>(host);
  checks.n_free = kSlotsAtATime;
  if (!checks.any) checks.any = &checks.free_records[kSlotsAtATime].is_set;
}

StreamHandle* OneName(StreamHandle* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) == 1 ? nullptr : stream;  // CU_STREAM_LEGACY
}

void Clear(Slot& slot) {
  const auto at = Pointer(reinterpret_cast<std::uintptr_t>(&slot.words->failed));
  Must(TheDriver().fill32(at, 0, 1, slot.stream), "cuMemsetD32Async");
  slot.must_clear = false;
}

// Called with the mutex locked, and the card current.
Slot& SlotOf(const Card& card, Checks& checks, StreamHandle* stream) {
  const std::pair key{OneName(stream), CaptureOf(stream)};
  if (const auto it = checks.found.find(key); it != checks.found.end()) {
    Slot& slot = checks.slots[it->second];
    if (slot.must_clear) Clear(slot);
    return slot;
  }
  if (checks.n_free == 0) Grow(card, checks);
  --checks.n_free;
  checks.found[key] = checks.slots.size();
  checks.slots.push_back(
      {key.first, key.second, false, false, checks.free_words++, checks.free_records++});
  return checks.slots.back();
}

std::string PlaceText(const CheckRecord& record, std::int64_t place) {
  if (record.ndim == 0) return "";
  std::int64_t index[kMostDims];
  for (int d = record.ndim - 1; d >= 0; --d) {
    index[d] = place % record.shape[d];
    place /= record.shape[d];
  }
  std::string text = "[";
  for (int d = 0; d < record.ndim; ++d) text += (d ? ", " : "") + std::to_string(index[d]);
  return text + "]";
}

// The words of a check on the host (runtime/run/index_check.cc).
std::string TextOf(const CheckRecord& record) {
  const std::string name = record.name;
  std::string text = name + PlaceText(record, record.place) + " is " + std::to_string(record.value);
  if (!record.is_offsets) return text + record.must;
  if (record.place == 0) return text + ", but must be 0.";
  if (record.value < record.before) {
    const std::size_t colon = name.find(": ");
    return text + ", but must not be less than " +
           (colon == std::string::npos ? name : name.substr(colon + 2)) +
           PlaceText(record, record.place - 1) + ", which is " + std::to_string(record.before) +
           ".";
  }
  return text + record.must;
}

// Called with the mutex locked.
std::string Take(const Card& card, Slot& slot) {
  CheckRecord record;
  std::memcpy(&record, const_cast<CheckRecord*>(slot.record), sizeof record);
  slot.record->is_set = 0;
  slot.record->is_taken = 1;
  slot.must_clear = !slot.is_gone && slot.capture == 0;
  if (slot.must_clear && !CaptureOf(slot.stream)) {  // a graph must not hold this
    const OnCard on(card);
    Clear(slot);
  }
  return TextOf(record);
}

bool Concerns(const Slot& slot, StreamHandle* stream, bool all) {
  return all || slot.capture != 0 || (!slot.is_gone && slot.stream == stream);
}

}  // namespace

void CheckIndices(StreamHandle* stream, const anyop_index_check& check) {
  const DLTensor& t = *check.indices;
  CheckCall call{};
  call.of = StridedOf(t);
  if (call.of.count == 0) return;
  const Card& card = CardOf(t.device.device_id);
  const OnCard on(card);
  Checks& checks = ChecksOf(card);
  {
    const std::lock_guard lock(checks.mutex);
    const Slot& slot = SlotOf(card, checks, stream);
    call.words = slot.words;
    call.record = const_cast<CheckRecord*>(slot.record);
    call.any = checks.any;
  }
  call.data = BaseOf(t);
  call.name = check.name;
  call.must = check.must;
  call.limit = check.limit;
  call.is_offsets = check.is_offsets;
  call.bytes = Bytes(t.dtype);
  call.is_signed = t.dtype.code == 0;
  call.shape_ndim = t.ndim;
  std::copy_n(t.shape, t.ndim, call.shape);
  const std::int64_t blocks = std::min<std::int64_t>((call.of.count + 255) / 256, 4 * card.cores);
  const char* why = nullptr;
  if (const int code = LaunchBytes(card.number, stream, kCheck, {blocks, 256}, &call, &why)) {
    throw Failure{code, why};
  }
}

const std::uint32_t* FailedWordOf(StreamHandle* stream) {
  const Card& card = CardOf(stream);
  const OnCard on(card);
  Checks& checks = ChecksOf(card);
  const std::lock_guard lock(checks.mutex);
  return &SlotOf(card, checks, stream).words->failed;
}

std::string TakeIndexError(int device, StreamHandle* stream, bool all) {
  const Card& card = CardOf(device);
  Checks& checks = ChecksOf(card);
  const std::lock_guard lock(checks.mutex);
  if (!checks.any || *static_cast<volatile std::uint32_t*>(checks.any) == 0) return "";
  *static_cast<volatile std::uint32_t*>(checks.any) = 0;  // before the records are looked at
  __sync_synchronize();
  std::string text;
  bool is_left = false;
  for (Slot& slot : checks.slots) {
    if (!slot.record->is_set) continue;
    if (text.empty() && Concerns(slot, OneName(stream), all)) {
      text = Take(card, slot);
    } else {
      is_left = true;
    }
  }
  if (is_left) *static_cast<volatile std::uint32_t*>(checks.any) = 1;
  return text;
}

void ForgetStream(StreamHandle* stream) {
  Checks& checks = ChecksOf(CardOf(stream));
  const std::lock_guard lock(checks.mutex);
  for (auto it = checks.found.begin(); it != checks.found.end();) {
    const bool is_of_it = it->first.first == stream;
    if (is_of_it) checks.slots[it->second].is_gone = true;
    it = is_of_it ? checks.found.erase(it) : std::next(it);
  }
}

}  // namespace anyop::cuda
