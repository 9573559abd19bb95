// SPDX-License-Identifier: Apache-2.0
#include "operator.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>

#include "devices/npu/acl.h"
#include "types.h"

namespace npu {
namespace {

// Codes of operators, as documented. torch_npu takes kUnsupported for a warning and goes on.
enum : int { kWrongArgument = 161002, kNoOperator = 561112 };

std::atomic<Engine> g_engine{nullptr};

// The names that were launched, each once.
std::mutex g_mutex;
std::set<std::string_view>& Called() {
  static auto& called = *new std::set<std::string_view>;
  return called;
}

// ---- Copying the arguments.

class Reader {
 public:
  Reader(const Operator& op, aclOpExecutor& executor) : executor_(executor), call_{op, {}, {}, {}} {
    call_.values.resize(op.parameters.size());
    call_.told.resize(op.parameters.size());
  }

  bool Read(std::span<const Given> given) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!Read(i, given[i])) return false;
    }
    call_.tensors = executor_.tensors;
    return true;
  }
  const Call& call() const { return call_; }
  const std::string& why() const { return why_; }

 private:
  bool Say(std::size_t i, const std::string& what) {
    why_ = std::string(call_.op.parameters[i].name) + " " + what;
    return false;
  }

  // The object, or null where it is absent; what is neither is refused.
  template <class T>
  const T* Object(std::size_t i, const Given& given, bool* is_right) {
    const bool is_absent = !given.pointer && call_.op.parameters[i].is_optional;
    *is_right = is_absent || IsLive(given.pointer);
    if (!*is_right && !given.pointer) Say(i, "is null, but must be given.");
    if (!*is_right && given.pointer) Say(i, "is nothing that was made and not yet destroyed.");
    call_.values[i].is_given = given.pointer != nullptr;
    return *is_right ? static_cast<const T*>(given.pointer) : nullptr;
  }

  template <class T, class To>
  bool List(std::size_t i, const Given& given, To* to) {
    bool is_right = false;
    const T* const list = Object<T>(i, given, &is_right);
    if (list) to->assign(list->values.begin(), list->values.end());
    return is_right;
  }

  bool Tensor(std::size_t i, const aclTensor* tensor) {
    if (!IsLive(tensor)) return Say(i, "is nothing that was made and not yet destroyed.");
    std::int64_t size = 1;
    for (const std::int64_t n : tensor->sizes) size *= n;
    const Type* const type = FindType(tensor->dtype);
    if (!type) {
      return Say(i, "is of type " + std::to_string(tensor->dtype) +
                        ", which the virtual NPU does not have.");
    }
    if (call_.op.parameters[i].must_be_real && !type->is_real) {
      return Say(
          i, std::string("is of ") + type->name + ", but must be of float32, float16 or bfloat16.");
    }
    if (size > 0 && !tensor->data) return Say(i, "has elements, but no memory.");
    if (size > 0 && PlaceOf(tensor->data) == ANYOP_AT_HOST) {
      return Say(i, "is in the host's memory, but must be in the device's.");
    }
    executor_.tensors.push_back(new aclTensor(*tensor));
    call_.values[i].tensors.push_back(executor_.tensors.back());
    return true;
  }

  bool OneTensor(std::size_t i, const Given& given) {
    bool is_right = false;
    const auto* tensor = Object<aclTensor>(i, given, &is_right);
    if (call_.op.parameters[i].kind == Kind::kLateOut) {
      call_.told[i] = const_cast<aclTensor*>(tensor);
    }
    return is_right && (!tensor || Tensor(i, tensor));
  }
  bool TensorList(std::size_t i, const Given& given) {
    bool is_right = false;
    const auto* list = Object<aclTensorList>(i, given, &is_right);
    if (!list) return is_right;
    for (const aclTensor* tensor : list->values) {
      if (!Tensor(i, tensor)) return false;
    }
    return true;
  }
  bool Scalar(std::size_t i, const Given& given) {
    bool is_right = false;
    const auto* scalar = Object<aclScalar>(i, given, &is_right);
    if (scalar) call_.values[i].scalars = {*scalar};
    return is_right;
  }
  bool ScalarList(std::size_t i, const Given& given) {
    bool is_right = false;
    const auto* list = Object<aclScalarList>(i, given, &is_right);
    if (!list) return is_right;
    for (const aclScalar* scalar : list->values) call_.values[i].scalars.push_back(*scalar);
    return true;
  }

  bool Read(std::size_t i, const Given& given) {
    Value& value = call_.values[i];
    switch (call_.op.parameters[i].kind) {
      case Kind::kTensor:
      case Kind::kRef:
      case Kind::kOut:
      case Kind::kLateOut:
        return OneTensor(i, given);
      case Kind::kTensors:
      case Kind::kRefs:
      case Kind::kOuts:
        return TensorList(i, given);
      case Kind::kScalar:
        return Scalar(i, given);
      case Kind::kScalars:
        return ScalarList(i, given);
      case Kind::kInts:
        return List<aclIntArray>(i, given, &value.ints);
      case Kind::kFloats:
        return List<aclFloatArray>(i, given, &value.floats);
      case Kind::kBools:
        return List<aclBoolArray>(i, given, &value.ints);
      case Kind::kText:
        value.is_given = given.pointer != nullptr;
        if (value.is_given) value.text = static_cast<const char*>(given.pointer);
        return value.is_given || call_.op.parameters[i].is_optional || Say(i, "is null.");
      case Kind::kFloat:
        value.floats = {given.number};
        break;
      default:
        value.ints = {given.integer};
    }
    value.is_given = true;
    return true;
  }

  aclOpExecutor& executor_;
  Call call_;
  std::string why_;
};

// ---- Putting a plan on a stream.

struct Block {
  std::shared_ptr<Planned>* planned;
  void* addresses[1];  // one for each tensor
};

int RunBlock(void* data, char* message, std::uint64_t message_bytes) {
  Block& block = *static_cast<Block*>(data);
  const std::unique_ptr<std::shared_ptr<Planned>> planned(block.planned);
  return message ? (*planned)->Run(block.addresses, message, message_bytes) : ANYOP_OK;
}

int Submit(const Operator& op, const std::shared_ptr<Planned>& planned,
           std::span<aclTensor* const> tensors, anyop_stream stream) {
  std::vector<void*> block{new std::shared_ptr<Planned>(planned)};
  std::vector<std::uint32_t> addresses;
  for (const aclTensor* tensor : tensors) {
    addresses.push_back(std::uint32_t(block.size() * sizeof(void*)));
    block.push_back(tensor->data && PlaceOf(tensor->data) != ANYOP_AT_HOST ? tensor->data
                                                                           : nullptr);
  }
  const anyop_launch launch = {.size = sizeof launch,
                               .n_addresses = std::uint32_t(addresses.size()),
                               .name = op.name,
                               .task = &RunBlock,
                               .block = block.data(),
                               .block_bytes = block.size() * sizeof(void*),
                               .addresses = addresses.data()};
  return Answer(virtual_device::kTable.submit(stream, &launch));
}

}  // namespace

int Plan(const Operator& op, std::span<const Given> given, std::uint64_t* workspace_bytes,
         aclOpExecutor** executor) {
  const auto give = [&](std::unique_ptr<aclOpExecutor> made) {
    *workspace_bytes = 0;
    *executor = made.release();
    Register(*executor);
    return kOk;
  };
  const auto refuse = [&](const std::string& why) -> int {
    const std::string text = std::string(op.name) + ": " + why;
    if (!IsBehindQueue() || !workspace_bytes || !executor) return Fail(kWrongArgument, text);
    auto failed = std::make_unique<aclOpExecutor>();
    failed->name = op.name;
    failed->launch = [text](anyop_stream stream) { return FailLater(stream, text); };
    return give(std::move(failed));
  };
  if (!workspace_bytes || !executor) return refuse("there is nowhere to write the plan to.");
  const Engine engine = g_engine;
  if (!engine) {
    return Fail(kNoOperator,
                std::string(op.name) + ": nothing computes it yet. Try it after `import torch`.");
  }
  auto made = std::make_unique<aclOpExecutor>();
  made->name = op.name;
  Reader reader(op, *made);
  if (!reader.Read(given)) return refuse(reader.why());
  std::string why;
  const std::shared_ptr<Planned> planned = engine(reader.call(), &why);
  if (!planned) return refuse(why);
  made->launch = [&op, planned, &tensors = made->tensors](anyop_stream stream) {
    return FailLater(stream, Submit(op, planned, tensors, stream));
  };
  return give(std::move(made));
}

int Launch(const Operator& op, aclOpExecutor* executor, void* stream) {
  if (!IsLive(executor)) {
    return Fail(kInvalid, std::string(op.name) + ": the executor is none of a call that " +
                              op.name + "GetWorkspaceSize has planned and that has not run yet.");
  }
  if (executor->name != op.name) {
    return Fail(kInvalid,
                std::string(op.name) + ": the executor is of a call of " + executor->name + ".");
  }
  {
    const std::lock_guard lock(g_mutex);
    Called().insert(op.name);
  }
  const int code = executor->launch(StreamOf(stream));
  if (!executor->is_repeatable) {
    Forget(executor);
    delete executor;
  }
  return code;
}

// Behind the queue the second function says it, which knows the stream.
int Missing(const char* name) {
  if (IsBehindQueue()) return kOk;
  return Fail(kNoOperator, std::string(name) + " is not supported.");
}

int LaunchMissing(const char* name, void* stream) {
  const int code = Fail(kNoOperator, std::string(name) + " is not supported.");
  return FailLater(StreamOf(stream), code);
}

}  // namespace npu

extern "C" __attribute__((visibility("default"))) void anyop_npu_set_engine(npu::Engine engine) {
  npu::g_engine = engine;
}
extern "C" __attribute__((visibility("default"))) std::span<const npu::Operator>
anyop_npu_operators(const char** shared) {
  *shared = npu::kShared;
  return npu::kOperators;
}
// The names that were launched until now, with a blank between them.
extern "C" __attribute__((visibility("default"))) const char* anyop_npu_called() {
  static thread_local std::string text;
  const std::lock_guard lock(npu::g_mutex);
  text.clear();
  for (const std::string_view name : npu::Called()) {
    text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text.c_str();
}
// For who lists them: the functions that scripts call; false behind the last operator.
extern "C" __attribute__((visibility("default"))) const char* anyop_npu_shared() {
  return npu::kShared;
}
extern "C" __attribute__((visibility("default"))) bool anyop_npu_operator(std::size_t index,
                                                                          const char** name,
                                                                          const char** script) {
  if (index >= npu::kOperators.size()) return false;
  *name = npu::kOperators[index].name, *script = npu::kOperators[index].script;
  return true;
}
