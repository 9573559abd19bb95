// SPDX-License-Identifier: Apache-2.0
// What a thread keeps between calls, for as long as the thread makes any.
#pragma once
#include <atomic>

namespace anyop {

// The calling thread's T, made when it is first asked for. It goes with the thread, and is made
// anew for a call that comes even later: from the destructor of an object that lived longer, of the
// thread or, in the main thread, a static one. A plain thread_local would be used after its end
// then. What is made so late stays: nothing would end it. T is a type of the place that asks: all
// who ask for the same T share it.
template <class T>
class OfThread {
 public:
  static T& Get() {
    if (mine_) [[likely]]
      return *mine_;
    return Make();
  }

 private:
  struct End {
    ~End() {
      T* const last = mine_;
      mine_ = nullptr;
      has_ended_ = true;
      delete last;
    }
  };
  // Those that stay, so that each can be found: else they would be leaks.
  struct Late {
    T* object;
    Late* next;
  };

  [[gnu::noinline, gnu::cold]] static T& Make() {
    mine_ = new T;
    if (has_ended_) {
      auto* const late = new Late{mine_, late_.load(std::memory_order_relaxed)};
      while (!late_.compare_exchange_weak(late->next, late)) continue;
    } else {
      static thread_local End end;
      (void)&end;
    }
    return *mine_;
  }

  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local T* mine_ = nullptr;
  static inline constinit thread_local bool has_ended_ = false;
  static inline constinit std::atomic<Late*> late_{nullptr};
};

}  // namespace anyop
