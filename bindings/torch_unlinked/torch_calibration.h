// SPDX-License-Identifier: Apache-2.0
// Where PyTorch keeps the fields of a tensor: offsets that are measured on probe tensors, so that
// tensors are read in place. Nothing else knows an offset.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "anyop/signature.h"
#include "anyop/value.h"
#include "bindings/python.h"
#include "torch_types.h"

namespace anyop::python {

// A tensor and what torch says of it: the answer that the right offset gives.
struct TorchProbe {
  const void *impl, *storage, *data;  // data: of the storage
  std::uint64_t keys;
  std::int64_t start;
  std::int32_t number;  // of the dtype
  std::vector<std::int64_t> sizes, strides;
  int has_autograd;  // 1 with autograd's fields, 0 without, -1 either
};

class TorchLayout {
 public:
  // What was not found, "" if all was.
  std::string Measure(const std::vector<TorchProbe>& probes);

  std::uint64_t Keys(const void* impl) const { return Field<std::uint64_t>(impl, keys_); }
  // Fields of autograd's, which most tensors do not have.
  bool HasAutograd(const void* impl) const { return Field<const void*>(impl, autograd_); }
  // Where the storage begins.
  char* StorageData(const void* impl) const {
    return Field<char*>(Field<const void*>(impl, storage_), storage_data_);
  }

  struct Form {
    std::uint8_t number;  // of the dtype
    std::uint64_t rank;
    std::int64_t *sizes, *strides;
  };
  [[gnu::always_inline]] Form FormOf(char* impl) const {
    const auto rank = Field<std::uint64_t>(impl, rank_);
    auto* sizes = reinterpret_cast<std::int64_t*>(impl + rank_ + 8);
    std::int64_t* strides = sizes + kInline;
    if (rank > kInline) [[unlikely]] {
      std::memcpy(&sizes, impl + rank_ + 8, sizeof sizes);
      strides = sizes + rank;
    }
    return {Field<std::uint8_t>(impl, dtype_), rank, sizes, strides};
  }

  // The memory of a tensor that has some of its own, with its number of elements. False for a dtype
  // or rank that anyop does not know. No number of a dtype reads beyond the table of 64.
  [[gnu::always_inline]] bool View(char* impl, DLTensor& t, std::int64_t& size) const {
    const Form form = FormOf(impl);
    const DLDataType dtype = g_torch.dtypes[form.number % 64];
    if (!dtype.lanes || form.rank > kMaxRank) [[unlikely]]
      return false;
    size = 1;  // of a contiguous tensor, the product of sizes is the next stride
    bool is_contiguous = true;
    for (std::int64_t i = std::int64_t(form.rank) - 1; i >= 0; --i) {
      is_contiguous &= form.strides[i] == size || form.sizes[i] == 1;
      size *= form.sizes[i];
    }
    char* data = StorageData(impl) + Field<std::int64_t>(impl, start_) * Bytes(dtype);
    FillTensor(&t, data, kHostDevice, dtype, int(form.rank), form.sizes,
               is_contiguous || !size ? nullptr : form.strides);
    return true;
  }

 private:
  static constexpr int kInline = 5;  // torch keeps the sizes of so many dimensions in the tensor

  template <class T>
  static T Field(const void* object, std::size_t offset) {
    T field;
    std::memcpy(&field, static_cast<const char*>(object) + offset, sizeof field);
    return field;
  }
  static bool HoldsSizes(const TorchProbe& p, std::size_t offset);

  // In a TensorImpl, and of the data in its StorageImpl.
  std::size_t keys_ = 0, autograd_ = 0, storage_ = 0, storage_data_ = 0, start_ = 0, dtype_ = 0;
  std::size_t rank_ = 0;  // then the sizes and strides: kInline each, or one pointer to both
};
extern TorchLayout g_torch_layout;

// What tells that a call may read its tensors in place.
struct TorchFastPath {
  bool is_on = false;               // the calibration held
  std::uint64_t other_keys = 0;     // keys that no plain CPU tensor has
  std::uint64_t training_keys = 0;  // those that an inference tensor lacks
  std::uint64_t inference[2] = {};  // thread's keys in inference mode
  PyObject* forward_ad = nullptr;   // dict of torch.autograd.forward_ad; its level is -1 when off

  bool IsPlain(std::uint64_t keys) const { return !(keys & other_keys); }
  bool IsInference(std::uint64_t keys) const { return (keys & training_keys) != training_keys; }
};
extern TorchFastPath g_torch_fast;

// Whether a tensor's writes are counted; those of inference mode have no version.
inline bool HasVersion(PyObject* tensor) {
  return !g_torch_fast.IsInference(g_torch_layout.Keys(TorchImpl(tensor)));
}

// Takes the measures. forward_ad: the module; probes: rows (tensor, storage's address, data's
// address, keys, storage offset, dtype, sizes, strides, TorchProbe::has_autograd); plain,
// inference: keys of such tensors. "", or what does not fit this torch.
std::string CalibrateTorch(PyObject* forward_ad, PyObject* probes, std::uint64_t plain,
                           std::uint64_t inference);

}  // namespace anyop::python
