// SPDX-License-Identifier: Apache-2.0
#include "boxed.h"

#include <ATen/ATen.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstdio>

#include "generator.h"
#include "memory.h"
#include "table.h"

namespace virtual_torch {
namespace {

using torch::jit::Stack;

// ---- What runs on the device's thread.

struct Place {  // of a tensor in the device's memory
  std::size_t argument;
  std::int64_t entry;  // of a list, else -1
  c10::SmallVector<std::int64_t, 4> sizes, strides;
  at::ScalarType dtype;
  bool is_number;  // it takes part in the promotion of types as a number does
  bool is_conj, is_neg;
};

// A call without any tensor of the device.
struct Work {
  c10::OperatorHandle op;
  Stack stack;
  std::vector<Place>
      places;             // first of arguments; then of fresh results, where `argument` is which
  std::size_t given = 0;  // how many are of arguments
};
struct LaunchBlock {
  Work* work;
  void* addresses[1];  // one for each place
};

at::Tensor AsNumber(at::Tensor tensor, bool is_number) {
  // It may not even be told false, if the tensor has dimensions.
  if (is_number) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::Tensor OverThere(const Place& place, void* address) {
  const auto options = at::dtype(place.dtype);
  at::Tensor tensor = address ? at::from_blob(address, place.sizes, place.strides, options)
                              : at::empty_strided(place.sizes, place.strides, options);
  if (place.is_conj) tensor._set_conj(true);
  if (place.is_neg) tensor._set_neg(true);
  return AsNumber(tensor, place.is_number);
}

// For what is `out`: mse_loss makes its result larger before it has its shape, and torch warns of
// it.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};
at::Tensor ToWrite(const Place& place, void* address) {
  const auto options = at::dtype(place.dtype);
  if (!address) return OverThere(place, address);
  return at::for_blob(address, place.sizes)
      .strides(place.strides)
      .options(options)
      .resizeable_storage()
      .allocator(c10::GetAllocator(c10::kCPU))
      .make_tensor();
}

void Put(Stack& stack, std::size_t argument, std::int64_t entry, const at::Tensor& tensor) {
  c10::IValue& value = stack[argument];
  if (entry < 0) {
    value = tensor;
  } else if (value.isTensorList()) {
    value.toTensorList().set(std::size_t(entry), tensor);
  } else {
    value.toList().set(std::size_t(entry), tensor);
  }
}

int Run(void* block, char* message, std::uint64_t message_bytes) {
  if (!message) return ANYOP_OK;  // KeepUntilOver gives back what it holds
  const LaunchBlock& b = *static_cast<LaunchBlock*>(block);
  Work& work = *b.work;
  const auto say = [&](const char* what) {
    std::snprintf(message, message_bytes, "%s: %s", work.op.schema().name().c_str(), what);
    return ANYOP_INTERNAL;
  };
  try {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below;
    Silence silence;
    std::optional<c10::WarningUtils::WarningHandlerGuard> is_silent;
    std::vector<std::pair<std::size_t, at::Tensor>> outs;
    for (std::size_t i = 0; i < work.given; ++i) {
      const Place& place = work.places[i];
      const bool is_out = work.op.schema().arguments()[place.argument].is_out();
      const auto make = is_out ? &ToWrite : &OverThere;
      const at::Tensor tensor = make(place, b.addresses[i]);
      if (is_out) outs.emplace_back(i, tensor);
      Put(work.stack, place.argument, place.entry, tensor);
    }
    if (!outs.empty()) is_silent.emplace(&silence);
    work.op.callBoxed(&work.stack);
    for (const auto& [i, tensor] : outs) {
      if (tensor.data_ptr() == b.addresses[i]) continue;
      OverThere(work.places[i], b.addresses[i]).copy_(tensor);
    }
    for (std::size_t i = work.given; i < work.places.size(); ++i) {
      const Place& place = work.places[i];
      const at::Tensor result = work.stack[place.argument].toTensor();
      // The CPU leaves out what only a backward pass of another device reads (batch_norm).
      if (result.numel() > 0) OverThere(place, b.addresses[i]).copy_(result);
    }
    return ANYOP_OK;
  } catch (const c10::Error& error) {
    return say(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return say(error.what());
  }
}

// ---- What the host does before.

// Calls `each(tensor, argument, entry)` for every tensor that is there.
template <class F>
void EachTensor(const Stack& stack, std::size_t begin, F&& each) {
  for (std::size_t i = begin; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isTensor() && value.toTensor().defined()) {
      each(value.toTensor(), i - begin, std::int64_t{-1});
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      const auto list = value.toListRef();
      for (std::size_t k = 0; k < list.size(); ++k) {
        if (!list[k].isTensor() || !list[k].toTensor().defined()) continue;
        each(list[k].toTensor(), i - begin, std::int64_t(k));
      }
    }
  }
}

bool IsThere(const at::Tensor& t) { return t.device().type() == kType; }
bool IsNumber(const at::Tensor& t) { return t.unsafeGetTensorImpl()->is_wrapped_number(); }

c10::Device DeviceOf(const Stack& stack, std::size_t begin) {
  c10::Device device = DeviceAt(-1);
  EachTensor(stack, begin, [&](const at::Tensor& t, std::size_t, std::int64_t) {
    if (IsThere(t)) device = t.device();
  });
  for (std::size_t i = begin; i < stack.size(); ++i) {
    if (!stack[i].isDevice() || stack[i].toDevice().type() != kType) continue;
    device = DeviceAt(stack[i].toDevice().index());
  }
  return device;
}

// Its lists are its own; it says `to` where it said the device.
Stack CopyArguments(const c10::OperatorHandle& op, const Stack& stack, std::size_t begin,
                    c10::Device to) {
  Stack out;
  for (std::size_t i = begin; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    const auto& type = *op.schema().arguments()[i - begin].type();
    if (value.isTensorList()) {
      out.emplace_back(value.toTensorList().copy());
    } else if (value.isList()) {
      out.emplace_back(value.toList().copy());
    } else if (value.isDevice()) {
      out.emplace_back(to);
    } else if (value.isGenerator() || type.str() == "Generator?") {
      out.emplace_back();  // the Meta kernel needs none
      if (to.is_meta()) continue;
      out.back() = ForWork(value.isGenerator() ? value.toGenerator() : DefaultGenerator(-1));
    } else {
      out.push_back(value);
    }
  }
  return out;
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

// Whether results are fresh tensors, or tensors that the call writes to: no views, no numbers.
bool HasPlainResults(const c10::FunctionSchema& schema) {
  return std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
    if (result.alias_info()) return result.alias_info()->isWrite();
    return result.type()->kind() == c10::TypeKind::TensorType;
  });
}

// Whose CPU kernel gives other shapes than the Meta kernel says.
bool IsShapedByKernel(const c10::FunctionSchema& schema) {
  return schema.name().starts_with("aten::_embedding_bag");
}

bool NeedsShapes(const c10::FunctionSchema& schema) {
  const auto is_fresh = [](const c10::Argument& result) { return !result.alias_info(); };
  const auto is_out = [](const c10::Argument& argument) { return argument.is_out(); };
  return std::ranges::any_of(schema.returns(), is_fresh) ||
         std::ranges::any_of(schema.arguments(), is_out);
}

// The results of the Meta kernel; none if there is no such kernel, or if data decides. `arguments`
// become meta tensors; what is `out` has its final shape afterwards.
std::optional<Stack> RunMeta(const c10::OperatorHandle& op, Stack& arguments) {
  EachTensor(Stack(arguments), 0, [&](const at::Tensor& t, std::size_t i, std::int64_t entry) {
    if (t.is_cpu() && t.dim() == 0) return;  // Meta kernels in Python get it as a number
    const auto options = at::dtype(t.scalar_type()).device(at::kMeta);
    Put(arguments, i, entry,
        AsNumber(at::empty_strided(t.sizes(), t.strides(), options), IsNumber(t)));
  });
  Stack results = arguments;
  try {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below;
    op.callBoxed(&results);
    return results;
  } catch (const std::exception&) {  // a kernel in Python raises what is no c10::Error
    return std::nullopt;
  }
}

// Of the host's tensors a call on the device takes numbers, and those that `x[i]` counts with.
void CheckDevice(const c10::OperatorHandle& op, const at::Tensor& t, c10::Device device) {
  const std::string& name = op.operator_name().name;
  const bool is_index =
      name == "aten::index" || name == "aten::index_put_" || name == "aten::_index_put_impl_";
  if (t.device() == device || (t.is_cpu() && (t.dim() == 0 || is_index))) return;
  Raise(ANYOP_INTERNAL,
        "Expected all tensors to be on the same device, but found at least two devices, " +
            device.str() + " and " + t.device().str() + "! (when checking " + name + ")");
}

struct Prepared {
  std::shared_ptr<Work> work;
  std::vector<void*> block{nullptr};  // a LaunchBlock
  Stack results;

  void Add(const at::Tensor& t, std::size_t argument, std::int64_t entry) {
    work->places.push_back({argument,
                            entry,
                            {t.sizes().begin(), t.sizes().end()},
                            {t.strides().begin(), t.strides().end()},
                            t.scalar_type(),
                            IsNumber(t),
                            t.is_conj(),
                            t.is_neg()});
    block.push_back(t.numel() ? t.data_ptr() : nullptr);
  }
};

void AddArguments(Prepared& to, const Stack& stack, std::size_t begin, const Stack& meta_arguments,
                  c10::Device device) {
  Work& work = *to.work;
  EachTensor(stack, begin, [&](const at::Tensor& t, std::size_t i, std::int64_t entry) {
    CheckDevice(work.op, t, device);
    if (!IsThere(t)) {  // the caller may write to it before the work runs
      return Put(work.stack, i, entry, AsNumber(t.detach().clone(), IsNumber(t)));
    }
    if (work.op.schema().arguments()[i].is_out()) {
      const at::Tensor& shape = meta_arguments[i].toTensor();
      if (shape.sizes() != t.sizes()) Resize(t, shape.sizes(), std::nullopt);
    }
    to.Add(t, i, entry);
    Put(work.stack, i, entry, at::Tensor());
  });
  work.given = work.places.size();
}

void AddResults(Prepared& to, const Stack& stack, std::size_t begin,
                const std::optional<Stack>& meta, c10::Device device) {
  const c10::FunctionSchema& schema = to.work->op.schema();
  for (std::size_t r = 0; r < schema.returns().size(); ++r) {
    const c10::AliasInfo* alias = schema.returns()[r].alias_info();
    if (!alias) {
      const at::Tensor& shape = (*meta)[r].toTensor();
      at::Tensor fresh;
      if (shape.defined()) {
        const auto options = at::dtype(shape.scalar_type()).device(device);
        fresh = at::empty_strided(shape.sizes(), shape.strides(), options);
        to.Add(fresh, r, -1);
      }
      to.results.emplace_back(fresh);
      continue;
    }
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      if (!IsWritten(argument) || argument.alias_info()->afterSets() != alias->afterSets())
        continue;
      to.results.push_back(stack[begin + i]);
    }
  }
}

void Submit(Prepared& prepared, c10::Device device) {
  prepared.block[0] = prepared.work.get();
  std::vector<std::uint32_t> addresses;
  for (std::size_t i = 1; i < prepared.block.size(); ++i) {
    addresses.push_back(std::uint32_t(i * sizeof(void*)));
  }
  const anyop_launch launch = {.size = sizeof launch,
                               .n_addresses = std::uint32_t(addresses.size()),
                               .name = prepared.work->op.schema().name().c_str(),
                               .task = &Run,
                               .block = prepared.block.data(),
                               .block_bytes = prepared.block.size() * sizeof(void*),
                               .addresses = addresses.data()};
  const anyop_stream stream = CurrentNative(device.index());
  Must(Table()->submit(stream, &launch));
  KeepUntilOver(prepared.work, stream, device.index());
}

}  // namespace

Counts& BoxedCounts() {
  static Counts counts;
  return counts;
}

void Boxed(const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  // Others' operators have kernels of their own for a device, or none.
  if (!schema.name().starts_with("aten::")) {
    Raise(ANYOP_UNSUPPORTED, "Could not run '" + schema.name() + "' with arguments from the '" +
                                 Word() + "' backend: it has no kernel there.");
  }
  const std::size_t count = schema.arguments().size(), begin = stack->size() - count;
  const c10::Device device = DeviceOf(*stack, begin);
  const c10::DeviceGuard guard(device);
  bool is_plain = HasPlainResults(schema) && !IsShapedByKernel(schema);
  std::optional<Stack> meta;
  Stack meta_arguments;
  if (is_plain && NeedsShapes(schema)) {
    meta_arguments = CopyArguments(op, *stack, begin, at::kMeta);
    meta = RunMeta(op, meta_arguments);
    is_plain = meta.has_value();
  }
  if (!is_plain) {
    ++BoxedCounts().at_once;
    return at::native::cpu_fallback(op, stack, true);
  }
  ++BoxedCounts().in_order;
  Prepared prepared;
  prepared.work = std::make_shared<Work>(Work{op, CopyArguments(op, *stack, begin, at::kCPU), {}});
  AddArguments(prepared, *stack, begin, meta_arguments, device);
  AddResults(prepared, *stack, begin, meta, device);
  Submit(prepared, device);
  torch::jit::drop(*stack, count);
  for (c10::IValue& result : prepared.results) stack->push_back(std::move(result));
}

}  // namespace virtual_torch
