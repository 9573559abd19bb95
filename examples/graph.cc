// SPDX-License-Identifier: Apache-2.0
// Builds a graph in C++, replays it, saves it and loads it again.
#include <cstdio>

#include "anyop/graph.h"

int main(int argc, char** argv) try {
  // ---8<---
  using anyop::Array, anyop::DType;
  const Array weight = Array::Full({64}, DType::kF32, 0.5);
  anyop::GraphRecorder r("step");
  const auto x = r.Input("x", "f32[n, 64]"), eps = r.Input("eps", "float");
  const auto w = r.State("w", weight, /*is_frozen=*/true);
  const auto y = r.Call("rms_norm", x, w, anyop::NamedOperand("eps", eps))[0];
  r.Output(r.Call("add", y, x)[0], "sum");
  r.Output(r.Slice(y, 0, "n - 1", "n"), "last");
  const anyop::CompiledGraph g = r.Compile();

  const Array sum = g(Array::Full({3, 64}, DType::kF32, 3), 1e-5)[0];  // any n
  // --->8---
  std::printf("%s%.4f\n", g.text().c_str(), double(sum.at<float>(2, 63)));

  if (argc > 1) {
    g.Save(argv[1]);
    const anyop::CompiledGraph again = anyop::LoadGraph(argv[1]);
    const Array same = again(Array::Full({1, 64}, DType::kF32, 3), 1e-5)[0];
    std::printf("%s %.4f\n", again.name().c_str(), double(same.at<float>(0, 0)));
  }
  return 0;
} catch (const anyop::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
