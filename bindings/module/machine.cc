// SPDX-License-Identifier: Apache-2.0
#include "anyop/stream.h"
#include "bindings/module_functions.h"
#include "platform/ceilings.h"
#include "platform/cpu.h"
#include "platform/env.h"
#include "platform/threads.h"
#include "runtime/device/device.h"

namespace anyop::python {
namespace {

Ref ToList(const std::vector<std::string>& words) {
  Ref list = Checked(PyList_New(0));
  for (const std::string& word : words) {
    if (PyList_Append(list.get(), ToPython(word).get()) < 0) throw ErrorSet{};
  }
  return list;
}

PyObject* Machine(PyObject*, PyObject*) {
  return Guarded([] {
    const CacheSizes caches = Caches();
    return Py_BuildValue(
        "{s:s, s:N, s:N, s:i, s:i, s:{s:L, s:L, s:L}, s:s}", "cpu", CpuName().c_str(), "features",
        ToList(CpuFeatures()).release(), "machine_features", ToList(MachineFeatures()).release(),
        "cores", AvailableCores(), "threads", NumThreads(), "cache_bytes", "L1d",
        static_cast<long long>(caches.l1d), "L2", static_cast<long long>(caches.l2), "L3",
        static_cast<long long>(caches.l3), "compiler",
#if defined(__clang__)
        "clang " __clang_version__
#else
        "gcc " __VERSION__
#endif
    );
  });
}

// Rows (name, default, sentence, values, value in force).
PyObject* GetEnvironment(PyObject*, PyObject*) {
  return Guarded([] {
    Ref list = Checked(PyList_New(0));
    for (const EnvironmentVariable& v : EnvironmentVariables()) {
      const Ref row = Checked(Py_BuildValue(
          "(s#s#s#s#s)", v.name.data(), Py_ssize_t(v.name.size()), v.default_value.data(),
          Py_ssize_t(v.default_value.size()), v.sentence.data(), Py_ssize_t(v.sentence.size()),
          v.values.data(), Py_ssize_t(v.values.size()), Environment(v.name).c_str()));
      if (PyList_Append(list.get(), row.get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

PyObject* MeasuredCeilings(PyObject*, PyObject*) {
  return Guarded([] {
    const Ceilings* c = nullptr;
    PyThreadState* state = PyEval_SaveThread();  // about two seconds, during which others may run
    try {
      c = &MachineCeilings();
    } catch (...) {
      PyEval_RestoreThread(state);
      throw;
    }
    PyEval_RestoreThread(state);
    Ref bandwidths = Checked(PyList_New(0)), rates = Checked(PyList_New(0));
    for (const Bandwidth& b : c->bandwidths) {
      const Ref row =
          Checked(Py_BuildValue("{s:s, s:L, s:i, s:d, s:d}", "level", b.level.c_str(), "bytes",
                                static_cast<long long>(b.bytes), "threads", b.threads, "read_gbs",
                                b.read_gbs, "copy_gbs", b.copy_gbs));
      if (PyList_Append(bandwidths.get(), row.get()) < 0) throw ErrorSet{};
    }
    for (const Rate& r : c->rates) {
      const Ref row = Checked(Py_BuildValue("{s:s, s:i, s:d}", "name", r.name.c_str(), "threads",
                                            r.threads, "gops", r.gops));
      if (PyList_Append(rates.get(), row.get()) < 0) throw ErrorSet{};
    }
    return Py_BuildValue("{s:O, s:O, s:d}", "bandwidths", bandwidths.get(), "rates", rates.get(),
                         "seconds", c->seconds);
  });
}

PyObject* GetPoolCounters(PyObject*, PyObject*) {
  return Guarded([] {
    using Count = unsigned long long;
    const PoolCounters c = ReadPoolCounters();
    return Py_BuildValue("{sKsKsKsKsK}", "regions", Count(c.regions), "inline_calls",
                         Count(c.inline_calls), "worker_chunks", Count(c.worker_chunks), "wakes",
                         Count(c.wakes), "stalls", Count(c.stalls));
  });
}

// Rows (name, model, features, library, cores, total bytes, free bytes, error).
PyObject* ListDevices(PyObject*, PyObject*) {
  return Guarded([] {
    Ref list = Checked(PyList_New(0));
    for (const DeviceInfo& d : Devices()) {
      const Ref row = Checked(Py_BuildValue(
          "(sNssiKKN)", d.device.name().c_str(), ToPython(d.model).release(), d.features.c_str(),
          d.library.c_str(), d.cores, static_cast<unsigned long long>(d.total_bytes),
          static_cast<unsigned long long>(d.free_bytes), ToPython(d.error).release()));
      if (PyList_Append(list.get(), row.get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

// How many devices a library has, and why it has none. A library that fails to count is a row with
// its reason, as the others must still be listed.
std::pair<int, std::string> CountOf(const DeviceKind& kind) {
  try {
    const int count = kind.Count();
    const char* why = count ? "" : kind.table.error_text();
    return {count, why ? why : ""};
  } catch (const Error& e) {
    return {0, e.what()};
  }
}

// (word, library, how many there are, why there are none) of each library of devices.
PyObject* ListDeviceLibraries(PyObject*, PyObject*) {
  return Guarded([] {
    Ref list = Checked(PyList_New(0));
    for (const DeviceKind* kind : DeviceKinds()) {
      const auto [count, why] = CountOf(*kind);
      const Ref row = Checked(Py_BuildValue("(ssiN)", kind->word.c_str(), kind->file.c_str(), count,
                                            ToPython(why).release()));
      if (PyList_Append(list.get(), row.get()) < 0) throw ErrorSet{};
    }
    return list.release();
  });
}

PyObject* SynchronizeDevice(PyObject*, PyObject* name) {
  return Guarded([&]() -> PyObject* {
    const Device device(ToText(name, "synchronize: the device"));
    PyThreadState* state = PyEval_SaveThread();  // its own threads may need the lock
    try {
      Synchronize(device);
    } catch (...) {
      PyEval_RestoreThread(state);
      throw;
    }
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
  });
}

PyMethodDef g_machine_methods[] = {
    {"devices", ListDevices, METH_NOARGS, "A row per device of the loaded libraries."},
    {"device_libraries", ListDeviceLibraries, METH_NOARGS, "A row per library of devices."},
    {"synchronize", SynchronizeDevice, METH_O,
     "synchronize($module, device, /)\n--\n\nWaits for all work on a device, 'cuda:0', and raises "
     "its late error."},

    {"machine", Machine, METH_NOARGS, "Processor, features, caches, threads, compiler."},
    {"environment", GetEnvironment, METH_NOARGS, "(name, default, sentence, values, value) rows."},
    {"ceilings", MeasuredCeilings, METH_NOARGS, "Measured bandwidths and rates."},
    {"pool_counters", GetPoolCounters, METH_NOARGS, "What the thread pool did."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void AddMachineFunctions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_machine_methods) < 0) throw ErrorSet{};
}

}  // namespace anyop::python
