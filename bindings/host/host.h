// SPDX-License-Identifier: Apache-2.0
// Frameworks whose tensors calls take: a record each. Calls with NumPy's arrays and torch's tensors
// are compiled in (NumpyCall, TorchCall); those of further hosts go through the functions that they
// register (anyop/python_host.h, RegisteredCall).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "anyop/dtype.h"
#include "anyop/python_host.h"
#include "anyop/signature.h"
#include "bindings/python.h"
#include "runtime/plan/calling_host.h"
#include "signature/texts.h"

namespace anyop::python {

class CallMemory;
struct OperatorInfo;
struct Slots;

// A tensor of one call. `strides` is room for strides that an array does not have in elements, as
// NumPy's are in bytes.
struct View {
  DLTensor tensor;
  std::int64_t strides[kMaxRank];
};

// How a call names the argument in a message: "rms_norm" and "weight", or "caches[2]".
struct ArgumentName {
  const char* op;
  PyObject* name;
  Py_ssize_t element = -1;
  std::string text() const;   // "weight", "caches[2]"
  std::string start() const;  // "rms_norm: weight"
};

enum class Access { kRead, kWrite };

// The memory of an object that a graph keeps as state. Without an owner: the host does not tell.
struct HostMemory {
  Ref owner;  // the object that could get other memory: of a view of NumPy's, the array below it
  void* data = nullptr;
  Py_ssize_t bytes = 0;
};

// Who may take a call that was refused because of a type: a framework that traces a program, or a
// graph under construction. Nobody looks for one before a refusal, so that other calls pay nothing.
class CallTaker {
 public:
  virtual ~CallTaker() = default;
  // arguments: all of the call, positional ones and those by keyword.
  virtual bool TakesRefused(std::span<PyObject* const> arguments) const = 0;
  // Makes the call. A new reference; null with an exception.
  virtual PyObject* CallElsewhere(OperatorInfo& info, const Slots& slots) const = 0;
  // What a caller is told who gives such an object where only a value will do; "": nothing.
  virtual std::string refusal(PyObject*) const { return ""; }
};
// The first that takes the arguments, null if none does; a graph under construction comes first.
const CallTaker* FindTaker(std::span<PyObject* const> arguments);
// Makes one known that is no host.
void AddTaker(const CallTaker* taker);

class Host : public CallTaker {
 public:
  struct Names {
    std::string module;      // the framework's Python module: "torch"
    std::string noun;        // of a tensor: "torch tensor"
    std::string from_numpy;  // advice, * for the argument's name: "torch.from_numpy(*)"
    std::string to_numpy;    // "*.numpy()"
    std::string make;        // of any other object: "numpy.asarray(*)"; "": none
  };
  explicit Host(Names host_names)
      : names(std::move(host_names)), name(InternHostName(names.module)) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const Names names;
  const HostName name;

  virtual bool IsTensor(PyObject* object) const = 0;  // raises nothing
  // A view of a tensor that kernels may be given as it is, of memory that the CPU may read; false
  // for any other object.
  virtual bool ViewPlain(PyObject* object, anyop_host_view& view) const = 0;
  // The same of memory on any device.
  virtual bool ViewAnywhere(PyObject* object, anyop_host_view& view) const {
    return ViewPlain(object, view);
  }
  // Where the elements begin; null for an object that is no tensor of this host.
  virtual const void* DataOf(PyObject* object) const = 0;
  // An object over t's memory; `end(owner)` is called when the last use of it has gone.
  virtual bool can_lend() const { return true; }
  virtual Ref Lend(const DLTensor& t, Access access, void* owner, void (*end)(void*)) const = 0;
  // The caller's own tensor `own`, viewed as t, for code that may only read it.
  virtual Ref ReadOnly(PyObject* own, const DLTensor& t) const;
  // Whether a loan may be used again by code that is trusted to keep none.
  virtual bool lends_again() const { return false; }
  virtual Ref DTypeObject(DType dtype) const = 0;
  virtual int ToDType(PyObject* object) const = 0;  // -1, without an exception: stands for none
  // A number that Python's conversions would fix, and should not: it is not known yet, or has a
  // gradient, which would be lost.
  virtual bool IsSymbolicNumber(PyObject*) const { return false; }
  // What a caller is told who gives a tensor where a number belongs; "": nothing.
  virtual std::string number_advice(PyObject*) const { return ""; }
  virtual HostMemory MemoryOf(PyObject* object) const = 0;
  // Whether an owner still has this memory.
  virtual bool Holds(const HostMemory& memory) const = 0;
  // Whether code of the framework that knows no Python may lie between a call and its caller. It
  // carries an error as a text alone, so that the exception itself waits (calls/raised.h).
  virtual bool loses_exceptions() const { return false; }
  // Tells the framework of a tensor that was written outside of a call.
  virtual void CountWrite(PyObject*) const {}
  // Calls the framework's own operator of the same signature.
  PyObject* CallElsewhere(OperatorInfo& info, const Slots& slots) const override;
  bool TakesRefused(std::span<PyObject* const>) const override { return false; }
  // Whether the framework keeps calls as texts. It is then given bound calls, by CallBound, and
  // none by CallElsewhere.
  virtual bool takes_bound_calls() const { return false; }
  // The result of a bound call. tensors: a tuple, one for each of its inputs. out: the caller's,
  // or null.
  virtual PyObject* CallBound(OperatorInfo& info, PyObject* call, PyObject* tensors,
                              PyObject* out) const;
};

// Makes a host known; it stays for as long as the process.
void AddHost(const Host* host);
std::span<const Host* const> Hosts();
const Host* FindHost(HostName name);  // null: none of that name
// `adapter` is imported where a call comes without a known host while `module` is imported.
void ExpectHost(const std::string& module, const std::string& adapter);
void StopExpecting(const std::string& module);
struct BuiltInHosts {
  const Host *numpy = nullptr, *torch = nullptr;  // once the module is made
};
extern BuiltInHosts g_hosts;
const Host* MakeNumpyHost();
const Host* MakeTorchHost();
inline const Host& NumpyHost() { return *g_hosts.numpy; }
inline const Host& TorchHost() { return *g_hosts.torch; }

// The host that an object is a tensor of, null for other objects.
const Host* HostOfTensor(PyObject* object);
// The same for what decides a call: a tensor, the first of a list of them, or a framework's module.
// NumPy's where nothing says.
const Host& HostOfObject(PyObject* object);
int DTypeOfAnyHost(PyObject* object);  // -1: stands for none
bool IsSymbolicNumber(PyObject* object);
bool IsModule(PyObject* object, std::string_view name);

// Throws where a taker has words of its own for the object.
void RefuseInWordsOfTaker(PyObject* object);
// {name: text}
Ref DictOf(std::span<const Text> texts);
// A tensor of a dtype that anyop has no name for: tells it in the tensor's own words, as
// "timedelta64[s][2, 3]".
[[noreturn]] void RefuseDType(PyObject* tensor, const ArgumentName& name);
// An argument that is no tensor of the host.
[[noreturn]] void RefuseObject(const Host& host, PyObject* object, const ArgumentName& name);

// One call's view of its host. Each kind has, beside this, what CallWith calls inlined:
//   bool is_direct() const        whether kernels may be given the tensors
//   const char* reason() const    why not
//   void Convert(op, name, access, object, memory, view)
//   Ref Allocate(dtype, rank, shape, memory, view)    a fresh tensor
//   OnStream()                    see below
//   void Finish()                 after the kernel: tells the framework of written tensors
class HostCall {
 public:
  explicit HostCall(const Host& host) : host_(host) {}
  const Host& host() const { return host_; }
  // Whether results that are given are looked at here, and not by what the call is handed on to.
  bool views_results() const { return true; }
  // An element of a list.
  virtual void ViewElement(const ArgumentName& name, Access access, PyObject* object,
                           CallMemory& memory, View& view) = 0;
  // Results are made there, where no tensor of the call says: a graph with state of its own may be
  // called with numbers alone.
  void ResultsLieOn(DLDevice) {}
  // For a call of a graph: it is no operator of the framework, so that there is nothing to tell the
  // framework's profiler, and the call need not go through the framework.
  void PassProfiler() {}
  // While what it returns lives, work is put on the framework's stream.
  int OnStream() const { return 0; }

 protected:
  ~HostCall() = default;

 private:
  const Host& host_;
};

}  // namespace anyop::python
