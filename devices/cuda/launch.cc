// SPDX-License-Identifier: Apache-2.0
#include "devices/cuda/launch.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "devices/cuda/card.h"

namespace anyop::cuda {
namespace {

std::mutex loading;

// Loaded once for a card, and never unloaded: captured graphs hold its functions.
ModuleHandle* ModuleOf(const Card& card, const unsigned char* image) {
  static auto* modules = new std::map<std::pair<int, const unsigned char*>, ModuleHandle*>;
  ModuleHandle*& module = (*modules)[{card.number, image}];
  if (!module) Must(TheDriver().load_module(&module, image), "cuModuleLoadData");
  return module;
}

FunctionHandle* Load(const Card& card, const Function& function) {
  const std::lock_guard lock(loading);
  const Relaxed relaxed;
  FunctionHandle* handle = nullptr;
  ModuleHandle* module = ModuleOf(card, function.image);
  Must(TheDriver().module_function(&handle, module, function.name), "cuModuleGetFunction");
  int registers = 0;  // a function that is asked something is loaded now, not when it is captured
  Must(TheDriver().function_attribute(&registers, kRegistersOfFunction, handle),
       "cuFuncGetAttribute");
  return handle;
}

FunctionHandle* HandleOf(const Card& card, const Function& function) {
  std::atomic<void*>& place = function.on[card.number];
  void* handle = place.load(std::memory_order_acquire);
  if (!handle) {
    handle = Load(card, function);
    place.store(handle, std::memory_order_release);
  }
  return static_cast<FunctionHandle*>(handle);
}

void LaunchOn(int device, void* stream, const Function& function, Grid grid, const void* call) {
  constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;
  if (grid.blocks <= 0) return;
  if (grid.blocks > kMostBlocks) {
    throw Failure{ANYOP_UNSUPPORTED, "a launch of " + std::to_string(grid.blocks) +
                                         " blocks, but a card takes at most 2^31 - 1."};
  }
  const Card& card = CardOf(device);
  if (card.number >= kMostCards) throw Failure{ANYOP_UNSUPPORTED, "more than 32 cards."};
  const OnCard on(card);
  void* parameters[] = {const_cast<void*>(call)};
  Must(TheDriver().launch(HandleOf(card, function), unsigned(grid.blocks), 1, 1,
                          unsigned(grid.threads), unsigned(grid.threads_y), 1, 0, Handle(stream),
                          parameters, nullptr),
       "cuLaunchKernel");
}

}  // namespace

int LaunchBytes(int card, void* stream, const Function& function, Grid grid, const void* call,
                const char** why) {
  const int code = Guard([&] { LaunchOn(card, stream, function, grid, call); });
  if (code != ANYOP_OK) *why = LastFailure();
  return code;
}

}  // namespace anyop::cuda
