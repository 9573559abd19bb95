// SPDX-License-Identifier: Apache-2.0
// The functions of the C header.
#include "anyop/host.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "hosting/bound_call.h"
#include "platform/error.h"
#include "runtime/call.h"

namespace anyop {
namespace {

static_assert(ANYOP_HOST_MAX_RANK == kMaxRank);
// Calls are handed out as what they are.
const BoundCall& FromC(const anyop_call* call) { return *reinterpret_cast<const BoundCall*>(call); }
const anyop_call* ToC(const BoundCall* call) { return reinterpret_cast<const anyop_call*>(call); }

std::string& LastErrorText() {
  static thread_local std::string text;
  return text;
}

// No exception crosses the boundary.
template <class F>
int Answered(F&& f) {
  const auto keep = [](int code, const char* text) {
    LastErrorText() = text;
    return code;
  };
  try {
    f();
    return ANYOP_OK;
  } catch (const Error& e) {
    return keep(e.code, e.what());
  } catch (const std::bad_alloc&) {
    return keep(ANYOP_OUT_OF_MEMORY, "anyop: there is no memory left.");
  } catch (const std::exception& e) {
    return keep(ANYOP_INTERNAL, e.what());
  }
}

template <class T>
std::span<T> Span(T* items, std::int32_t n) {
  if (n < 0 || (n > 0 && !items)) {
    Fail(ANYOP_INVALID_ARGUMENT, "bound call: " + std::to_string(n) +
                                     " tensors are given, but must be an array of 0 or more.");
  }
  return {items, std::size_t(n)};
}

// Fills what the caller's struct has room for.
template <class T>
void Give(T mine, T* to) {
  const std::uint32_t size = std::min(to->size, std::uint32_t(sizeof(T)));
  mine.size = to->size;
  std::memcpy(static_cast<void*>(to), &mine, size);
}

template <class T>
const T& ItemAt(std::span<const T> items, std::int32_t i, const char* what) {
  if (i >= 0 && std::size_t(i) < items.size()) return items[std::size_t(i)];
  Fail(ANYOP_INVALID_ARGUMENT, std::string("bound call: ") + what + " " + std::to_string(i) +
                                   " is asked for, but there are " + std::to_string(items.size()) +
                                   ".");
}

}  // namespace
}  // namespace anyop

std::uint32_t anyop_host_version() { return ANYOP_HOST_VERSION; }
const char* anyop_error_text() { return anyop::LastErrorText().c_str(); }

int anyop_load_library(const char* path) {
  return anyop::Answered([&] { anyop::Load(path); });
}

int anyop_find_call(const char* text, std::uint64_t bytes, const anyop_call** call) {
  return anyop::Answered([&] {
    *call = anyop::ToC(&anyop::FindBoundCall({text, std::size_t(bytes)}));
  });
}

const char* anyop_call_text(const anyop_call* call) { return anyop::FromC(call).text().c_str(); }

std::int32_t anyop_input_count(const anyop_call* call) {
  return std::int32_t(anyop::FromC(call).inputs().size());
}
std::int32_t anyop_result_count(const anyop_call* call) {
  return std::int32_t(anyop::FromC(call).results().size());
}

int anyop_describe_input(const anyop_call* call, std::int32_t index, anyop_input* input) {
  return anyop::Answered([&] {
    const anyop::BoundInput& own = anyop::ItemAt(anyop::FromC(call).inputs(), index, "input");
    anyop::Give({0, own.is_written, own.name.c_str(), anyop::ToDL(own.dtype)}, input);
  });
}

int anyop_describe_result(const anyop_call* call, std::int32_t index, anyop_result* result) {
  return anyop::Answered([&] {
    const anyop::BoundResult& own = anyop::ItemAt(anyop::FromC(call).results(), index, "result");
    const DLDataType dtype = own.dtype < 0 ? DLDataType{} : anyop::ToDL(anyop::DType(own.dtype));
    anyop::Give({0, std::uint32_t(own.over.size()), own.over.data(), own.name.c_str(), dtype},
                result);
  });
}

int anyop_infer_call(const anyop_call* call, const DLTensor* inputs, std::int32_t n_inputs,
                     anyop_shape* results, std::int32_t n_results) {
  return anyop::Answered([&] {
    const std::span<anyop_shape> to = anyop::Span(results, n_results);
    std::vector<anyop::ResultShape> shapes(to.size());
    anyop::FromC(call).Infer(anyop::Span(inputs, n_inputs), shapes);
    for (std::size_t r = 0; r < to.size(); ++r) {
      to[r] = {shapes[r].rank, anyop::ToDL(shapes[r].dtype), {}};
      if (shapes[r].rank > 0) std::copy_n(shapes[r].shape, shapes[r].rank, to[r].shape);
    }
  });
}

int anyop_run_call(const anyop_call* call, const DLTensor* inputs, std::int32_t n_inputs,
                   const DLTensor* results, std::int32_t n_results) {
  return anyop::Answered([&] {
    anyop::FromC(call).Run(anyop::Span(inputs, n_inputs), anyop::Span(results, n_results));
  });
}

int anyop_gradient_of_call(const anyop_call* call, const std::uint8_t* wanted,
                           std::int32_t n_wanted, const std::uint8_t* given, std::int32_t n_given,
                           anyop_gradient* gradient) {
  return anyop::Answered([&] {
    const anyop::BoundGradient& made = anyop::FromC(call).Gradient(
        anyop::Span(wanted, n_wanted), anyop::Span(given, given ? n_given : 0));
    anyop::Give({0, std::uint32_t(made.sources.size()), std::uint32_t(made.targets.size()),
                 anyop::ToC(made.forward), anyop::ToC(made.gradient), made.sources.data(),
                 made.targets.data()},
                gradient);
  });
}
