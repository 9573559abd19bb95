// SPDX-License-Identifier: Apache-2.0
// What a tiling function is called with. Everything is made of an anyop_ascend_tiling_call
// (kernel_table.h) inside the library of the function, so that no class crosses a library.
#pragma once
#include <cstring>
#include <deque>

#include "anyop_ascend/core.h"
#include "anyop_ascend/host/types.h"
#include "anyop_ascend/kernel_table.h"

namespace fe {
class PlatFormInfos {};
}  // namespace fe

namespace gert {

class CompileTimeTensorDesc {
 public:
  explicit CompileTimeTensorDesc(ge::DataType type) : type_(type) {}
  ge::DataType GetDataType() const { return type_; }
  ge::Format GetStorageFormat() const { return ge::FORMAT_ND; }
  ge::Format GetOriginFormat() const { return ge::FORMAT_ND; }

 private:
  ge::DataType type_;
};

class Tensor {
 public:
  Tensor(const StorageShape& shape, ge::DataType type, const void* data)
      : shape_(shape), type_(type), data_(data) {}
  ge::DataType GetDataType() const { return type_; }
  const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
  const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
  const StorageShape& GetShape() const { return shape_; }
  std::int64_t GetShapeSize() const { return GetStorageShape().GetShapeSize(); }
  std::size_t GetSize() const {
    return static_cast<std::size_t>(GetShapeSize() * ge::GetSizeByDataType(type_));
  }
  // Null where the values are not known when the operator is tiled.
  template <class T>
  const T* GetData() const {
    return static_cast<const T*>(data_);
  }
  const void* GetAddr() const { return data_; }

 private:
  StorageShape shape_;
  ge::DataType type_;
  const void* data_;
};

template <class T>
class TypedContinuousVector {
 public:
  TypedContinuousVector() = default;
  TypedContinuousVector(const T* data, std::size_t count) : data_(data), count_(count) {}
  std::size_t GetSize() const { return count_; }
  const T* GetData() const { return data_; }

 private:
  const T* data_ = nullptr;
  std::size_t count_ = 0;
};

// Attributes by the order of the operator's definition; null where there is none.
class RuntimeAttrs {
 public:
  void Append(const anyop_ascend_attribute& given) {
    values_.push_back({given, given.integer != 0, {}, {}});
    Value& value = values_.back();
    value.integers = {given.integers, given.kind == 'I' ? given.count : 0};
    value.numbers = {given.numbers, given.kind == 'F' ? given.count : 0};
  }
  std::size_t GetAttrNum() const { return values_.size(); }
  template <class T>
  const T* GetAttrPointer(std::size_t i) const {
    return static_cast<const T*>(Pointer(i));
  }
  const bool* GetBool(std::size_t i) const { return Is(i, 'b') ? &values_[i].truth : nullptr; }
  const std::int64_t* GetInt(std::size_t i) const {
    return Is(i, 'i') ? &values_[i].given.integer : nullptr;
  }
  const float* GetFloat(std::size_t i) const {
    return Is(i, 'f') ? &values_[i].given.number : nullptr;
  }
  const char* GetStr(std::size_t i) const { return Is(i, 's') ? values_[i].given.text : nullptr; }
  const TypedContinuousVector<std::int64_t>* GetListInt(std::size_t i) const {
    return Is(i, 'I') ? &values_[i].integers : nullptr;
  }
  const TypedContinuousVector<float>* GetListFloat(std::size_t i) const {
    return Is(i, 'F') ? &values_[i].numbers : nullptr;
  }

 private:
  struct Value {
    anyop_ascend_attribute given;
    bool truth;
    TypedContinuousVector<std::int64_t> integers;
    TypedContinuousVector<float> numbers;
  };

  bool Is(std::size_t i, char kind) const {
    return i < values_.size() && values_[i].given.kind == kind;
  }
  const void* Pointer(std::size_t i) const {
    if (i >= values_.size()) return nullptr;
    switch (values_[i].given.kind) {
      case 'b':
        return &values_[i].truth;
      case 'i':
        return &values_[i].given.integer;
      case 'f':
        return &values_[i].given.number;
      case 's':
        return values_[i].given.text;
      case 'I':
        return &values_[i].integers;
      case 'F':
        return &values_[i].numbers;
      default:
        return nullptr;
    }
  }

  std::deque<Value> values_;  // they do not move
};

class TilingData {
 public:
  TilingData(void* data, std::size_t capacity) : data_(data), capacity_(capacity) {}
  void* GetData() { return data_; }
  const void* GetData() const { return data_; }
  std::size_t GetCapacity() const { return capacity_; }
  std::size_t GetDataSize() const { return bytes_; }
  void SetDataSize(std::size_t bytes) { bytes_ = bytes; }
  template <class T>
  ge::graphStatus Append(const T& value) {
    if (bytes_ + sizeof(T) > capacity_) return ge::GRAPH_FAILED;
    std::memcpy(static_cast<unsigned char*>(data_) + bytes_, &value, sizeof(T));
    bytes_ += sizeof(T);
    return ge::GRAPH_SUCCESS;
  }

 private:
  void* data_;
  std::size_t capacity_;
  std::size_t bytes_ = 0;
};

// Which tensors of a call are those of an argument: one, or several of a list.
class AnchorInstanceInfo {
 public:
  AnchorInstanceInfo(std::size_t start, std::size_t count) : start_(start), count_(count) {}
  std::size_t GetInstanceStart() const { return start_; }
  std::size_t GetInstanceNum() const { return count_; }

 private:
  std::size_t start_;
  std::size_t count_;
};

// Tensors of a call, and what is common to all contexts. Some functions count tensors, others
// arguments of the operator.
class TensorsOfCall {
 public:
  TensorsOfCall(const char* op, const anyop_ascend_tensor* tensors, std::size_t count) : op_(op) {
    for (std::size_t i = 0, begin = 0; i < count; ++i) {
      if (!tensors[i].more) {
        arguments_.emplace_back(begin, tensors[i].dtype < 0 ? 0 : i + 1 - begin);
        begin = i + 1;
      }
      Shape shape;
      for (std::uint32_t k = 0; k < tensors[i].rank; ++k) shape.AppendDim(tensors[i].dims[k]);
      const auto type = static_cast<ge::DataType>(tensors[i].dtype);
      all_.push_back({tensors[i].dtype >= 0, StorageShape(shape), CompileTimeTensorDesc(type),
                      Tensor(StorageShape(shape), type, tensors[i].data)});
    }
  }
  std::size_t count() const { return all_.size(); }
  const StorageShape* shape(std::size_t i) const { return Has(i) ? &all_[i].shape : nullptr; }
  const CompileTimeTensorDesc* desc(std::size_t i) const {
    return Has(i) ? &all_[i].desc : nullptr;
  }
  const Tensor* tensor(std::size_t i) const { return Has(i) ? &all_[i].tensor : nullptr; }
  const char* op() const { return op_; }
  std::size_t arguments() const { return arguments_.size(); }
  const AnchorInstanceInfo* argument(std::size_t i) const {
    return i < arguments_.size() ? &arguments_[i] : nullptr;
  }
  // The number of tensor k of argument i; of one that is not there, a number beyond all tensors.
  std::size_t Of(std::size_t i, std::size_t k = 0) const {
    const AnchorInstanceInfo* info = argument(i);
    return info && k < info->GetInstanceNum() ? info->GetInstanceStart() + k : count();
  }

 private:
  struct One {
    bool is_given;
    StorageShape shape;
    CompileTimeTensorDesc desc;
    Tensor tensor;
  };
  bool Has(std::size_t i) const { return i < all_.size() && all_[i].is_given; }

  const char* op_;
  std::deque<One> all_;
  std::deque<AnchorInstanceInfo> arguments_;
};

class ComputeNodeInfo {
 public:
  explicit ComputeNodeInfo(const TensorsOfCall& inputs, const TensorsOfCall& outputs)
      : inputs_(inputs), outputs_(outputs) {}
  const char* GetNodeName() const { return inputs_.op(); }
  const char* GetNodeType() const { return inputs_.op(); }
  std::size_t GetIrInputsNum() const { return inputs_.arguments(); }
  std::size_t GetIrOutputsNum() const { return outputs_.arguments(); }
  std::size_t GetInputsNum() const { return inputs_.count(); }
  std::size_t GetOutputsNum() const { return outputs_.count(); }
  const AnchorInstanceInfo* GetInputInstanceInfo(std::size_t i) const {
    return inputs_.argument(i);
  }
  const AnchorInstanceInfo* GetOutputInstanceInfo(std::size_t i) const {
    return outputs_.argument(i);
  }
  const CompileTimeTensorDesc* GetInputTdInfo(std::size_t i) const { return inputs_.desc(i); }
  const CompileTimeTensorDesc* GetOutputTdInfo(std::size_t i) const { return outputs_.desc(i); }

 private:
  const TensorsOfCall& inputs_;
  const TensorsOfCall& outputs_;
};

class TilingContext {
 public:
  static constexpr std::size_t kMaxWorkspaces = 16;

  TilingContext(const char* op, const anyop_ascend_tiling_call& call, RuntimeAttrs attributes,
                void* compile_info)
      : inputs_(op, call.input, call.inputs),
        outputs_(op, call.output, call.outputs),
        attributes_(std::move(attributes)),
        data_(call.data, call.capacity),
        compile_info_(compile_info) {}
  TilingContext(const TilingContext&) = delete;
  TilingContext& operator=(const TilingContext&) = delete;

  const char* GetNodeName() const { return inputs_.op(); }
  const char* GetNodeType() const { return inputs_.op(); }
  std::size_t GetComputeNodeInputNum() const { return inputs_.count(); }
  std::size_t GetComputeNodeOutputNum() const { return outputs_.count(); }
  const StorageShape* GetInputShape(std::size_t i) const { return inputs_.shape(i); }
  const StorageShape* GetOptionalInputShape(std::size_t i) const {
    return inputs_.shape(inputs_.Of(i));
  }
  const StorageShape* GetRequiredInputShape(std::size_t i) const {
    return inputs_.shape(inputs_.Of(i));
  }
  const CompileTimeTensorDesc* GetInputDesc(std::size_t i) const { return inputs_.desc(i); }
  const CompileTimeTensorDesc* GetOptionalInputDesc(std::size_t i) const {
    return inputs_.desc(inputs_.Of(i));
  }
  const CompileTimeTensorDesc* GetRequiredInputDesc(std::size_t i) const {
    return inputs_.desc(inputs_.Of(i));
  }
  const Tensor* GetInputTensor(std::size_t i) const { return inputs_.tensor(i); }
  const Tensor* GetOptionalInputTensor(std::size_t i) const {
    return inputs_.tensor(inputs_.Of(i));
  }
  const Tensor* GetRequiredInputTensor(std::size_t i) const {
    return inputs_.tensor(inputs_.Of(i));
  }
  const StorageShape* GetDynamicInputShape(std::size_t i, std::size_t k) const {
    return inputs_.shape(inputs_.Of(i, k));
  }
  const CompileTimeTensorDesc* GetDynamicInputDesc(std::size_t i, std::size_t k) const {
    return inputs_.desc(inputs_.Of(i, k));
  }
  const Tensor* GetDynamicInputTensor(std::size_t i, std::size_t k) const {
    return inputs_.tensor(inputs_.Of(i, k));
  }
  const AnchorInstanceInfo* GetIrInputInstanceInfo(std::size_t i) const {
    return inputs_.argument(i);
  }
  const AnchorInstanceInfo* GetIrOutputInstanceInfo(std::size_t i) const {
    return outputs_.argument(i);
  }
  const ComputeNodeInfo* GetComputeNodeInfo() const { return &node_; }
  const StorageShape* GetOutputShape(std::size_t i) const { return outputs_.shape(i); }
  const CompileTimeTensorDesc* GetOutputDesc(std::size_t i) const { return outputs_.desc(i); }
  const RuntimeAttrs* GetAttrs() const { return &attributes_; }
  fe::PlatFormInfos* GetPlatformInfo() const { return &platform_; }
  int GetDeterministic() const { return 0; }
  const void* GetCompileInfo() const { return compile_info_; }
  template <class T>
  const T* GetCompileInfo() const {
    return static_cast<const T*>(compile_info_);
  }

  TilingData* GetRawTilingData() { return &data_; }
  // The tiling data as a struct in place, which then are as large as it.
  template <class T>
  T* GetTilingData() {
    if (sizeof(T) > data_.GetCapacity()) return nullptr;
    data_.SetDataSize(sizeof(T));
    return static_cast<T*>(data_.GetData());
  }
  std::size_t* GetWorkspaceSizes(std::size_t count) {
    if (count > kMaxWorkspaces) return nullptr;
    workspaces_ = count;
    return workspace_;
  }
  std::size_t GetWorkspaceNum() const { return workspaces_; }
  ge::graphStatus SetBlockDim(std::uint32_t blocks) {
    block_dim_ = blocks;
    return ge::GRAPH_SUCCESS;
  }
  std::uint32_t GetBlockDim() const { return block_dim_; }
  ge::graphStatus SetTilingKey(std::uint64_t key) {
    key_ = key;
    return ge::GRAPH_SUCCESS;
  }
  std::uint64_t GetTilingKey() const { return key_; }
  ge::graphStatus SetNeedAtomic(bool) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetScheduleMode(std::uint32_t) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetTilingCond(std::int32_t) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetLocalMemorySize(std::uint32_t) { return ge::GRAPH_SUCCESS; }

  void Answer(anyop_ascend_tiling_call& call) const {
    call.data_bytes = data_.GetDataSize();
    call.tiling_key = key_;
    call.block_dim = block_dim_;
    call.workspace_bytes = 0;
    for (std::size_t i = 0; i < workspaces_; ++i) call.workspace_bytes += workspace_[i];
  }

 private:
  TensorsOfCall inputs_;
  TensorsOfCall outputs_;
  ComputeNodeInfo node_{inputs_, outputs_};
  RuntimeAttrs attributes_;
  TilingData data_;
  void* compile_info_;
  mutable fe::PlatFormInfos platform_;
  std::size_t workspace_[kMaxWorkspaces] = {};
  std::size_t workspaces_ = 0;
  std::uint32_t block_dim_ = 0;
  std::uint64_t key_ = 0;
};

// Fills what GetCompileInfo gives later.
class TilingParseContext {
 public:
  TilingParseContext(const char* op, void* info) : op_(op), info_(info) {}
  const char* GetNodeName() const { return op_; }
  const char* GetNodeType() const { return op_; }
  template <class T>
  T* GetCompiledInfo() const {
    return static_cast<T*>(info_);
  }
  fe::PlatFormInfos* GetPlatformInfo() const { return &platform_; }

 private:
  const char* op_;
  void* info_;
  mutable fe::PlatFormInfos platform_;
};

// Functions that infer shapes and types stand in the same files. They compile, and nothing calls
// them.
class InferShapeContext {
 public:
  const char* GetNodeName() const { return ""; }
  const Shape* GetInputShape(std::size_t) const { return nullptr; }
  const Shape* GetOptionalInputShape(std::size_t) const { return nullptr; }
  const Tensor* GetInputTensor(std::size_t) const { return nullptr; }
  const Tensor* GetOptionalInputTensor(std::size_t) const { return nullptr; }
  const CompileTimeTensorDesc* GetInputDesc(std::size_t) const { return nullptr; }
  Shape* GetOutputShape(std::size_t) { return nullptr; }
  const RuntimeAttrs* GetAttrs() const { return nullptr; }
};
class InferDataTypeContext {
 public:
  const char* GetNodeName() const { return ""; }
  ge::DataType GetInputDataType(std::size_t) const { return ge::DT_UNDEFINED; }
  ge::DataType GetOptionalInputDataType(std::size_t) const { return ge::DT_UNDEFINED; }
  ge::graphStatus SetOutputDataType(std::size_t, ge::DataType) { return ge::GRAPH_SUCCESS; }
  const RuntimeAttrs* GetAttrs() const { return nullptr; }
};
class InferShapeRangeContext {};

}  // namespace gert
