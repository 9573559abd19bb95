// SPDX-License-Identifier: Apache-2.0
#include "platform/affinity.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace anyop {
namespace {

// A process may have several: packages of Python bring their own.
std::vector<std::string> OpenMpLibraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        const std::string_view path = info->dlpi_name;
        const std::string_view name = path.substr(path.rfind('/') + 1);
        for (const char* known : {"libgomp", "libomp", "libiomp"}) {
          if (name.starts_with(known)) {
            static_cast<std::vector<std::string>*>(found)->emplace_back(path);
          }
        }
        return 0;
      },
      &paths);
  return paths;
}

template <class Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// All places of a library together if `bound` is one of them; else `bound`: then not OpenMP but
// somebody else (taskset, a container) chose these processors, and they hold.
cpu_set_t WithPlaces(const std::string& path, const cpu_set_t& bound) {
  int (*count)() = nullptr;
  int (*size)(int) = nullptr;
  void (*read)(int, int*) = nullptr;
  void* const library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (!library || !Find(library, "omp_get_num_places", count) ||
      !Find(library, "omp_get_place_num_procs", size) ||
      !Find(library, "omp_get_place_proc_ids", read)) {
    return bound;
  }
  cpu_set_t all;
  CPU_ZERO(&all);
  bool is_place = false;
  for (int place = 0, places = count(); place < places; ++place) {
    std::vector<int> ids(std::size_t(std::max(0, size(place))));
    if (!ids.empty()) read(place, ids.data());
    cpu_set_t own;
    CPU_ZERO(&own);
    for (const int id : ids) {
      if (id >= 0 && id < CPU_SETSIZE) CPU_SET(id, &own);
    }
    is_place |= CPU_EQUAL(&own, &bound) != 0;
    CPU_OR(&all, &all, &own);
  }
  return is_place ? all : bound;
}

}  // namespace

bool ReadProcessors(cpu_set_t& processors) {
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) return false;
  const cpu_set_t bound = processors;
  // A thread that may use every processor is not bound, so that no library need be asked.
  if (CPU_COUNT(&bound) >= sysconf(_SC_NPROCESSORS_ONLN)) return true;
  for (const std::string& path : OpenMpLibraries()) {
    const cpu_set_t all = WithPlaces(path, bound);
    CPU_OR(&processors, &processors, &all);
  }
  return true;
}

void RunOn(const cpu_set_t& processors) { sched_setaffinity(0, sizeof processors, &processors); }

}  // namespace anyop
