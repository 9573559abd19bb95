// SPDX-License-Identifier: Apache-2.0
#include "devices/cuda/card.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace anyop::cuda {
namespace {

// No string, which would end before the last call of its thread: that of a destructor.
thread_local char last_failure[1024];

struct Cards {
  std::mutex mutex;
  std::vector<std::unique_ptr<Card>> cards;  // null until first used
};
Cards& AllCards() {
  static Cards* cards = new Cards;  // never destroyed: streams of other threads may outlive main
  return *cards;
}

// What a context that is broken answers to everything.
std::atomic<Result> broken{kSuccess};
std::atomic<bool> is_told{false};

bool Breaks(Result result) {
  switch (result) {
    case 214:  // an uncorrectable error of its memory
    case 700:  // an illegal address
    case 702:  // a kernel ran for too long
    case 710:  // an assertion of a kernel
    case 714:  // a corrupt stack
    case 715:  // an illegal instruction
    case 716:  // a misaligned address
    case 717:  // an address in another space
    case 718:  // an invalid program counter
    case 719:  // any other exception of a kernel
      return true;
    default:
      return false;
  }
}

std::string TextOf(Result result) {
  const Driver& driver = TheDriver();
  const char *name = nullptr, *text = nullptr;
  driver.error_name(result, &name);
  driver.error_string(result, &text);
  return std::string(text ? text : "an unknown error") + " (" +
         (name ? name : std::to_string(result).c_str()) + ")";
}

// "sm_90,sm_89,...": a card runs code that was written for older ones.
std::string Features(int architecture) {
  std::string words;
  for (int older : {121, 120, 110, 103, 101, 100, 90, 89, 87, 86, 80, 75, 72, 70}) {
    if (older <= architecture) words += (words.empty() ? "sm_" : ",sm_") + std::to_string(older);
  }
  return words;
}

int Attribute(int attribute, int device) {
  int value = 0;
  Must(TheDriver().device_attribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

// A pool of our own, which keeps what is released: the default one, which others use, gives its
// memory back at every synchronization.
PoolHandle* MakePool(int device) {
  if (!Attribute(kPoolsSupported, device)) return nullptr;
  PoolProperties properties;
  properties.location_id = device;
  PoolHandle* pool = nullptr;
  Must(TheDriver().create_pool(&pool, &properties), "cuMemPoolCreate");
  std::uint64_t keep = ~std::uint64_t{0};
  Must(TheDriver().set_pool_attribute(pool, kReleaseThreshold, &keep), "cuMemPoolSetAttribute");
  return pool;
}

std::unique_ptr<Card> MakeCard(int device) {
  const Driver& driver = TheDriver();
  const Relaxed relaxed;
  auto card = std::make_unique<Card>();
  card->number = device;
  char name[256] = {};
  Must(driver.device_name(name, sizeof name - 1, device), "cuDeviceGetName");
  card->name = name;
  card->features = Features(10 * Attribute(kMajor, device) + Attribute(kMinor, device));
  card->cores = Attribute(kMultiprocessors, device);
  std::size_t bytes = 0;
  Must(driver.device_bytes(&bytes, device), "cuDeviceTotalMem");
  card->total_bytes = bytes;
  Must(driver.retain_context(&card->context, device), "cuDevicePrimaryCtxRetain");
  const OnCard on(*card);
  card->pool = MakePool(device);
  Must(driver.create_stream(&card->private_stream, kNonBlocking), "cuStreamCreate");
  return card;
}

}  // namespace

const Driver& TheDriver() {
  const char* why = nullptr;
  const Driver* driver = FindDriver(&why);
  if (!driver) throw Failure{ANYOP_NOT_AVAILABLE, why};
  return *driver;
}

void Must(Result result, const char* what) {
  if (result == kSuccess) return;
  if (result == kOutOfMemory) throw Failure{ANYOP_OUT_OF_MEMORY, "out of memory on the card."};
  if (Breaks(result)) broken = result;
  throw Failure{ANYOP_INTERNAL, std::string(what) + " failed: " + TextOf(result) + "."};
}

int KeepFailure(int code, const std::string& text) {
  std::snprintf(last_failure, sizeof last_failure, "%s", text.c_str());
  return code;
}
const char* LastFailure() { return last_failure; }

int CardCount() {
  const char* why = nullptr;
  const Driver* driver = FindDriver(&why);
  int count = 0;
  if (!driver) KeepFailure(ANYOP_NOT_AVAILABLE, why);
  if (driver && driver->device_count(&count) != kSuccess) count = 0;
  return count;
}

Card& CardOf(int device) {
  Cards& all = AllCards();
  const std::lock_guard lock(all.mutex);
  if (all.cards.empty()) {
    TheDriver();
    all.cards.resize(std::size_t(CardCount()));
  }
  if (device < 0 || std::size_t(device) >= all.cards.size()) {
    throw Failure{ANYOP_INVALID_ARGUMENT, "there is no card " + std::to_string(device) +
                                              ", as the driver finds " +
                                              std::to_string(all.cards.size()) + "."};
  }
  std::unique_ptr<Card>& card = all.cards[std::size_t(device)];
  if (!card) card = MakeCard(device);
  return *card;
}

Card& CardOf(StreamHandle* stream) {
  const Driver& driver = TheDriver();
  ContextHandle* context = nullptr;
  if (IsDefault(stream)) {
    Must(driver.get_context(&context), "cuCtxGetCurrent");
    if (!context) return CardOf(0);
  } else {
    Must(driver.stream_context(stream, &context), "cuStreamGetCtx");
  }
  int device = 0;
  Must(driver.push_context(context), "cuCtxPushCurrent");
  const Result result = driver.context_device(&device);
  driver.pop_context(&context);
  Must(result, "cuCtxGetDevice");
  return CardOf(device);
}

OnCard::OnCard(const Card& card) {
  const Driver& driver = TheDriver();
  ContextHandle* current = nullptr;
  Must(driver.get_context(&current), "cuCtxGetCurrent");
  if (current == card.context) return;
  Must(driver.push_context(card.context), "cuCtxPushCurrent");
  pushed_ = true;
}
OnCard::~OnCard() {
  ContextHandle* ignored = nullptr;
  if (pushed_) TheDriver().pop_context(&ignored);
}

Relaxed::Relaxed() : mode_(kRelaxed) { TheDriver().exchange_capture_mode(&mode_); }
Relaxed::~Relaxed() { TheDriver().exchange_capture_mode(&mode_); }

std::uint64_t CaptureOf(StreamHandle* stream) {
  int status = 0;
  std::uint64_t id = 0;
  // An error here means that another stream is being captured, which a default stream may not join.
  if (TheDriver().capture_info(stream, &status, &id) != kSuccess) return 0;
  return status == kIsCapturing ? id : 0;
}

std::string TakeBroken(int) {
  if (broken == kSuccess || is_told.exchange(true)) return "";
  return "earlier work on the card failed: " + TextOf(broken) +
         ". The process cannot use the card any more.";
}

}  // namespace anyop::cuda
