// SPDX-License-Identifier: Apache-2.0
#include "lend.h"

#include <memory>

#include "anyop/tensor.h"
#include "torch_api.h"

namespace anyop::python {
namespace {

// DLPack's own way of handing a tensor over, in a capsule of this name.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
constexpr const char* kFresh = "dltensor";  // a consumer renames the capsule

struct TorchLoan {
  DLManagedTensor managed;
  std::int64_t shape[kMaxRank], strides[kMaxRank];
};

void EndLoan(DLManagedTensor* managed) {
  static_cast<Ledger*>(managed->manager_ctx)->Drop();
  delete reinterpret_cast<TorchLoan*>(managed);
}

void EndCapsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kFresh)) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  managed->deleter(managed);
}

Ref MakeCapsule(const DLTensor& t, Ledger* ledger) {
  auto loan = std::make_unique<TorchLoan>();
  const auto& tensor = static_cast<const Tensor&>(t);
  for (int i = 0; i < t.ndim; ++i) {
    loan->shape[i] = t.shape[i];
    loan->strides[i] = tensor.stride(i);
  }
  loan->managed = {t, ledger, &EndLoan};
  loan->managed.dl_tensor.shape = loan->shape;
  loan->managed.dl_tensor.strides = loan->strides;
  Ref capsule = Checked(PyCapsule_New(&loan->managed, kFresh, &EndCapsule));
  ledger->Add();
  loan.release();
  return capsule;
}

Ref LendToTorch(const DLTensor& t, Ledger* ledger) {
  static PyObject* from_dlpack = [] {
    const Ref module = Checked(PyImport_ImportModule("torch.utils.dlpack"));
    return Checked(PyObject_GetAttrString(module.get(), "from_dlpack")).release();
  }();
  const Ref capsule = MakeCapsule(t, ledger);
  return Checked(PyObject_CallOneArg(from_dlpack, capsule.get()));
}

Ref MakeBase(Ledger* ledger) {
  constexpr auto end = [](PyObject* capsule) {
    static_cast<Ledger*>(PyCapsule_GetPointer(capsule, nullptr))->Drop();
  };
  Ref base = Checked(PyCapsule_New(ledger, nullptr, end));
  ledger->Add();
  return base;
}

// NumPy would allocate for null, which an empty tensor may have.
char* AddressOf(const DLTensor& t) {
  static std::int64_t nothing = 0;
  return t.data ? static_cast<char*>(t.data) + t.byte_offset : reinterpret_cast<char*>(&nothing);
}

}  // namespace

Ref Lender::Lend(ObjectKind kind, const DLTensor& t, Access access) {
  return kind == ObjectKind::kTorch ? LendToTorch(t, ledger_)
                                    : ViewAsArray(t, access, MakeBase(ledger_));
}

namespace {

bool IsSameLayout(const DLTensor& a, const DLTensor& b) {
  const bool is_alike = AddressOf(a) == AddressOf(b) && a.ndim == b.ndim &&
                        a.dtype.code == b.dtype.code && a.dtype.bits == b.dtype.bits;
  for (int i = 0; is_alike && i < a.ndim; ++i) {
    const auto stride = [i](const DLTensor& t) { return static_cast<const Tensor&>(t).stride(i); };
    if (a.shape[i] != b.shape[i] || stride(a) != stride(b)) return false;
  }
  return is_alike;
}

}  // namespace

// One tensor for each hash: what it points to may be gone by now, but then nobody asks for it.
Ref LendAgain(const DLTensor& t) {
  constexpr std::size_t kSlots = 4096;
  static PyObject* slots[kSlots] = {};
  static Ledger* const ledger = new Ledger;  // its loans never end
  std::size_t hash = reinterpret_cast<std::uintptr_t>(AddressOf(t)) / 16 + t.dtype.bits;
  for (int i = 0; i < t.ndim; ++i) hash = hash * 31 + std::size_t(t.shape[i]);
  PyObject*& slot = slots[(hash ^ hash / kSlots) % kSlots];
  DLTensor seen;
  if (slot && ViewPlain(ObjectKind::kTorch, slot, seen) && IsSameLayout(seen, t)) {
    return Ref::Borrow(slot);
  }
  Ref made = LendToTorch(t, ledger);
  Py_XSETREF(slot, Py_NewRef(made.get()));
  return made;
}

Ref ViewAsArray(const DLTensor& t, Access access, Ref base) {
  const auto& tensor = static_cast<const Tensor&>(t);
  const npy_intp item = t.dtype.bits / 8;
  npy_intp shape[kMaxRank], strides[kMaxRank];
  for (int i = 0; i < t.ndim; ++i) {
    shape[i] = t.shape[i];
    strides[i] = tensor.stride(i) * item;
  }
  auto* dtype = reinterpret_cast<PyArray_Descr*>(ToNumpyDType(tensor.type()).release());
  Ref array =
      Checked(PyArray_NewFromDescr(&PyArray_Type, dtype, t.ndim, shape, strides, AddressOf(t),
                                   access == Access::kWrite ? NPY_ARRAY_WRITEABLE : 0, nullptr));
  auto* made = reinterpret_cast<PyArrayObject*>(array.get());
  if (PyArray_SetBaseObject(made, base.release()) < 0) throw ErrorSet{};
  return array;
}

Ref DTypeObject(ObjectKind kind, DType dtype) {
  if (kind == ObjectKind::kNumpy) return ToNumpyDType(dtype);
  if (!g_torch.is_known) Checked(PyImport_ImportModule("anyop.torch"));
  return Ref::Borrow(g_torch.dtype_objects[int(dtype)]);
}

const void* DataOf(ObjectKind kind, PyObject* object) {
  if (kind == ObjectKind::kNumpy) {
    return PyArray_Check(object) ? PyArray_DATA(reinterpret_cast<PyArrayObject*>(object)) : nullptr;
  }
  if (!g_torch.is_known || !IsTorchTensor(object)) return nullptr;
  const Ref address(PyObject_CallMethod(object, "data_ptr", nullptr));
  const void* data = address ? PyLong_AsVoidPtr(address.get()) : nullptr;
  if (PyErr_Occurred()) PyErr_Clear();  // a tensor of torch that has no memory of its own
  return data;
}

bool ViewPlain(ObjectKind kind, PyObject* object, DLTensor& t) {
  if (kind == ObjectKind::kNumpy) return ViewDense(object, Access::kRead, t);
  const PyTypeObject* type = Py_TYPE(object);
  if (!g_torch.is_fast || (type != g_torch.tensor && type != g_torch.parameter)) return false;
  auto* const impl = static_cast<char*>(TorchImpl(object));
  std::int64_t size;
  const bool is_plain = !(TorchField<std::uint64_t>(impl, g_torch.at.keys) & g_torch.other_keys);
  return is_plain && ViewTorch(impl, t, size) && (t.data || !size);
}

}  // namespace anyop::python
