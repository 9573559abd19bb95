// SPDX-License-Identifier: Apache-2.0
// Functions of PyTorch, found by name in the libraries that `import torch` has loaded, without
// linking them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "anyop/value.h"
#include "bindings/python.h"

namespace anyop::python {

// An owned at::TensorBase, as far as the calling convention goes: one pointer. Its own destructor
// makes the C++ ABI return it in memory, as it does torch's class.
struct TorchTensor {
  void* impl;
  TorchTensor(const TorchTensor&) = delete;
  ~TorchTensor() {}
};
struct TorchSizes {  // c10::IntArrayRef
  const std::int64_t* data;
  std::size_t size;
};
enum class TorchMemoryFormat : std::int8_t {};
enum class TorchScalarType : std::int8_t {};

struct TorchFunctions {
  // The C shim of the installed torch; a handle is the address of the at::Tensor in the object.
  int (*data_ptr)(const void*, void**);  // of memory to write: un-shares copy-on-write storage
  int (*storage_bytes)(const void*, std::int64_t*);  // null where this torch lacks it
  // Its C++ functions.
  bool (*is_grad_enabled)();
  bool (*requires_grad)(const void* impl);
  std::int64_t (*function_modes)();
  bool (*is_profiling)();
  void (*bump_version)(const void* handle);
  TorchTensor (*empty)(TorchSizes, TorchScalarType, bool pinned, std::optional<TorchMemoryFormat>);
  PyObject* (*wrap)(TorchTensor&&);
  DLDevice (*device_of)(const void* handle);  // of our adapter; null without it
};
extern TorchFunctions g_torch_functions;

// The first function that this torch does not have, "" if all are there. A C++ name holds the types
// of the parameters: one whose parameters another torch has changed is missing, not called wrongly.
std::string FindTorchFunctions();

// Torch's number for a dtype, "bfloat16"; -1 where this torch has none.
std::int32_t FindTorchNumber(const std::string& dtype);

// The two words of the calling thread's dispatch keys. They are thread-local: dlsym gives the
// calling thread's, so each thread asks once.
const std::uint64_t* FindThreadKeys();
inline const std::uint64_t* ThreadKeys() {
  static thread_local const std::uint64_t* keys = nullptr;
  if (!keys) [[unlikely]]
    keys = FindThreadKeys();
  return keys;
}

}  // namespace anyop::python
