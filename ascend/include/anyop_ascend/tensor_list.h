// SPDX-License-Identifier: Apache-2.0
// Lists of tensors: what a kernel with a dynamic number of inputs or outputs gets. A list is words
// of 64 bits in global memory: the byte at which the addresses begin; for each tensor its rank and
// its place in the list, 32 bits each, and its sizes; the address of each tensor.
#pragma once
#include "anyop_ascend/tensor.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

class ListTensorDesc;

// One tensor of a list. Its sizes lie where SetShapeAddr says, and GetDesc writes them there.
template <class T>
class TensorDesc {
 public:
  void SetShapeAddr(std::uint64_t* sizes) { sizes_ = sizes; }
  std::uint64_t GetDim() const { return rank_; }
  std::uint64_t GetIndex() const { return index_; }
  std::uint64_t GetShape(std::uint32_t dimension, ANYOP_ASCEND_SITE) const {
    if (kChecked && dimension >= rank_) {
      rt::Report("tensor-list", site, "GetShape(%u), but the tensor has %u dimensions%s", dimension,
                 rank_, rank_ ? "" : ". Try GetDesc first");
      return 0;
    }
    return sizes_[dimension];
  }
  T* GetDataPtr() const { return data_; }
  GlobalTensor<T> GetDataObj() const {
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(data_);
    return tensor;
  }

 private:
  friend class ListTensorDesc;

  std::uint64_t* sizes_ = nullptr;
  std::uint32_t rank_ = 0;
  std::uint32_t index_ = 0;
  T* data_ = nullptr;
};

class ListTensorDesc {
 public:
  ListTensorDesc() = default;
  // The length in bytes and the number of tensors are looked at with checks, where they are given.
  ListTensorDesc(const void* data, std::uint32_t length = ~0u, std::uint32_t tensors = ~0u,
                 ANYOP_ASCEND_SITE) {
    Init(data, length, tensors, site);
  }
  void Init(const void* data, std::uint32_t length = ~0u, std::uint32_t tensors = ~0u,
            ANYOP_ASCEND_SITE) {
    if constexpr (kChecked) rt::CheckTensorList(data, length, tensors, site);
    words_ = static_cast<const std::uint64_t*>(data);
  }

  std::uint32_t GetSize(ANYOP_ASCEND_SITE) const {
    std::uint32_t tensors = 0;
    for (std::uint64_t at = 1; at < AddressesAt(site); at = After(at)) ++tensors;
    return tensors;
  }
  template <class T>
  T* GetDataPtr(std::uint32_t index, ANYOP_ASCEND_SITE) const {
    CheckIndex("GetDataPtr", index, site);
    return reinterpret_cast<T*>(words_[AddressesAt(site) + index]);
  }
  template <class T>
  void GetDesc(TensorDesc<T>& desc, std::uint32_t index, ANYOP_ASCEND_SITE) const {
    CheckIndex("GetDesc", index, site);
    if (kChecked && !desc.sizes_) {
      rt::End("tensor-list",
              "GetDesc writes the sizes of the tensor, but nothing says where. Try SetShapeAddr "
              "first",
              site);
    }
    std::uint64_t at = 1;
    for (std::uint32_t i = 0; i < index; ++i) at = After(at);
    desc.rank_ = RankAt(at);
    desc.index_ = static_cast<std::uint32_t>(words_[at] >> 32);
    std::copy_n(words_ + at + 1, desc.rank_, desc.sizes_);
    desc.data_ = GetDataPtr<T>(index, site);
  }

 private:
  std::uint64_t AddressesAt(rt::Site site) const {
    if (!words_) rt::End("tensor-list", "the list has no data. Try Init first", site);
    return words_[0] / 8;
  }
  std::uint32_t RankAt(std::uint64_t at) const { return static_cast<std::uint32_t>(words_[at]); }
  std::uint64_t After(std::uint64_t at) const { return at + 1 + RankAt(at); }
  void CheckIndex(const char* function, std::uint32_t index, rt::Site site) const {
    if (!kChecked) return;
    const std::uint32_t tensors = GetSize(site);
    if (index < tensors) return;
    char text[96];
    std::snprintf(text, sizeof text, "%s(%u), but the list has %u tensor%s", function, index,
                  tensors, tensors == 1 ? "" : "s");
    rt::End("tensor-list", text, site);
  }

  const std::uint64_t* words_ = nullptr;
};

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
