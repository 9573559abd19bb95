// SPDX-License-Identifier: Apache-2.0
// What MindSpore hands to functions of a custom operator: the beginning of its AotExtra, an
// interface whose virtual functions are found by their number. MindSpore is built for the C++ ABI
// of libstdc++ before 2015, and so is every file that includes this one. A test and the host
// compare functions and fields with the header that MindSpore's wheel carries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

static_assert(sizeof(std::string) == sizeof(void*), "needs -D_GLIBCXX_USE_CXX11_ABI=0");

namespace anyop::mindspore {

// What a function keeps with a kernel, which deletes it: MindSpore's AotKernelData.
class Kept {
 public:
  virtual ~Kept() = default;
};

class Attributes {
 public:
  virtual ~Attributes() = default;
  virtual bool HasAttr(std::string name) = 0;
  virtual bool GetBool(std::string name) = 0;
  virtual std::int64_t GetInt(std::string name) = 0;
  virtual float GetFloat(std::string name) = 0;
  virtual std::string GetStr(std::string name) = 0;

  std::vector<std::size_t> workspace;
  Kept* kept;  // null until something is
};

}  // namespace anyop::mindspore
