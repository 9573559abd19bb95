// SPDX-License-Identifier: Apache-2.0
// Cards and their primary contexts, which every user of CUDA in a process shares (torch's too), and
// how what the driver says becomes an error.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "anyop/device.h"
#include "devices/cuda/driver.h"

namespace anyop::cuda {

struct Failure {
  int code;  // of abi.h
  std::string text;
};

const Driver& TheDriver();  // throws Failure where there is none

// Throws Failure where a call of the driver, `what`, did not succeed.
void Must(Result result, const char* what);

// Runs f and returns ANYOP_OK, or the code of the Failure that it threw, whose text is kept.
int KeepFailure(int code, const std::string& text);
const char* LastFailure();
template <class F>
int Guard(F&& f) {
  try {
    f();
    return ANYOP_OK;
  } catch (Failure& failure) {
    return KeepFailure(failure.code, failure.text);
  } catch (const std::exception& e) {
    return KeepFailure(ANYOP_INTERNAL, e.what());
  }
}

struct Card {
  int number = 0;
  ContextHandle* context = nullptr;
  PoolHandle* pool = nullptr;              // null: the card has none
  StreamHandle* private_stream = nullptr;  // of what must not wait for anybody's work
  std::string name, features;
  int cores = 0;
  std::uint64_t total_bytes = 0;
};
int CardCount();           // 0 where there is no driver
Card& CardOf(int device);  // throws Failure where there is no such card

// The card whose context the stream was made in. The default streams are those of the context that
// is current.
Card& CardOf(StreamHandle* stream);

inline StreamHandle* Handle(anyop_stream stream) { return static_cast<StreamHandle*>(stream); }
inline bool IsDefault(StreamHandle* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;  // null, CU_STREAM_LEGACY, _PER_THREAD
}

// Makes a card's context current while it lives.
class OnCard {
 public:
  explicit OnCard(const Card& card);
  ~OnCard();
  OnCard(const OnCard&) = delete;

 private:
  bool pushed_ = false;
};

// While it lives, this thread may do what a capture of it, or of another thread, else forbids:
// allocate and load, which harm no graph as they are no part of one.
class Relaxed {
 public:
  Relaxed();
  ~Relaxed();
  Relaxed(const Relaxed&) = delete;

 private:
  int mode_;
};

// The capture that a stream is part of; 0: none.
std::uint64_t CaptureOf(StreamHandle* stream);

// The text of an error after which a card's context answers nothing else (an illegal address, for
// example); empty: there was none. Once for all that ask.
std::string TakeBroken(int device);

}  // namespace anyop::cuda
