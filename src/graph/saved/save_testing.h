// SPDX-License-Identifier: Apache-2.0
// A graph and a folder for the tests of saving and loading.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "graph/saved/load.h"
#include "graph/testing.h"

namespace anyop::testing_graphs {

inline const CompileOptions kLoaded = LoadedOptions();

// A path that is free, below a folder that is removed at the end.
struct Folder {
  Folder() {
    parent = (std::filesystem::temp_directory_path() / "anyop-test-XXXXXX").string();
    if (!mkdtemp(parent.data())) std::abort();
    path = parent + "/saved";
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(parent, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string parent, path;
};

// State that is written, a weight that is packed, a constant, a number, views, a symbolic size.
inline Graph Decoder(const Array& cache = Array::Zeros({8, 4}, DType::kF32),
                     const Array& weight = Counting({4})) {
  GraphBuilder b;
  const int x = b.Input("x", "f32[n, 4]"), slots = b.Input("slots", "i64[n]");
  const int s = b.Scalar("s", ParamKind::kFloat);
  const int kept = b.State("cache", cache), w = b.State("w", weight.Reshape({weight.size()}), true);
  const int one = b.Constant("one", Floats({1}, {1}));
  b.SetPlace("model.py:3");
  const int y = b.Call("testing.scale", {ValueArgument(x), ValueArgument(s)})[0];
  b.Call("testing.scatter", {ValueArgument(y), ValueArgument(slots), ValueArgument(kept)});
  const int first = b.Slice(w, 0, 0, 4);
  const int weighed = b.Call("testing.weigh", {ValueArgument(y), ValueArgument(first)})[0];
  const int rows = b.Reshape(b.Slice(kept, 0, 1, 3), {8});
  b.Output(weighed, "weighed");
  b.Output(rows, "rows");
  b.Output(b.Call("testing.concat", {ValuesArgument({b.Slice(w, 0, 0, 1), one})})[0], "all");
  return b.Finish();
}

}  // namespace anyop::testing_graphs
