// SPDX-License-Identifier: Apache-2.0
// PyTorch as a host: what is not on the way of every call.
#include <algorithm>

#include "anyop/runtime.h"
#include "anyop/tensor.h"
#include "bindings/host/slots.h"
#include "torch_call.h"
#include "torch_view.h"

namespace anyop::python {
namespace {

// DLPack hands a tensor over in a capsule of this name. Whoever takes it renames the capsule, which
// then must not end the loan.
constexpr const char* kFresh = "dltensor";

struct TensorLoan {
  DLManagedTensor managed;
  void* owner;
  void (*end)(void*);
  std::int64_t shape[kMaxRank], strides[kMaxRank];
};

void EndLoan(DLManagedTensor* managed) {
  const std::unique_ptr<TensorLoan> loan(reinterpret_cast<TensorLoan*>(managed));
  loan->end(loan->owner);
}

void EndCapsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kFresh)) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  managed->deleter(managed);
}

Ref MakeCapsule(const DLTensor& t, void* owner, void (*end)(void*)) {
  auto loan = std::make_unique<TensorLoan>();
  const auto& tensor = static_cast<const Tensor&>(t);
  for (int i = 0; i < t.ndim; ++i) {
    loan->shape[i] = t.shape[i];
    loan->strides[i] = tensor.stride(i);
  }
  loan->managed = {t, nullptr, &EndLoan};
  loan->owner = owner;
  loan->end = end;
  loan->managed.dl_tensor.shape = loan->shape;
  loan->managed.dl_tensor.strides = loan->strides;
  Ref capsule(PyCapsule_New(&loan->managed, kFresh, &EndCapsule));
  if (!capsule) {
    end(owner);
    throw ErrorSet{};
  }
  loan.release();
  return capsule;
}

void* DataPointer(PyObject* tensor) {
  void* data = nullptr;
  return g_torch_functions.data_ptr(TorchHandle(tensor), &data) ? nullptr : data;
}

// Of its storage; 0 where this torch does not tell.
Py_ssize_t StorageBytes(PyObject* tensor) {
  std::int64_t bytes = 0;
  if (g_torch_functions.storage_bytes &&
      g_torch_functions.storage_bytes(TorchHandle(tensor), &bytes))
    return -1;
  return Py_ssize_t(bytes);
}

// Whether an object has torch's protocol without being a tensor: a proxy of torch.fx, or a size of
// a program that is traced.
bool IsTorchFunction(PyObject* object) {
  if (!object || IsTorchTensor(object)) return false;
  return IsTorchNumber(object) || PyObject_HasAttrString(object, "__torch_function__");
}

// The same of an argument, which may be a list of such objects.
bool HasTorchFunction(PyObject* object) {
  if (!object || !(PyTuple_Check(object) || PyList_Check(object))) return IsTorchFunction(object);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    if (IsTorchFunction(Ref::Borrow(PySequence_Fast_GET_ITEM(object, i)).get())) return true;
  }
  return false;
}

class Torch final : public Host {
 public:
  Torch() : Host({"torch", "torch tensor", "torch.from_numpy(*)", "*.numpy()", ""}) {}

  bool IsTensor(PyObject* object) const override {
    return g_torch.is_known && IsTorchTensor(object);
  }
  bool ViewPlain(PyObject* object, anyop_host_view& view) const override {
    const PyTypeObject* type = Py_TYPE(object);
    if (!g_torch_fast.is_on || (type != g_torch.tensor && type != g_torch.parameter)) return false;
    auto* const impl = static_cast<char*>(TorchImpl(object));
    std::int64_t size;
    return g_torch_fast.IsPlain(g_torch_layout.Keys(impl)) &&
           g_torch_layout.View(impl, view.tensor, size) && (view.tensor.data || !size);
  }
  const void* DataOf(PyObject* object) const override {
    if (!IsTensor(object)) return nullptr;
    const Ref address(PyObject_CallMethod(object, "data_ptr", nullptr));
    const void* data = address ? PyLong_AsVoidPtr(address.get()) : nullptr;
    if (PyErr_Occurred()) PyErr_Clear();  // data_ptr() raises for a tensor without memory
    return data;
  }
  // Torch has no read-only tensors, so `access` is left aside.
  Ref Lend(const DLTensor& t, Access, void* owner, void (*end)(void*)) const override {
    // Not by an initializer: a second thread would wait for its end, holding the GIL that the
    // import needs.
    static PyObject* lent = nullptr;
    if (!lent) {
      const Ref module = Checked(PyImport_ImportModule("anyop.torch._route.lent"));
      Py_XSETREF(lent, Checked(PyObject_GetAttrString(module.get(), "lent")).release());
    }
    const Ref capsule = MakeCapsule(t, owner, end);
    return Checked(PyObject_CallOneArg(lent, capsule.get()));
  }
  bool lends_again() const override { return true; }
  bool loses_exceptions() const override { return true; }
  Ref DTypeObject(DType dtype) const override {
    if (!g_torch.is_known) Checked(PyImport_ImportModule("anyop.torch"));
    return Ref::Borrow(g_torch.dtype_objects[int(dtype)]);
  }
  int ToDType(PyObject* object) const override { return TorchDType(object); }
  bool IsSymbolicNumber(PyObject* object) const override {
    return IsTorchNumber(object) || !number_advice(object).empty();
  }
  std::string number_advice(PyObject* object) const override {
    if (!IsTensor(object)) return "";
    const Ref module = Checked(PyImport_ImportModule("anyop.torch._route.numbers"));
    const Ref advice = Checked(PyObject_CallMethod(module.get(), "advice", "O", object));
    return ToText(advice.get(), "advice");
  }
  HostMemory MemoryOf(PyObject* object) const override {
    if (!g_torch_functions.data_ptr) return {};
    return {Ref::Borrow(object), DataPointer(object), StorageBytes(object)};
  }
  bool Holds(const HostMemory& memory) const override {
    PyObject* tensor = memory.owner.get();
    return DataPointer(tensor) == memory.data && StorageBytes(tensor) == memory.bytes;
  }
  void CountWrite(PyObject* tensor) const override {
    if (HasVersion(tensor)) g_torch_functions.bump_version(TorchHandle(tensor));
  }
  PyObject* CallElsewhere(OperatorInfo& info, const Slots& slots) const override {
    return CallTorchOperator(info, slots);
  }
  // torch's operator asks objects with its protocol what they make of the call.
  bool TakesRefused(std::span<PyObject* const> arguments) const override {
    return g_torch.is_known && std::any_of(arguments.begin(), arguments.end(), HasTorchFunction);
  }
};

}  // namespace

const Host* MakeTorchHost() {
  ExpectHost("torch", "anyop.torch");
  return new Torch;
}

}  // namespace anyop::python
