// SPDX-License-Identifier: Apache-2.0
// A plugin of a framework that is built with the C++ ABI before 2011: its strings and lists are not
// those of libanyop, and only C lies between them.
#include <cstddef>
#include <cstdio>
#include <list>
#include <string>
#include <vector>

#include "anyop/host.h"

#if _GLIBCXX_USE_CXX11_ABI
#error "this file is for the old ABI"
#endif

int main() {
  const std::string text = "anyop.call/1 anyop.add(x = f32, y = f32) -> z";
  const anyop_call* call = nullptr;
  if (anyop_find_call(text.data(), text.size(), &call)) {
    std::printf("%s\n", anyop_error_text());
    return 1;
  }
  std::list<std::string> names;
  for (int i = 0; i < anyop_input_count(call); ++i) {
    anyop_input input{};
    input.size = sizeof input;
    if (anyop_describe_input(call, i, &input)) return 1;
    names.push_back(input.name);
  }
  anyop_result result{};
  result.size = sizeof result;
  if (anyop_describe_result(call, 0, &result)) return 1;
  for (const std::string& name : names) std::printf("%s ", name.c_str());
  std::printf("-> %s over %u, %u bits\n", result.name, result.n_over, result.dtype.bits);

  std::vector<float> x{1, 2, 3}, y{10, 20, 30}, z(3);
  std::vector<std::int64_t> shape{3};
  const DLDataType f32{2, 32, 1};
  const DLTensor inputs[] = {{x.data(), {1, 0}, 1, f32, shape.data(), nullptr, 0},
                             {y.data(), {1, 0}, 1, f32, shape.data(), nullptr, 0}};
  const DLTensor results[] = {{z.data(), {1, 0}, 1, f32, shape.data(), nullptr, 0}};
  if (anyop_run_call(call, inputs, 2, results, 1)) return 1;
  std::printf("%g %g %g\n", double(z[0]), double(z[1]), double(z[2]));

  // A caller that was compiled with a shorter struct gets no more than it has room for.
  struct {
    anyop_input input;
    char behind;
  } old{};
  old.input.size = offsetof(anyop_input, name);
  old.input.name = "untouched";
  if (anyop_describe_input(call, 1, &old.input)) return 1;
  std::printf("%s\n", old.input.name);
  const int code = anyop_run_call(call, inputs, 1, results, 1);
  std::printf("%d: %s\n", code, anyop_error_text());
  return anyop_describe_input(call, 2, &old.input) == ANYOP_INVALID_ARGUMENT ? 0 : 1;
}
