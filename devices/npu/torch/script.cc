// SPDX-License-Identifier: Apache-2.0
#include "script.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "element_types.h"

namespace virtual_torch::aclnn {
namespace {

using namespace torch::jit;

struct Types {
  const char* given;
  const char* absent;
};
Types TypesOf(npu::Kind kind) {
  switch (kind) {
    case npu::Kind::kTensor:
    case npu::Kind::kRef:
      return {"Tensor", "Optional[Tensor]"};
    case npu::Kind::kTensors:
    case npu::Kind::kRefs:
      return {"List[Tensor]", "Optional[List[Tensor]]"};
    case npu::Kind::kScalar:
      return {"number", "Optional[number]"};
    case npu::Kind::kScalars:
    case npu::Kind::kFloats:
      return {"List[float]", "Optional[List[float]]"};
    case npu::Kind::kInts:
      return {"List[int]", "Optional[List[int]]"};
    case npu::Kind::kBools:
      return {"List[bool]", "Optional[List[bool]]"};
    case npu::Kind::kInt:
    case npu::Kind::kDtype:
      return {"int", "int"};
    case npu::Kind::kBool:
      return {"bool", "bool"};
    case npu::Kind::kFloat:
      return {"float", "float"};
    case npu::Kind::kText:
      return {"str", "Optional[str]"};
    default:  // an output is no argument
      return {nullptr, nullptr};
  }
}

std::string SourceOf(const npu::Operator& op) {
  std::string source = std::string("def ") + op.name + "(";
  for (const npu::Parameter& parameter : op.parameters) {
    const Types types = TypesOf(parameter.kind);
    if (!types.given && parameter.is_optional) {
      source += std::string("has_") + parameter.name + ": bool, ";
    }
    if (!types.given) continue;
    source += std::string(parameter.name) + ": ";
    source += std::string(parameter.is_optional ? types.absent : types.given) + ", ";
  }
  return source + "):\n" + op.script;
}

std::optional<at::ScalarType> TypeOfScripts(std::string_view name) {
  if (name == "boolean") name = "bool";  // to TorchScript that is a function
  const auto type = std::ranges::find(npu::kTypes, name, &npu::Type::name);
  if (type == npu::kTypes.end() || !*type->torch) return std::nullopt;
  return TypeNamed(type->torch);
}

// What names mean: torch's operators, anyop's, torch's types of elements, and shared functions.
struct Names final : Resolver {
  explicit Names(CompilationUnit& unit) : unit(unit) {}

  std::shared_ptr<SugaredValue> resolveValue(const std::string& name, GraphFunction& function,
                                             const SourceRange& at) override {
    if (name == "torch") return std::make_shared<BuiltinModule>("aten");
    if (name == "anyop" || name == "anyop_npu") return std::make_shared<BuiltinModule>(name);
    if (const std::optional<at::ScalarType> type = TypeOfScripts(name)) {
      return std::make_shared<SimpleValue>(
          function.graph()->insertConstant(std::int64_t(*type), at));
    }
    if (Function* const found = unit.find_function(c10::QualifiedName(name))) {
      return std::make_shared<FunctionValue>(found);
    }
    return nativeResolver()->resolveValue(name, function, at);
  }
  CompilationUnit& unit;
};

}  // namespace

Function& ScriptOf(const npu::Operator& op, const char* shared) {
  static std::mutex mutex;
  static auto& unit = *new CompilationUnit;  // for the process's life
  static const auto names = std::make_shared<Names>(unit);
  static bool is_begun = false;
  const std::lock_guard lock(mutex);
  if (!std::exchange(is_begun, true)) unit.define(std::nullopt, shared, names, nullptr);
  if (Function* const found = unit.find_function(c10::QualifiedName(op.name))) return *found;
  unit.define(std::nullopt, SourceOf(op), names, nullptr);
  return unit.get_function(c10::QualifiedName(op.name));
}

}  // namespace virtual_torch::aclnn
