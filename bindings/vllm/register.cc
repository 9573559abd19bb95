// SPDX-License-Identifier: Apache-2.0
// What anyop.vllm calls, through ctypes, with each row of its table.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>

#include "bindings/torch/allocate.h"
#include "map.h"
#include "rows.h"

namespace anyop::vllm_host {
namespace {

// Null where no function has the name.
Function FindFunction(std::string_view name) {
  for (const auto& functions : {AttentionFunctions(), BytesFunctions(), LayerFunctions(),
                                QuantizedFunctions(), SamplingFunctions()}) {
    for (const NamedFunction& f : functions) {
      if (name == f.name) return f.function;
    }
  }
  return nullptr;
}

// A name as torch knows it, and what a call of it does. Never destroyed.
struct Defined {
  std::string name;  // without the namespace
  std::size_t n_arguments = 0;
  std::size_t n_returns = 0;
  std::vector<std::size_t> written;  // arguments
  std::vector<const TorchOperator*> ops;
  std::optional<Mapping> mapping;
  Function function = nullptr;  // instead of the mapping
  c10::IValue constant;         // what is returned where there is neither
  std::atomic<std::uint64_t> calls = 0;

  c10::IValue Call(const c10::IValue* arguments) const {
    if (function) return function({name.c_str(), arguments, ops.data()});
    return mapping ? mapping->Run(arguments) : constant;
  }
};

struct CpuKernel final : c10::OperatorKernel {
  explicit CpuKernel(Defined* the_row) : row(the_row) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    const c10::IValue* arguments = torch_host::Arguments(*stack, int(row->n_arguments));
    c10::IValue returned = row->Call(arguments);
    row->calls.fetch_add(1, std::memory_order_relaxed);  // a number alone: nothing is ordered by it
    torch::jit::drop(*stack, row->n_arguments);
    if (row->n_returns == 1) {
      stack->push_back(std::move(returned));
    } else if (row->n_returns > 1) {
      for (const c10::IValue& one : returned.toTupleRef().elements()) stack->push_back(one);
    }
  }
  Defined* const row;
};

// What is written cannot be differentiated, and gets a new version.
struct AutogradKernel final : c10::OperatorKernel {
  explicit AutogradKernel(Defined* the_row) : row(the_row) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) const {
    const c10::IValue* arguments = torch_host::Arguments(*stack, int(row->n_arguments));
    if (c10::GradMode::is_enabled()) CheckNothingNeedsGradient(handle, arguments);
    c10::SmallVector<at::Tensor, 4> written;  // held: the call takes the arguments off the stack
    for (const std::size_t i : row->written) {
      if (arguments[i].isTensor()) written.push_back(arguments[i].toTensor());
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      handle.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
    }
    for (const at::Tensor& t : written) {
      if (!t.is_inference()) torch::autograd::increment_version(t);
    }
  }

  void CheckNothingNeedsGradient(const c10::OperatorHandle& handle,
                                 const c10::IValue* arguments) const {
    for (std::size_t i = 0; i < row->n_arguments; ++i) {
      if (!arguments[i].isTensor() || !arguments[i].toTensor().requires_grad()) continue;
      RefuseKernel(row->name.c_str(),
                   handle.schema().arguments()[i].name() +
                       " requires grad, but vLLM's operators have no gradient. Try "
                       "torch.no_grad() or detach().");
    }
  }
  Defined* const row;
};

torch::Library& TheLibrary() {
  // Never destroyed: its end would take the operators back, when torch may be gone already.
  static auto& library =
      *new torch::Library(torch::Library::FRAGMENT, "_C", std::nullopt, __FILE__, __LINE__);
  return library;
}

std::map<std::string, std::unique_ptr<Defined>>& Rows() {
  static auto& rows = *new std::map<std::string, std::unique_ptr<Defined>>;
  return rows;
}

template <class K>
void Register(Defined* row, c10::DispatchKey key) {
  auto function = torch::CppFunction::makeFromBoxedFunctor(std::make_unique<K>(row));
  TheLibrary().impl(row->name.c_str(), torch::dispatch(key, std::move(function)));
}

bool HasTensor(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor())) return true;
  }
  return false;
}

// The schema as torch knows it; null where nothing has the name.
std::optional<c10::OperatorHandle> Find(const std::string& name) {
  return c10::Dispatcher::singleton().findSchema({"_C::" + name, ""});
}

// A row as anyop.vllm has it; see anyop_vllm_define.
struct Row {
  std::string schema;
  std::string_view operators, constants;
  bool is_function;
};

// What a call of the row does.
void Implement(const Row& row, const c10::FunctionSchema& schema, Defined& made) {
  for (std::string_view rest = row.operators; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    made.ops.push_back(&Ours(std::string(rest.substr(0, end)).c_str()));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (row.is_function) {
    made.function = FindFunction(made.name);
    TORCH_CHECK(made.function, "bindings/vllm has no function of this name");
  } else if (!made.ops.empty()) {
    made.mapping.emplace(schema, *made.ops[0], row.constants);
  } else if (made.n_returns) {
    made.constant = ReadConstants(row.constants).at("return");
  }
}

// takes_over: of a library that has defined the name already, by the same schema.
void Define(const Row& row, bool takes_over) {
  const std::string& schema = row.schema;
  auto made = std::make_unique<Defined>();
  made->name = schema.substr(0, schema.find('('));
  if (!takes_over) {
    TheLibrary().def(schema.c_str());
  } else {
    const c10::FunctionSchema ours = torch::schema(("_C::" + schema).c_str());
    const auto theirs = Find(made->name);
    if (!theirs || c10::toString(theirs->schema()) != c10::toString(ours)) {
      Refuse(made->name.c_str(), "the library that is loaded has " +
                                     (theirs ? c10::toString(theirs->schema()) : "no such name") +
                                     ", but " + c10::toString(ours) + " is what is taken over.");
    }
  }
  const c10::OperatorHandle handle = *Find(made->name);
  const auto& arguments = handle.schema().arguments();
  made->n_arguments = arguments.size();
  made->n_returns = handle.schema().returns().size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].alias_info() && arguments[i].alias_info()->isWrite()) {
      made->written.push_back(i);
    }
  }
  Implement(row, handle.schema(), *made);
  Defined* defined = made.get();
  Rows()[defined->name] = std::move(made);
  Register<CpuKernel>(defined, c10::DispatchKey::CPU);
  if (HasTensor(handle.schema())) {
    Register<AutogradKernel>(defined, c10::DispatchKey::Autograd);
  } else {
    // A call without tensors has no backend's key.
    Register<CpuKernel>(defined, c10::DispatchKey::CompositeExplicitAutograd);
  }
}

}  // namespace
}  // namespace anyop::vllm_host

extern "C" {

// Defines a row in torch's namespace _C. operators: of ours, with blanks between. constants: of the
// operator's parameters; of a row without an operator what it returns, "return = False".
// is_function: a function of bindings/vllm makes the call. Null, or what went wrong.
ANYOP_EXPORT const char* anyop_vllm_define(const char* schema, const char* operators,
                                           const char* constants, int is_function, int takes_over) {
  static auto& error = *new std::string;  // Python's lock is held
  try {
    anyop::vllm_host::Define({schema, operators, constants, is_function != 0}, takes_over != 0);
    return nullptr;
  } catch (const c10::Error& e) {
    error = e.what_without_backtrace();
  } catch (const std::exception& e) {
    error = e.what();
  }
  return error.c_str();
}

// How often a name that is defined was called.
ANYOP_EXPORT std::uint64_t anyop_vllm_calls(const char* name) {
  const auto& rows = anyop::vllm_host::Rows();
  const auto found = rows.find(name);
  return found == rows.end() ? 0 : found->second->calls.load(std::memory_order_relaxed);
}
}
