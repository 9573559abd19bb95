// SPDX-License-Identifier: Apache-2.0
#include "frame.h"

#include <string>

#include "device.h"
#include "signature/check.h"
#include "texts.h"

namespace anyop::torch_host {
namespace {

constexpr at::ScalarType kTorchDTypes[kDTypes] = {at::kDouble,
                                                  at::kFloat,
                                                  at::kHalf,
                                                  at::kBFloat16,
                                                  at::kFloat8_e4m3fn,
                                                  at::kFloat8_e5m2,
                                                  at::kLong,
                                                  at::kInt,
                                                  at::kShort,
                                                  at::kChar,
                                                  at::kByte,
                                                  at::kBool,
                                                  at::kUInt16,
                                                  at::kUInt32,
                                                  at::kUInt64,
                                                  at::kComplexFloat,
                                                  at::kComplexDouble,
                                                  at::kFloat8_e8m0fnu,
                                                  at::kFloat8_e4m3fnuz,
                                                  at::kFloat8_e5m2fnuz,
                                                  at::kFloat4_e2m1fn_x2};
static_assert(kTorchDTypes[kDTypes - 1] != at::kByte, "a dtype of the list has no row here");

// As long as a byte has values, so that no number of torch's needs a check.
struct DTypeTable {
  std::int8_t number[256];
  DLDataType dl[256];  // lanes 0: none of anyop's
  constexpr DTypeTable() : number(), dl() {
    for (std::int8_t& n : number) n = -1;
    for (DLDataType& d : dl) d = {0, 0, 0};
    for (int d = 0; d < kDTypes; ++d) {
      number[int(kTorchDTypes[d])] = std::int8_t(d);
      dl[int(kTorchDTypes[d])] = ToDL(DType(d));
    }
  }
};
constexpr DTypeTable kTable;

[[noreturn, gnu::cold]] void Refuse(const std::string& op, const std::string& name,
                                    const std::string& rest) {
  RaiseTorchError(ANYOP_INVALID_ARGUMENT, op + ": " + name + " " + rest);
}

// False for a tensor that no kernel can read.
[[gnu::always_inline]] inline bool View(const at::Tensor& t, bool is_written, DLTensor& view) {
  c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  if (!t.defined()) return false;
  DLDevice device = kHostDevice;
  if (!impl->is_cpu()) [[unlikely]] {
    device = DLDeviceOf(impl->device());
    if (!device.device_type) return false;
  }
  const DLDataType dtype = kTable.dl[std::uint8_t(t.scalar_type())];
  const auto sizes = impl->sizes();
  if (!dtype.lanes || sizes.size() > std::size_t(kMaxRank)) return false;
  // By torch's unsafe functions: the checks of the others are made here, and once.
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (!storage) return false;
  // A copy-on-write tensor that is written must make its copy now.
  void* begin = is_written ? storage->mutable_data() : const_cast<void*>(storage->data());
  if (!begin && impl->numel() != 0) return false;
  FillTensor(&view, static_cast<char*>(begin) + impl->storage_offset() * Bytes(dtype), device,
             dtype, int(sizes.size()), sizes.data(),
             impl->is_contiguous() ? nullptr : impl->strides().data());
  return true;
}

double ToDouble(const c10::IValue& v) {
  if (v.isDouble()) return v.toDouble();
  if (v.isInt()) return double(v.toInt());
  return v.toSymFloat().guard_float(__FILE__, __LINE__);
}
std::int64_t ToInt(const c10::IValue& v) {
  return v.isInt() ? v.toInt() : v.toSymInt().guard_int(__FILE__, __LINE__);
}

}  // namespace

int DTypeOf(at::ScalarType type) { return kTable.number[std::uint8_t(type)]; }
at::ScalarType ToTorch(DType dtype) { return kTorchDTypes[int(dtype)]; }

bool ViewTensor(const at::Tensor& t, bool is_written, DLTensor& view) {
  return View(t, is_written, view);
}

[[gnu::cold]] void RefuseTensor(const std::string& op, const std::string& name,
                                const at::Tensor& t) {
  if (!t.defined()) Refuse(op, name, "is undefined, but must be a tensor.");
  const auto refuse = [&](const Text& text, FilledWord word = {}) {
    RaiseTorchError(ANYOP_INVALID_ARGUMENT, Filled(text, {{"op", op}, {"name", name}, word}));
  };
  if (!DLDeviceOf(t.device()).device_type) {
    refuse(torch_texts::kDevice, {"device", t.device().str()});
  }
  if (DTypeOf(t.scalar_type()) < 0) {
    std::string shape;
    for (const auto size : t.sizes()) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    const std::string dtype(c10::getDtypeNames(t.scalar_type()).first);
    refuse(texts::kNoDType, {"type", dtype + "[" + shape + "]"});
  }
  if (t.dim() > kMaxRank) refuse(texts::kManyDimensions, {"rank", std::to_string(t.dim())});
  RaiseTorchError(ANYOP_INVALID_ARGUMENT,
                  Filled(torch_texts::kNoMemory, {{"op", op}, {"name", name}}));
}

bool Frame::SetTensor(int i, const at::Tensor& t, bool is_written) {
  if (!View(t, is_written, tensors_[i])) return false;
  values_[i] = TensorValue(&tensors_[i]);
  return true;
}

void Frame::SetTensors(int i, const c10::IValue& value) {
  const auto list = value.toListRef();
  auto* views = Array<DLTensor>(list.size());
  auto* pointers = Array<const DLTensor*>(list.size());
  const bool is_written = op_.facts.mut_params >> i & 1;
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (!View(list[k].toTensor(), is_written, views[k])) {
      const std::string name(op_.param(i).name);
      RefuseTensor(op_.name, name + "[" + std::to_string(k) + "]", list[k].toTensor());
    }
    pointers[k] = &views[k];
  }
  values_[i] = TensorsValue(pointers, list.size());
}

void Frame::SetNumbers(int i, const c10::IValue& value) {
  const auto list = value.toListRef();
  if (op_.kinds[i] == ParamKind::kInts) {
    auto* numbers = Array<std::int64_t>(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) numbers[k] = ToInt(list[k]);
    values_[i] = IntsValue(numbers, list.size());
  } else {
    auto* numbers = Array<double>(list.size());
    for (std::size_t k = 0; k < list.size(); ++k) numbers[k] = ToDouble(list[k]);
    values_[i] = FloatsValue(numbers, list.size());
  }
}

void Frame::SetWord(int i, const c10::IValue& value) {
  const std::vector<std::string>& words = op_.op->contract->words[std::size_t(i)];
  const std::string& text = value.toStringRef();
  for (std::size_t k = 0; k < words.size(); ++k) {
    if (words[k] != text) continue;
    values_[i] = WordValue(words[k], int(k));
    return;
  }
  RaiseTorchError(ANYOP_INVALID_ARGUMENT, op_.name + ": " + WordError(*op_.op->contract, i, text));
}

void Frame::SetOther(int i, const c10::IValue& value) {
  switch (op_.kinds[i]) {
    case ParamKind::kTensors:
      return SetTensors(i, value);
    case ParamKind::kInt:
      values_[i] = IntValue(ToInt(value));
      return;
    case ParamKind::kFloat:
      values_[i] = FloatValue(ToDouble(value));
      return;
    case ParamKind::kBool:
      values_[i] = BoolValue(value.toBool());
      return;
    case ParamKind::kWord:
      return SetWord(i, value);
    case ParamKind::kDType: {
      const int dtype = DTypeOf(value.toScalarType());
      if (dtype < 0) {
        Refuse(op_.name, std::string(op_.param(i).name),
               "is " + std::string(c10::getDtypeNames(value.toScalarType()).first) +
                   ", but anyop has no such dtype.");
      }
      values_[i] = DTypeValue(DType(dtype));
      return;
    }
    default:
      return SetNumbers(i, value);
  }
}

void Frame::FillParams(const c10::IValue* arguments, bool writes_first) {
  for (int i = 0; i < op_.n_params; ++i) {
    const c10::IValue& value = arguments[i];
    if (value.isTensor()) {
      const at::Tensor& t = value.toTensor();
      if (!t.defined() && (op_.optional_params >> i & 1)) {
        SetNone(i);
        continue;
      }
      const bool is_written = (op_.facts.mut_params >> i & 1) || (writes_first && i == 0);
      if (!SetTensor(i, t, is_written)) RefuseTensor(op_.name, std::string(op_.param(i).name), t);
    } else if (value.isNone()) {
      SetNone(i);
    } else {
      SetOther(i, value);
    }
  }
}

}  // namespace anyop::torch_host
