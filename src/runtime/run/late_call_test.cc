// SPDX-License-Identifier: Apache-2.0
// Calls from destructors that run behind those of what a thread keeps: of its own objects, and of
// static ones. The last test's object makes its call when the program ends, which fails then.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "anyop/graph.h"
#include "runtime/testing/on_far.h"

namespace anyop::late_call_test {
namespace {

// Made before the thread's first call, so that it is destroyed behind all that calls keep.
struct Late {
  std::function<void()> calls;
  ~Late() {
    if (calls) calls();
  }
};

std::string InALateThread(const std::function<void()>& calls) {
  std::string error = "never called";
  std::thread([&] {
    static thread_local Late late;
    late.calls = [&] { error = ErrorOf(calls); };
    calls();
  }).join();
  return error;
}

CompiledGraph Twice() {
  GraphRecorder r("twice");
  const GraphTensor x = r.Input("x", "f32[n, 4]");
  r.Output(r.Call("testing.scale", x, r.Input("s", "float"))[0]);
  return r.Compile();
}

void Expect(const std::vector<float>& got, const std::vector<float>& wanted) {
  if (got != wanted) Fail(ANYOP_INTERNAL, "other values");
}

TEST(LateCalls, AreMadeAsAnyOther) {
  const Array x = Array::Full({2, 4}, DType::kF32, 2);
  const CompiledGraph twice = Twice();
  for (const bool is_strict : {false, true}) {
    EXPECT_EQ(InALateThread([&] {
                Scope scope;
                if (is_strict) scope.strict();
                Expect(Values(Call("testing.axpy", 1.0, x, x)), std::vector<float>(8, 4));
                Expect(Values(Call("testing.flatten", x)), std::vector<float>(8, 2));
                Expect(Values(twice(x, 3.0)[0]), std::vector<float>(8, 6));
              }),
              "");
  }
}

TEST(LateCalls, GoToADevice) {
  const Array x = OnFar(Array::Full({2, 4}, DType::kF32, 2));
  const CompiledGraph twice = Twice();
  EXPECT_EQ(InALateThread([&] {
              const Stream stream(Far());
              const StreamScope scope(stream);
              const Array y = Call("testing.axpy", 1.0, x, x.Slice(1, 0, 4));
              Expect(FromFar(twice(y, 0.5)[0]), std::vector<float>(8, 2));
            }),
            "");
}

struct AtTheEnd {
  Array x;
  ~AtTheEnd() {
    if (x.is_none()) return;
    try {
      Expect(Values(Call("testing.axpy", 1.0, x, x)), std::vector<float>(8, 4));
    } catch (const Error& e) {
      std::fprintf(stderr, "a call at the end of the program: %s\n", e.what());
      std::_Exit(1);
    }
  }
} at_the_end;

TEST(LateCalls, AreMadeWhenTheProgramEnds) {
  at_the_end.x = Array::Full({2, 4}, DType::kF32, 2);
  Scope scope;
  scope.strict();  // makes the state of this thread before the call
  Expect(Values(Call("testing.axpy", 1.0, at_the_end.x, at_the_end.x)), std::vector<float>(8, 4));
}

}  // namespace
}  // namespace anyop::late_call_test
