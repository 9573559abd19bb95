// SPDX-License-Identifier: Apache-2.0
// How an op_host file names its tiling functions: definitions of operators (OP_ADD) and
// registrations (IMPL_OP_OPTILING). Loading the library tells the runtime of them.
#pragma once
#include <memory>

#include "anyop_ascend/host/definition.h"

namespace anyop_ascend {

// A tiling function of an operator, as the runtime keeps it.
class TilingFunction {
 public:
  virtual ~TilingFunction() = default;
  virtual const char* definition() const = 0;                  // JSON; see anyop_ascend_tilings
  virtual int Call(anyop_ascend_tiling_call& call) const = 0;  // what the function gives
};
// Functions live as long as the process. A later one of the same operator takes the place.
ANYOP_ASCEND_API void RegisterTiling(const char* op, const TilingFunction* function);
ANYOP_ASCEND_API int FailTiling(const char* op, const char* text);  // 1, with the text as the error

namespace host {

using Tiling = ge::graphStatus (*)(gert::TilingContext*);
using Parse = ge::graphStatus (*)(gert::TilingParseContext*);

// The attributes of a call in the order of the definition: by name, else in turn; what is not given
// has its default. False with a text where a name is unknown or a value is missing.
inline bool Order(const Definition& known, const anyop_ascend_tiling_call& call,
                  gert::RuntimeAttrs& ordered, std::string& why) {
  std::vector<anyop_ascend_attribute> values;
  std::vector<bool> given(known.attributes.size());
  for (const Attribute& a : known.attributes) values.push_back(a.value());
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < call.attributes; ++i) {
    const anyop_ascend_attribute& one = call.attribute[i];
    std::size_t at = next;
    if (one.name && !known.attributes.empty()) {
      at = 0;
      while (at < values.size() && known.attributes[at].name != one.name) ++at;
      if (at == values.size()) {
        why = std::string("there is no attribute '") + one.name + "'";
        return false;
      }
    }
    if (at >= values.size()) values.resize(at + 1);
    if (at < given.size()) given[at] = true;
    values[at] = one;
    next = at + 1;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] || known.attributes[i].has_default) continue;
    why = "the attribute '" + known.attributes[i].name + "' is not given and has no default";
    return false;
  }
  for (const anyop_ascend_attribute& value : values) ordered.Append(value);
  return true;
}

class Function final : public TilingFunction {
 public:
  Function(std::string op, Tiling tiling, Definition known)
      : op_(std::move(op)), tiling_(tiling), known_(std::move(known)), json_(known_.Json()) {}
  void SetParse(Parse parse, std::shared_ptr<void> info) {
    parse_ = parse;
    info_ = std::move(info);
  }
  const char* definition() const override { return json_.c_str(); }
  int Call(anyop_ascend_tiling_call& call) const override {
    gert::RuntimeAttrs attributes;
    std::string why;
    if (!HasInputs(known_, call, why) || !HasLists(known_, call, why) ||
        !HasTypes(known_, call, why))
      return FailTiling(op_.c_str(), why.c_str());
    if (!Order(known_, call, attributes, why)) return FailTiling(op_.c_str(), why.c_str());
    if (parse_) {
      gert::TilingParseContext context(op_.c_str(), info_.get());
      call.status = parse_(&context);
      if (call.status) return FailTiling(op_.c_str(), "the function of TilingParse has failed");
    }
    gert::TilingContext context(op_.c_str(), call, std::move(attributes), info_.get());
    call.status = tiling_(&context);
    if (call.status) return FailTiling(op_.c_str(), "the tiling function has failed");
    context.Answer(call);
    return 0;
  }

 private:
  std::string op_;
  Tiling tiling_;
  Parse parse_ = nullptr;
  std::shared_ptr<void> info_;
  Definition known_;
  std::string json_;
};

// IMPL_OP_OPTILING(Name).Tiling(function).TilingParse<Info>(function).
class Implementation {
 public:
  explicit Implementation(const char* op) : op_(op) {}
  Implementation& Tiling(host::Tiling tiling, std::size_t = 2048) {
    function_ = new Function(op_, tiling, {});  // lives as long as the process
    function_->SetParse(parse_, info_);
    RegisterTiling(op_, function_);
    return *this;
  }
  template <class Info>
  Implementation& TilingParse(Parse parse) {
    parse_ = parse;
    info_ = std::make_shared<Info>();
    if (function_) function_->SetParse(parse_, info_);
    return *this;
  }
  Implementation& InferShape(ge::graphStatus (*)(gert::InferShapeContext*)) { return *this; }
  Implementation& InferDataType(ge::graphStatus (*)(gert::InferDataTypeContext*)) { return *this; }
  Implementation& InputsDataDependency(std::initializer_list<std::int32_t>) { return *this; }
  Implementation& TilingInputsDataDependency(std::initializer_list<std::int32_t>) { return *this; }

 private:
  const char* op_;
  Function* function_ = nullptr;
  Parse parse_ = nullptr;
  std::shared_ptr<void> info_;
};

}  // namespace host
}  // namespace anyop_ascend

#define IMPL_OP(op)                                                                          \
  [[maybe_unused]] static ::anyop_ascend::host::Implementation anyop_ascend_tiling_of_##op = \
      ::anyop_ascend::host::Implementation(#op)
#define IMPL_OP_OPTILING(op) IMPL_OP(op)
#define IMPL_OP_INFERSHAPE(op)                                                                  \
  [[maybe_unused]] static ::anyop_ascend::host::Implementation anyop_ascend_inferring_of_##op = \
      ::anyop_ascend::host::Implementation(#op)

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };

// What only the vendor's engine needs is taken and not kept.
class OpParamDef {
 public:
  explicit OpParamDef(anyop_ascend::host::Parameter& parameter) : parameter_(parameter) {}
  OpParamDef& ParamType(Option option) {
    parameter_.is_required = option == REQUIRED;
    parameter_.is_list = option == DYNAMIC;
    return *this;
  }
  OpParamDef& DataType(const std::vector<ge::DataType>& types) {
    parameter_.types = types;
    return *this;
  }
  OpParamDef& DataTypeList(const std::vector<ge::DataType>& types) {
    parameter_.any = types;
    return *this;
  }
  OpParamDef& Format(const std::vector<ge::Format>&) { return *this; }
  OpParamDef& FormatList(const std::vector<ge::Format>&) { return *this; }
  OpParamDef& UnknownShapeFormat(const std::vector<ge::Format>&) { return *this; }
  OpParamDef& ValueDepend(Option) { return *this; }
  OpParamDef& IgnoreContiguous() { return *this; }
  OpParamDef& AutoContiguous() { return *this; }
  OpParamDef& Scalar() { return *this; }
  OpParamDef& ScalarList() { return *this; }
  OpParamDef& InitValue(std::uint64_t) { return *this; }

 private:
  anyop_ascend::host::Parameter& parameter_;
};
class OpAttrDef {
 public:
  explicit OpAttrDef(anyop_ascend::host::Attribute& attribute) : attribute_(attribute) {}
  OpAttrDef& AttrType(Option option) {
    is_optional_ = option == OPTIONAL;
    attribute_.has_default = is_optional_;
    return *this;
  }
  OpAttrDef& Bool(bool value = false) { return Kind('b', value, 0); }
  OpAttrDef& Int(std::int64_t value = 0) { return Kind('i', value, 0); }
  OpAttrDef& Float(float value = 0) { return Kind('f', 0, value); }
  OpAttrDef& String(const char* value = "") {
    attribute_.text = value;
    return Kind('s', 0, 0);
  }
  OpAttrDef& ListInt(const std::vector<std::int64_t>& values = {}) {
    attribute_.integers = values;
    return Kind('I', 0, 0);
  }
  OpAttrDef& ListFloat(const std::vector<float>& values = {}) {
    attribute_.numbers = values;
    return Kind('F', 0, 0);
  }

 private:
  OpAttrDef& Kind(char kind, std::int64_t integer, float number) {
    attribute_.kind = kind;
    attribute_.integer = integer;
    attribute_.number = number;
    return *this;
  }

  anyop_ascend::host::Attribute& attribute_;
  bool is_optional_ = false;
};
class OpAICoreConfig {
 public:
  template <class... A>
  OpAICoreConfig& ExtendCfgInfo(const A&...) {
    return *this;
  }
  OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
};
class OpAICoreDef {
 public:
  OpAICoreDef& SetTiling(anyop_ascend::host::Tiling tiling) {
    tiling_ = tiling;
    return *this;
  }
  template <class... A>
  OpAICoreDef& AddConfig(const char*, const A&...) {
    return *this;
  }
  anyop_ascend::host::Tiling tiling() const { return tiling_; }

 private:
  anyop_ascend::host::Tiling tiling_ = nullptr;
};

class OpDef {
 public:
  explicit OpDef(const char* name) : name_(name) {}
  OpParamDef& Input(const char* name) { return Parameter(known_.inputs, name); }
  OpParamDef& Output(const char* name) { return Parameter(known_.outputs, name); }
  OpAttrDef& Attr(const char* name) {
    known_.attributes.emplace_back();
    known_.attributes.back().name = name;
    attributes_.emplace_back(known_.attributes.back());
    return attributes_.back();
  }
  OpDef& SetInferShape(ge::graphStatus (*)(gert::InferShapeContext*)) { return *this; }
  OpDef& SetInferShapeRange(ge::graphStatus (*)(gert::InferShapeRangeContext*)) { return *this; }
  OpDef& SetInferDataType(ge::graphStatus (*)(gert::InferDataTypeContext*)) { return *this; }
  OpAICoreDef& AICore() { return core_; }
  void Register() const {
    if (!core_.tiling()) return;
    anyop_ascend::RegisterTiling(name_,
                                 new anyop_ascend::host::Function(name_, core_.tiling(), known_));
  }

 private:
  OpParamDef& Parameter(std::deque<anyop_ascend::host::Parameter>& all, const char* name) {
    all.emplace_back();
    all.back().name = name;
    parameters_.emplace_back(all.back());
    return parameters_.back();
  }

  const char* name_;
  anyop_ascend::host::Definition known_;
  std::deque<OpAttrDef> attributes_;
  std::deque<OpParamDef> parameters_;
  OpAICoreDef core_;
};

}  // namespace ops

// Functions of the vendor's engine register the class; here its definition is made once.
#define OP_ADD(op) \
  [[maybe_unused]] static const bool anyop_ascend_definition_of_##op = (op(#op).Register(), true)
