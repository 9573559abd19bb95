// SPDX-License-Identifier: Apache-2.0
// What a thread keeps between calls, for as long as the thread makes any.
#pragma once

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
      delete last;
    }
  };

  [[gnu::noinline, gnu::cold]] static T& Make() {
    mine_ = new T;
    static thread_local End end;  // once a thread, however often there is one to make
    (void)&end;
    return *mine_;
  }

  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local T* mine_ = nullptr;
};

}  // namespace anyop
