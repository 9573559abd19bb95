// SPDX-License-Identifier: Apache-2.0
#include "torch_calibration.h"

#include <algorithm>

#include "torch_symbols.h"

namespace anyop::python {

TorchLayout g_torch_layout;
TorchFastPath g_torch_fast;

namespace {

std::vector<std::int64_t> ToInts(PyObject* tuple) {
  std::vector<std::int64_t> ints;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    ints.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  }
  return ints;
}

TorchProbe ToProbe(PyObject* row) {
  PyObject *tensor, *dtype, *sizes, *strides;
  unsigned long long storage, data, keys;
  long long start;
  int has_autograd;
  if (!PyArg_ParseTuple(row, "OKKKLOO!O!i", &tensor, &storage, &data, &keys, &start, &dtype,
                        &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &has_autograd)) {
    throw ErrorSet{};
  }
  const int number = TorchDType(dtype);
  return {TorchImpl(tensor),
          reinterpret_cast<const void*>(storage),
          reinterpret_cast<const void*>(data),
          keys,
          start,
          number < 0 ? -1 : g_torch.numbers[number],
          ToInts(sizes),
          ToInts(strides),
          has_autograd};
}

// Bytes of a TensorImpl that are searched. Behind its own lies the allocator's memory, which now
// and then looks like a field.
constexpr std::size_t kEnd = 176;

// The one offset below `end` that fits all probes; 0 if there is none, or several, as nothing says
// which of them is the field. The first 8 bytes are the pointer to the virtual functions.
template <class F>
std::size_t FindOffset(const std::vector<TorchProbe>& probes, std::size_t end, std::size_t step,
                       F fits) {
  std::size_t found = 0;
  for (std::size_t offset = 8; offset < end; offset += step) {
    if (!std::all_of(probes.begin(), probes.end(),
                     [&](const TorchProbe& p) { return fits(p, offset); }))
      continue;
    if (found) return 0;
    found = offset;
  }
  return found;
}

}  // namespace

bool TorchLayout::HoldsSizes(const TorchProbe& p, std::size_t offset) {
  const std::size_t rank = p.sizes.size();
  if (Field<std::uint64_t>(p.impl, offset) != rank) return false;
  const bool is_inline = rank <= kInline;
  if (!is_inline) return true;  // a pointer follows, if the offset is right: it may be none
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t size = offset + 8 * (i + 1), stride = size + 8 * kInline;
    if (stride + 8 > kEnd || Field<std::int64_t>(p.impl, size) != p.sizes[i]) return false;
    if (Field<std::int64_t>(p.impl, stride) != p.strides[i]) return false;
  }
  return true;
}

std::string TorchLayout::Measure(const std::vector<TorchProbe>& probes) {
  const auto pointer = [](const void* object, std::size_t offset) {
    return Field<const void*>(object, offset);
  };
  keys_ = FindOffset(probes, kEnd, 8, [](const TorchProbe& p, std::size_t o) {
    return Field<std::uint64_t>(p.impl, o) == p.keys;
  });
  if (!keys_) return "dispatch keys";
  autograd_ = FindOffset(probes, kEnd, 8, [&](const TorchProbe& p, std::size_t o) {
    return p.has_autograd < 0 || (pointer(p.impl, o) != nullptr) == (p.has_autograd > 0);
  });
  if (!autograd_) return "autograd's fields";
  rank_ = FindOffset(probes, kEnd, 8, HoldsSizes);
  if (!rank_) return "sizes and strides";
  start_ = FindOffset(probes, kEnd, 8, [](const TorchProbe& p, std::size_t o) {
    return Field<std::int64_t>(p.impl, o) == p.start;
  });
  if (!start_) return "the storage's offset";
  dtype_ = FindOffset(probes, kEnd, 1, [](const TorchProbe& p, std::size_t o) {
    return Field<std::uint8_t>(p.impl, o) == p.number;
  });
  if (!dtype_) return "the dtype";
  storage_ = FindOffset(probes, kEnd, 8, [&](const TorchProbe& p, std::size_t o) {
    return pointer(p.impl, o) == p.storage;
  });
  if (!storage_) return "the storage";
  storage_data_ = FindOffset(probes, 64, 8, [&](const TorchProbe& p, std::size_t o) {
    return pointer(p.storage, o) == p.data;
  });
  return storage_data_ ? "" : "the storage's data";
}

std::string CalibrateTorch(PyObject* forward_ad, PyObject* probes, std::uint64_t plain,
                           std::uint64_t inference) {
  const std::string missing = FindTorchFunctions();
  if (!missing.empty()) return "this torch does not export " + missing;
  std::vector<TorchProbe> rows;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(probes); ++i) {
    rows.push_back(ToProbe(PyList_GET_ITEM(probes, i)));
  }
  const std::string lost = g_torch_layout.Measure(rows);
  if (!lost.empty()) return "not found in a tensor: " + lost;
  g_torch_fast.other_keys = ~plain;
  g_torch_fast.training_keys = plain & ~inference;
  g_torch_fast.forward_ad = Checked(PyObject_GetAttrString(forward_ad, "__dict__")).release();
  return "";
}

}  // namespace anyop::python
