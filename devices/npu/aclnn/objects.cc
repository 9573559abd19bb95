// SPDX-License-Identifier: Apache-2.0
// Making, reading and destroying what an operator's arguments are.
#include "objects.h"

#include <cstring>
#include <mutex>
#include <unordered_set>

#include "devices/npu/acl.h"
#include "types.h"

using namespace npu;

namespace npu {
namespace {

std::mutex g_mutex;
std::unordered_set<const void*>& Live() {
  static auto& live = *new std::unordered_set<const void*>;  // threads outlive static objects
  return live;
}

template <class T>
T* Made(T object) {
  T* const made = new T(std::move(object));
  Register(made);
  return made;
}

int Refuse(const char* who, const char* what) {
  return Fail(kInvalid, std::string(who) + ": the argument is no " + what +
                            " that was made and not yet destroyed.");
}

template <class T>
int Destroy(const char* who, const char* what, const T* object) {
  if (!object) return kOk;
  if (!Forget(object)) return Refuse(who, what);
  delete object;
  return kOk;
}

template <class T>
int Size(const char* who, const char* what, const T* list, std::uint64_t* size) {
  if (!IsLive(list)) return Refuse(who, what);
  *size = list->values.size();
  return kOk;
}

// The caller gives it back with delete[].
int Copy(const std::vector<std::int64_t>& from, std::int64_t** to, std::uint64_t* count) {
  *count = from.size();
  *to = new std::int64_t[from.size() + 1];
  std::memcpy(*to, from.data(), from.size() * sizeof(std::int64_t));
  return kOk;
}

}  // namespace

bool IsLive(const void* object) {
  const std::lock_guard lock(g_mutex);
  return Live().contains(object);
}
void Register(const void* object) {
  const std::lock_guard lock(g_mutex);
  Live().insert(object);
}
bool Forget(const void* object) {
  const std::lock_guard lock(g_mutex);
  return Live().erase(object) > 0;
}

}  // namespace npu

aclOpExecutor::~aclOpExecutor() {
  for (aclTensor* tensor : tensors) delete tensor;
}

// ---- Tensors.

ACL aclTensor* aclCreateTensor(const std::int64_t* sizes, std::uint64_t rank, int dtype,
                               const std::int64_t* strides, std::int64_t offset, int format,
                               const std::int64_t* storage, std::uint64_t storage_rank,
                               void* data) {
  std::vector<std::int64_t> steps(rank);
  std::int64_t step = 1;
  for (std::size_t i = rank; i-- > 0; step *= sizes[i]) steps[i] = strides ? strides[i] : step;
  return Made<aclTensor>({{sizes, sizes + rank},
                          std::move(steps),
                          {storage, storage + (storage ? storage_rank : 0)},
                          offset,
                          dtype,
                          format,
                          data});
}
ACL int aclInitTensor(aclTensor* tensor, const std::int64_t* sizes, std::uint64_t rank, int dtype,
                      const std::int64_t* strides, std::int64_t offset, int format,
                      const std::int64_t* storage, std::uint64_t storage_rank, void* data) {
  if (!IsLive(tensor)) return Refuse("aclInitTensor", "tensor");
  aclTensor* const fresh =
      aclCreateTensor(sizes, rank, dtype, strides, offset, format, storage, storage_rank, data);
  *tensor = *fresh;
  return Destroy("aclInitTensor", "tensor", fresh);
}
ACL int aclDestroyTensor(const aclTensor* tensor) {
  return Destroy("aclDestroyTensor", "tensor", tensor);
}
ACL int aclGetViewShape(const aclTensor* tensor, std::int64_t** sizes, std::uint64_t* rank) {
  if (!IsLive(tensor)) return Refuse("aclGetViewShape", "tensor");
  return Copy(tensor->sizes, sizes, rank);
}
ACL int aclGetViewStrides(const aclTensor* tensor, std::int64_t** strides, std::uint64_t* rank) {
  if (!IsLive(tensor)) return Refuse("aclGetViewStrides", "tensor");
  return Copy(tensor->strides, strides, rank);
}
ACL int aclGetStorageShape(const aclTensor* tensor, std::int64_t** sizes, std::uint64_t* rank) {
  if (!IsLive(tensor)) return Refuse("aclGetStorageShape", "tensor");
  return Copy(tensor->storage_sizes, sizes, rank);
}
ACL int aclGetViewOffset(const aclTensor* tensor, std::int64_t* offset) {
  if (!IsLive(tensor)) return Refuse("aclGetViewOffset", "tensor");
  *offset = tensor->offset;
  return kOk;
}
ACL int aclGetFormat(const aclTensor* tensor, int* format) {
  if (!IsLive(tensor)) return Refuse("aclGetFormat", "tensor");
  *format = tensor->format;
  return kOk;
}
ACL int aclGetDataType(const aclTensor* tensor, int* dtype) {
  if (!IsLive(tensor)) return Refuse("aclGetDataType", "tensor");
  *dtype = tensor->dtype;
  return kOk;
}
ACL int aclGetRawTensorAddr(const aclTensor* tensor, void** data) {
  if (!IsLive(tensor)) return Refuse("aclGetRawTensorAddr", "tensor");
  *data = tensor->data;
  return kOk;
}
ACL int aclSetRawTensorAddr(aclTensor* tensor, void* data) {
  if (!IsLive(tensor)) return Refuse("aclSetRawTensorAddr", "tensor");
  tensor->data = data;
  return kOk;
}

// ---- Numbers and lists of numbers.

ACL aclScalar* aclCreateScalar(void* value, int dtype) {
  const Type* const type = FindType(dtype);
  if (!type) {
    Fail(kInvalid, "aclCreateScalar: the virtual NPU knows no type " + std::to_string(dtype) + ".");
    return nullptr;
  }
  aclScalar scalar = {{}, dtype};
  std::memcpy(scalar.bytes, value, type->bytes);
  return Made(scalar);
}
ACL int aclDestroyScalar(const aclScalar* scalar) {
  return Destroy("aclDestroyScalar", "number", scalar);
}
ACL aclIntArray* aclCreateIntArray(const std::int64_t* values, std::uint64_t count) {
  return Made<aclIntArray>({{values, values + count}});
}
ACL int aclDestroyIntArray(const aclIntArray* list) {
  return Destroy("aclDestroyIntArray", "list of integers", list);
}
ACL int aclGetIntArraySize(const aclIntArray* list, std::uint64_t* size) {
  return Size("aclGetIntArraySize", "list of integers", list, size);
}
ACL aclFloatArray* aclCreateFloatArray(const float* values, std::uint64_t count) {
  return Made<aclFloatArray>({{values, values + count}});
}
ACL int aclDestroyFloatArray(const aclFloatArray* list) {
  return Destroy("aclDestroyFloatArray", "list of numbers", list);
}
ACL int aclGetFloatArraySize(const aclFloatArray* list, std::uint64_t* size) {
  return Size("aclGetFloatArraySize", "list of numbers", list, size);
}
ACL aclBoolArray* aclCreateBoolArray(const bool* values, std::uint64_t count) {
  return Made<aclBoolArray>({{values, values + count}});
}
ACL int aclDestroyBoolArray(const aclBoolArray* list) {
  return Destroy("aclDestroyBoolArray", "list of truth values", list);
}
ACL int aclGetBoolArraySize(const aclBoolArray* list, std::uint64_t* size) {
  return Size("aclGetBoolArraySize", "list of truth values", list, size);
}

// ---- Lists of what was made. They own it from then on.

ACL aclTensorList* aclCreateTensorList(const aclTensor* const* values, std::uint64_t count) {
  aclTensorList list;
  for (std::size_t i = 0; i < count; ++i) list.values.push_back(const_cast<aclTensor*>(values[i]));
  return Made(std::move(list));
}
ACL int aclDestroyTensorList(const aclTensorList* list) {
  if (!list) return kOk;
  if (!IsLive(list)) return Refuse("aclDestroyTensorList", "list of tensors");
  for (const aclTensor* tensor : list->values) {
    if (const int code = aclDestroyTensor(tensor)) return code;
  }
  return Destroy("aclDestroyTensorList", "list of tensors", list);
}
ACL int aclGetTensorListSize(const aclTensorList* list, std::uint64_t* size) {
  return Size("aclGetTensorListSize", "list of tensors", list, size);
}
ACL aclScalarList* aclCreateScalarList(const aclScalar* const* values, std::uint64_t count) {
  aclScalarList list;
  for (std::size_t i = 0; i < count; ++i) list.values.push_back(const_cast<aclScalar*>(values[i]));
  return Made(std::move(list));
}
ACL int aclDestroyScalarList(const aclScalarList* list) {
  if (!list) return kOk;
  if (!IsLive(list)) return Refuse("aclDestroyScalarList", "list of numbers");
  for (const aclScalar* scalar : list->values) {
    if (const int code = aclDestroyScalar(scalar)) return code;
  }
  return Destroy("aclDestroyScalarList", "list of numbers", list);
}
ACL int aclGetScalarListSize(const aclScalarList* list, std::uint64_t* size) {
  return Size("aclGetScalarListSize", "list of numbers", list, size);
}

// ---- Executors.

ACL int aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (!IsLive(executor)) return Refuse("aclSetAclOpExecutorRepeatable", "executor");
  executor->is_repeatable = true;
  return kOk;
}
ACL int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return Destroy("aclDestroyAclOpExecutor", "executor", executor);
}
// For another run of a repeatable executor: the memory of the argument that is a tensor, counted
// among those.
ACL int aclSetTensorAddr(aclOpExecutor* executor, std::size_t index, aclTensor*, void* data) {
  if (!IsLive(executor)) return Refuse("aclSetTensorAddr", "executor");
  if (index >= executor->tensors.size()) {
    return Fail(kInvalid, "aclSetTensorAddr: " + executor->name + " has " +
                              std::to_string(executor->tensors.size()) + " tensors, but " +
                              std::to_string(index) + " is asked for.");
  }
  executor->tensors[index]->data = data;
  return kOk;
}

ACL int aclnnInit(const char*) { return kOk; }
ACL int aclnnFinalize() { return kOk; }
