// SPDX-License-Identifier: Apache-2.0
// What a thread keeps between calls, for as long as the thread makes any.
#pragma once
#include <atomic>

namespace anyop {

// The calling thread's T, made when it is first asked for. It ends with the thread. A call may come
// even later, from the destructor of an object that lives longer (one of the thread, or in the main
// thread a static one): then T is made anew, where a plain thread_local would be used after its
// end. That second T is never destroyed, because nothing runs later that could do it. All who ask
// for the same T share it, so that each place has a type of its own.
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
      // mine_ is cleared first: a call from T's own destructor gets a new T, not the dying one.
      T* const last = mine_;
      mine_ = nullptr;
      has_ended_ = true;
      delete last;
    }
  };
  // A list of the objects that are never destroyed, so that leak checkers find a pointer to each.
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
