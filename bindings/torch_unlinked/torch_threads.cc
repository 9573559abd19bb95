// SPDX-License-Identifier: Apache-2.0
// Threads in a process with torch: its setting bounds ours, and its pool can stand in for ours.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "bindings/module_functions.h"
#include "platform/threads.h"

namespace anyop::python {
namespace {

constexpr int kChunksPerThread = 4;  // claimed one by one, as in our own pool

using TorchFunction = void (*)(std::int64_t begin, std::int64_t end, void* context);
int (*g_count)() = nullptr;
int (*g_parallel_for)(std::int64_t begin, std::int64_t end, std::int64_t grain, TorchFunction,
                      void* context) = nullptr;

// One region in torch's pool. Each of its threads claims chunks until none is left: torch's own
// division is one part a thread, and waits for the slowest.
struct Region {
  RangeFunction fn;
  void* arg;
  std::int64_t n;
  int chunks;
  std::atomic<int> next{0};
  std::atomic<int> failures{0};
  std::exception_ptr failure;

  static void Work(std::int64_t, std::int64_t, void* self) {
    Region& r = *static_cast<Region*>(self);
    for (int c = r.next.fetch_add(1); c < r.chunks; c = r.next.fetch_add(1)) {
      // No exception may leave through torch's C function: the first is kept for the caller.
      try {
        r.fn(r.arg, r.n * c / r.chunks, r.n * (c + 1) / r.chunks);
      } catch (...) {
        if (r.failures.fetch_add(1) == 0) r.failure = std::current_exception();
      }
    }
  }
};

void InTorchPool(void*, int threads, std::int64_t n, std::int64_t grain, RangeFunction fn,
                 void* arg) {
  const std::int64_t chunks =
      std::min<std::int64_t>((n + grain - 1) / grain, std::int64_t(kChunksPerThread) * threads);
  Region region{fn, arg, n, int(chunks), {}, {}, {}};
  // Where torch refuses, this thread claims all chunks.
  if (g_parallel_for(0, threads, 1, &Region::Work, &region)) Region::Work(0, 1, &region);
  if (region.failure) std::rethrow_exception(region.failure);
}

// torch_threads(pool): "own" or "torch" runs parallel regions; torch.set_num_threads bounds both.
// Returns whether this torch has what is needed.
PyObject* SetTorchThreads(PyObject*, PyObject* pool) {
  return Guarded([&] {
    const std::string choice = ToText(pool, "pool");
    if (choice != "own" && choice != "torch") {
      ThrowValueError("pool is '" + choice + "', but must be 'own' or 'torch'.");
    }
    void* const cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    if (!cpu) return Py_NewRef(Py_False);
    g_count = reinterpret_cast<int (*)()>(dlsym(cpu, "_ZN2at15get_num_threadsEv"));
    g_parallel_for = reinterpret_cast<decltype(g_parallel_for)>(dlsym(cpu, "torch_parallel_for"));
    const bool is_torch = choice == "torch" && g_parallel_for;
    SetHostThreads({g_count, is_torch ? &InTorchPool : nullptr, nullptr});
    return PyBool_FromLong(g_count && (choice == "own" || is_torch));
  });
}

PyMethodDef g_torch_thread_methods[] = {
    {"torch_threads", SetTorchThreads, METH_O, "Whose threads run parallel regions."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddTorchThreadFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_torch_thread_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
