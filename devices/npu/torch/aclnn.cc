// SPDX-License-Identifier: Apache-2.0
#include "aclnn.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <regex>
#include <utility>

#include "devices/virtual/torch/table.h"
#include "element_types.h"
#include "script.h"

namespace virtual_torch {
namespace aclnn {  // all files of this library are compiled as one
namespace {

using npu::Kind;

// ---- Types and numbers.

at::ScalarType MustType(const char* name, int dtype) {
  const npu::Type* const type = npu::FindType(dtype);
  TORCH_CHECK(type && *type->torch, name, " is of ", npu::NameOfType(dtype),
              ", which the virtual NPU does not compute with.");
  return TypeNamed(type->torch);
}

at::Scalar Number(const char* name, const aclScalar& scalar) {
  at::Tensor number = at::empty({}, at::dtype(MustType(name, scalar.dtype)));
  std::memcpy(number.data_ptr(), scalar.bytes, number.itemsize());
  return number.item();
}
// In scripts truth values of this kind are integers.
c10::IValue NumberValue(const char* name, const aclScalar& scalar) {
  const at::Scalar number = Number(name, scalar);
  return number.isBoolean() ? c10::IValue(std::int64_t(number.toBool())) : c10::IValue(number);
}

// ---- Tensors.

bool IsWritten(Kind kind) { return kind == Kind::kRef || kind == Kind::kRefs; }
bool IsOutput(Kind kind) {
  return kind == Kind::kOut || kind == Kind::kLateOut || kind == Kind::kOuts;
}
bool IsTensors(Kind kind) {
  return kind == Kind::kTensors || kind == Kind::kRefs || kind == Kind::kOuts;
}

struct Place {  // of a tensor: what it is without its memory
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset;
  at::ScalarType dtype;

  at::Tensor OnMeta() const {
    return at::empty_strided(sizes, strides, at::dtype(dtype).device(at::kMeta));
  }
  at::Tensor At(void* address) const {
    if (!address) return at::empty_strided(sizes, strides, at::dtype(dtype));
    char* const first = static_cast<char*>(address) + offset * std::int64_t(itemsize());
    return at::from_blob(first, sizes, strides, at::dtype(dtype));
  }
  std::size_t itemsize() const { return at::elementSize(dtype); }
  std::string Text() const {
    std::string text = std::string(c10::toString(dtype)) + "[";
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      text += (i ? ", " : "") + std::to_string(sizes[i]);
    }
    return text + "]";
  }
};

Place PlaceOf(const char* name, const aclTensor& tensor) {
  return {tensor.sizes, tensor.strides, tensor.offset, MustType(name, tensor.dtype)};
}

bool Hides(const std::string& what, const char* words) {
  return what.find(words) != std::string::npos;
}

// ---- A call.

class Scripted final : public npu::Planned {
 public:
  Scripted(const npu::Call& call, torch::jit::Function& function)
      : op_(call.op), function_(function), told_(call.told) {
    for (std::size_t i = 0; i < call.values.size(); ++i) AddArgument(i, call.values[i]);
  }

  // Runs the script without memory, so that what is wrong with shapes and types is told now.
  void Check() {
    std::vector<at::Tensor> tensors;
    for (const Place& place : places_) tensors.push_back(place.OnMeta());
    std::vector<at::Tensor> results;
    try {
      results = Results(tensors);
    } catch (const c10::NotImplementedError&) {
      return;  // some operator has no shapes before it has run
    } catch (const std::exception& error) {
      if (Hides(error.what(), "NotImplementedError") || Hides(error.what(), "meta tensors") ||
          Hides(error.what(), "'Meta' backend") || Hides(error.what(), "data-dependent")) {
        return;
      }
      throw;
    }
    EachOutput(results, [&](const Output& output, const at::Tensor& result) {
      const Place& place = places_[output.place];
      const bool is_empty = result.numel() == 0 && c10::multiply_integers(place.sizes) == 0;
      TORCH_CHECK(output.is_late || is_empty || result.sizes() == place.sizes, output.name, " is ",
                  place.Text(), ", but must be ", TextOf(result), ".");
      TORCH_CHECK(at::canCast(result.scalar_type(), place.dtype), output.name, " is ", place.Text(),
                  ", which cannot hold ", TextOf(result), ".");
    });
  }

  int Run(void* const* addresses, char* message, std::uint64_t message_bytes) override {
    const auto say = [&](const std::string& what) {
      std::snprintf(message, message_bytes, "%s: %s", op_.name, what.c_str());
      return ANYOP_INTERNAL;
    };
    try {
      std::vector<at::Tensor> tensors;
      for (std::size_t i = 0; i < places_.size(); ++i)
        tensors.push_back(places_[i].At(addresses[i]));
      const std::vector<at::Tensor> results = Results(tensors);
      EachOutput(results, [&](const Output& output, const at::Tensor& result) {
        Write(output, result, tensors[output.place]);
      });
      return ANYOP_OK;
    } catch (const std::exception& error) {
      return say(Explained(LastLine(error.what())));
    }
  }

  // Where no argument is named, it names all tensors that are read.
  std::string Explained(std::string text) const {
    if (Hides(text, "bad_alloc") || Hides(text, "division by zero")) {
      text = "there is no result of such sizes";
    }
    const auto is_named = [&](const npu::Parameter& parameter) {
      return std::regex_search(text, std::regex("\\b" + std::string(parameter.name) + "\\b"));
    };
    if (std::ranges::any_of(op_.parameters, is_named)) return text;
    if (text.ends_with('.')) text.pop_back();
    const char* before = ", with ";
    for (const auto& [name, place] : inputs_) {
      text += std::exchange(before, ", ") + (name + (" " + places_[place].Text()));
    }
    return text + ".";
  }

  // An error of a script begins with its source, and goes on with where it was raised.
  static std::string LastLine(std::string text) {
    constexpr std::string_view kBegins = "Error: ";
    for (const char* const end : {"\nException raised from", "\n\nAt:\n"}) {
      if (const auto at = text.find(end); at != std::string::npos) text.resize(at);
    }
    if (const auto at = text.rfind(kBegins); at != std::string::npos) {
      text = text.substr(at + kBegins.size());
    }
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

 private:
  struct Output {
    const char* name;
    std::size_t place;
    bool is_there, is_late;
    aclTensor* told;
  };
  struct Slot {  // of the stack: where tensors come in
    std::size_t argument, first, count;
    bool is_list;
  };

  static std::string TextOf(const at::Tensor& t) {
    return Place{t.sizes().vec(), {}, 0, t.scalar_type()}.Text();
  }

  void AddTensors(const npu::Parameter& parameter, const npu::Value& value) {
    const std::size_t first = places_.size();
    for (const aclTensor* tensor : value.tensors) {
      inputs_.emplace_back(parameter.name, places_.size());
      places_.push_back(PlaceOf(parameter.name, *tensor));
    }
    if (value.is_given) {
      slots_.push_back({stack_.size(), first, value.tensors.size(), IsTensors(parameter.kind)});
    }
    stack_.emplace_back();
  }

  void AddOutputs(std::size_t i, const npu::Value& value) {
    const npu::Parameter& parameter = op_.parameters[i];
    const bool is_late = parameter.kind == Kind::kLateOut;
    if (parameter.is_optional) stack_.emplace_back(value.is_given);
    if (!value.is_given) outputs_.push_back({parameter.name, 0, false, is_late, nullptr});
    for (const aclTensor* tensor : value.tensors) {
      outputs_.push_back({parameter.name, places_.size(), true, is_late, told_[i]});
      places_.push_back(PlaceOf(parameter.name, *tensor));
    }
  }

  void AddArgument(std::size_t i, const npu::Value& value) {
    const npu::Parameter& parameter = op_.parameters[i];
    if (IsOutput(parameter.kind)) return AddOutputs(i, value);
    if (parameter.kind == Kind::kTensor || IsTensors(parameter.kind) || IsWritten(parameter.kind)) {
      return AddTensors(parameter, value);
    }
    stack_.push_back(value.is_given ? Plain(parameter, value) : c10::IValue());
  }

  static c10::IValue Plain(const npu::Parameter& parameter, const npu::Value& value) {
    switch (parameter.kind) {
      case Kind::kScalar:
        return NumberValue(parameter.name, value.scalars[0]);
      case Kind::kScalars: {
        c10::List<double> list;
        for (const aclScalar& s : value.scalars)
          list.push_back(Number(parameter.name, s).toDouble());
        return list;
      }
      case Kind::kInts:
        return c10::List<std::int64_t>(value.ints);
      case Kind::kFloats:
        return c10::List<double>(value.floats);
      case Kind::kBools: {
        c10::List<bool> list;
        for (const std::int64_t b : value.ints) list.push_back(b != 0);
        return list;
      }
      case Kind::kBool:
        return value.ints[0] != 0;
      case Kind::kFloat:
        return value.floats[0];
      case Kind::kText:
        return value.text;
      case Kind::kDtype:
        return std::int64_t(MustType(parameter.name, int(value.ints[0])));
      default:
        return value.ints[0];
    }
  }

  std::vector<at::Tensor> Results(const std::vector<at::Tensor>& tensors) const {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below;
    const torch::jit::GraphOptimizerEnabledGuard plain(false);
    torch::jit::Stack stack = stack_;
    for (const Slot& slot : slots_) {
      if (!slot.is_list) {
        stack[slot.argument] = tensors[slot.first];
        continue;
      }
      c10::List<at::Tensor> list;
      for (std::size_t i = 0; i < slot.count; ++i) list.push_back(tensors[slot.first + i]);
      stack[slot.argument] = std::move(list);
    }
    function_.run(stack);
    std::vector<at::Tensor> results;
    for (const c10::IValue& value : stack) Append(value, results);
    return results;
  }

  static void Append(const c10::IValue& value, std::vector<at::Tensor>& to) {
    if (value.isTensor()) to.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) to.push_back(t);
    }
    if (value.isTuple()) {
      for (const c10::IValue& element : value.toTupleRef().elements()) Append(element, to);
    }
  }

  template <class F>
  void EachOutput(const std::vector<at::Tensor>& results, F&& each) const {
    if (outputs_.empty()) return;  // what a script in place returns is its argument
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].is_there) continue;
      TORCH_CHECK(i < results.size(), "the virtual NPU does not compute ", outputs_[i].name, ".");
      each(outputs_[i], results[i]);
    }
  }

  void Write(const Output& output, const at::Tensor& result, const at::Tensor& to) const {
    if (!output.is_late) {
      if (result.numel() > 0 || to.numel() > 0) to.copy_(result);
      return;
    }
    TORCH_CHECK(result.numel() <= to.numel(), output.name, " has room for ", to.numel(),
                " elements, but must hold ", result.numel(), ".");
    at::from_blob(to.data_ptr(), result.sizes(), at::dtype(to.scalar_type())).copy_(result);
    output.told->sizes = result.sizes().vec();
  }

  const npu::Operator& op_;
  torch::jit::Function& function_;
  std::vector<aclTensor*> told_;
  std::vector<Place> places_;  // of all tensors, in the order of the call
  std::vector<std::pair<std::string, std::size_t>> inputs_;  // names, and which of places_
  std::vector<Slot> slots_;
  std::vector<Output> outputs_;
  torch::jit::Stack stack_;
};

const char* g_shared = "";
std::span<const npu::Operator> g_operators;

std::shared_ptr<npu::Planned> PlanScript(const npu::Call& call, std::string* why) {
  std::shared_ptr<Scripted> planned;
  const auto explain = [&](const char* what) {
    const std::string line = Scripted::LastLine(what);
    *why = planned ? planned->Explained(line) : line;
    return nullptr;
  };
  try {
    planned = std::make_shared<Scripted>(call, ScriptOf(call.op, g_shared));
    planned->Check();
    return planned;
  } catch (const c10::Error& error) {
    return explain(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return explain(error.what());
  }
}

}  // namespace
}  // namespace aclnn

void ComputeAclnn(void* library) {
  const auto set =
      reinterpret_cast<decltype(&anyop_npu_set_engine)>(dlsym(library, "anyop_npu_set_engine"));
  const auto table =
      reinterpret_cast<decltype(&anyop_npu_operators)>(dlsym(library, "anyop_npu_operators"));
  if (!set || !table) Raise(ANYOP_NOT_AVAILABLE, "anyop_npu.so has no operators of aclnn.");
  aclnn::g_operators = table(&aclnn::g_shared);
  set(&aclnn::PlanScript);
}

std::string WrongScripts() {
  std::string wrong;
  for (const npu::Operator& op : aclnn::g_operators) {
    try {
      aclnn::ScriptOf(op, aclnn::g_shared);
    } catch (const c10::Error& error) {
      wrong += std::string(op.name) + ": " + error.what_without_backtrace() + "\n";
    } catch (const std::exception& error) {
      wrong += std::string(op.name) + ": " + error.what() + "\n";
    }
  }
  return wrong;
}

}  // namespace virtual_torch
