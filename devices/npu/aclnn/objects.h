// SPDX-License-Identifier: Apache-2.0
// What the arguments of an aclnn operator are: descriptions of tensors, numbers and lists, each of
// which the caller makes, passes and destroys; and the executor between an operator's two phases.
// The names are those of Ascend's public documentation. Nothing here knows an operator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "anyop/device.h"

struct aclTensor {
  std::vector<std::int64_t> sizes, strides;  // of the view, in elements
  std::vector<std::int64_t> storage_sizes;
  std::int64_t offset;  // of the view in the storage, in elements
  int dtype;            // aclDataType: types.h
  int format;           // aclFormat
  void* data;           // of the storage
};

struct aclScalar {
  alignas(16) unsigned char bytes[16];
  int dtype;
};

struct aclIntArray {
  std::vector<std::int64_t> values;
};
struct aclFloatArray {
  std::vector<float> values;
};
struct aclBoolArray {
  std::vector<unsigned char> values;
};

// Both own what they list once they are made.
struct aclTensorList {
  std::vector<aclTensor*> values;
};
struct aclScalarList {
  std::vector<aclScalar*> values;
};

// A planned call. `launch` puts it on a stream and returns at once; it may be called again where
// the executor is repeatable. What it launches holds copies of all that it needs.
struct aclOpExecutor {
  std::string name;                         // of the operator
  std::function<int(anyop_stream)> launch;  // 0, or a code of acl.h whose text Fail has kept
  std::vector<aclTensor*> tensors;          // the plan's own, in order of the arguments
  bool is_repeatable = false;

  ~aclOpExecutor();
};

namespace npu {

// Objects that were made and not yet destroyed. One that is none of them is a mistake of the
// caller, which must not be followed into memory.
bool IsLive(const void* object);
void Register(const void* object);
bool Forget(const void* object);  // false: it was none

}  // namespace npu
