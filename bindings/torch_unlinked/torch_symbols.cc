// SPDX-License-Identifier: Apache-2.0
#include "torch_symbols.h"

#include <dlfcn.h>

namespace anyop::python {

TorchFunctions g_torch_functions;

namespace {

void* g_c10 = nullptr;  // handle of libc10.so

// RTLD_NOLOAD: only what `import torch` has loaded, never another torch of the search path.
void* Loaded(const char* library) { return dlopen(library, RTLD_NOLOAD | RTLD_LAZY); }

template <class F>
bool FindIn(void* library, const char* name, F*& function) {
  function = library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
  return function != nullptr;
}

}  // namespace

std::string FindTorchFunctions() {
  void* const c10 = g_c10 = Loaded("libc10.so");
  void* const cpu = Loaded("libtorch_cpu.so");
  void* const python = Loaded("libtorch_python.so");
  std::string missing;
  const auto find = [&](void* library, const char* name, auto*& function) {
    if (!FindIn(library, name, function) && missing.empty()) missing = name;
  };
  find(cpu, "aoti_torch_get_data_ptr", g_torch_functions.data_ptr);
  FindIn(cpu, "aoti_torch_get_storage_size", g_torch_functions.storage_bytes);
  find(c10, "_ZN3c108GradMode10is_enabledEv", g_torch_functions.is_grad_enabled);
  find(c10, "_ZNK3c1010TensorImpl13requires_gradEv", g_torch_functions.requires_grad);
  find(cpu, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", g_torch_functions.function_modes);
  find(cpu, "_ZN5torch8profiler4impl15profilerEnabledEv", g_torch_functions.is_profiling);
  find(cpu, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", g_torch_functions.bump_version);
  find(cpu,
       "_ZN2at6detail9empty_cpuEN3c108ArrayRefIlEENS1_10ScalarTypeEbSt8optionalINS1_"
       "12MemoryFormatEE",
       g_torch_functions.empty);
  find(python, "_Z16THPVariable_WrapON2at10TensorBaseE", g_torch_functions.wrap);
  const void* keys = nullptr;
  find(c10, "_ZN3c104impl26raw_local_dispatch_key_setE", keys);
  return missing;
}

std::int32_t FindTorchNumber(const std::string& dtype) {
  std::int32_t (*number)() = nullptr;
  const std::string name = "aoti_torch_dtype_" + dtype;
  return FindIn(Loaded("libtorch_cpu.so"), name.c_str(), number) ? number() : -1;
}

const std::uint64_t* FindThreadKeys() {
  return static_cast<const std::uint64_t*>(
      dlsym(g_c10, "_ZN3c104impl26raw_local_dispatch_key_setE"));
}

}  // namespace anyop::python
