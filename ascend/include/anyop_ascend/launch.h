// SPDX-License-Identifier: Apache-2.0
// Launches, and the table that a compiled file of kernels exports. kernel<<<n, l2, stream>>>(...)
// is no C++: whoever compiles a file writes anyop_ascend_start("kernel", &kernel, n, l2,
// stream)(...) instead.
#pragma once
#include "anyop_ascend/kernel_table.h"
#include "anyop_ascend/sync.h"

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {
namespace anyop_launching {

// A launch as bytes: a stream runs it when the host function has returned.
template <class... P>
struct Packed {
  struct Head {
    const char* name;
    void (*kernel)(P...);
    std::uint64_t blocks;
  };
  static constexpr std::uint32_t Offset(std::size_t parameter) {
    constexpr std::size_t kSizes[] = {sizeof(P)..., 0};
    std::size_t at = sizeof(Head);
    for (std::size_t i = 0; i < parameter; ++i) at += (kSizes[i] + 7) / 8 * 8;
    return static_cast<std::uint32_t>(at);
  }
  static constexpr std::size_t kBytes = Offset(sizeof...(P));

  alignas(8) unsigned char bytes[kBytes];

  Packed(const Head& head, P... arguments) : bytes() {
    std::memcpy(bytes, &head, sizeof head);
    std::size_t i = 0;
    (std::memcpy(bytes + Offset(i++), &arguments, sizeof arguments), ...);
    (void)i;
  }
  void Launch(void* stream) {
    constexpr bool kIsAddress[] = {std::is_pointer<P>::value..., false};
    std::uint32_t addresses[sizeof...(P) + 1], n = 0;
    for (std::uint32_t i = 0; i < sizeof...(P); ++i) {
      if (kIsAddress[i]) addresses[n++] = Offset(i);
    }
    Head head;
    std::memcpy(&head, bytes, sizeof head);
    rt::LaunchFromHost({head.name, stream, &Run, bytes, kBytes, addresses, n});
  }
  template <class T>
  static T Read(const unsigned char* at) {
    alignas(T) unsigned char raw[sizeof(T)];
    std::memcpy(raw, at, sizeof raw);
    return *reinterpret_cast<T*>(raw);
  }
  static int Run(void* packed, char* message, std::uint64_t message_bytes) {
    if (!message) return 0;  // a stream that does not run it any more
    return RunWith(static_cast<unsigned char*>(packed), message, message_bytes,
                   std::index_sequence_for<P...>());
  }
  template <std::size_t... i>
  static int RunWith(unsigned char* packed, char* message, std::uint64_t message_bytes,
                     std::index_sequence<i...>) {
    Head head;
    std::memcpy(&head, packed, sizeof head);
    auto body = [&] { head.kernel(Read<std::remove_cv_t<P>>(packed + Offset(i))...); };
    const rt::LaunchOf launch = {head.name,
                                 static_cast<std::uint32_t>(head.blocks),
                                 kChecked,
                                 AnyopWaits<void>::any,
                                 [](void* called) { (*static_cast<decltype(body)*>(called))(); },
                                 &body};
    return rt::RunFromHost(launch, message, message_bytes);
  }
};

template <class... P>
struct Launcher {
  const char* name;
  void (*kernel)(P...);
  std::uint32_t blocks;
  void* stream;

  template <class... A>
  void operator()(A... arguments) const {
    static_assert(sizeof...(A) == sizeof...(P), "a launch passes every argument of the kernel");
    if constexpr (ANYOP_ASCEND_PACKAGE) {
      Packed<P...>({name, kernel, blocks}, static_cast<P>(arguments)...).Launch(stream);
      return;
    }
    auto body = [&] { kernel(static_cast<P>(arguments)...); };
    rt::Launch({name, blocks, kChecked, AnyopWaits<void>::any,
                [](void* called) { (*static_cast<decltype(body)*>(called))(); }, &body});
  }
};

// Bytes of the struct that a parameter points to; 0 where it is no pointer to one.
template <class T, class = void>
struct BytesOfStruct : std::integral_constant<std::uint32_t, 0> {};
template <class T>
struct BytesOfStruct<T, std::void_t<decltype(sizeof(T))>>
    : std::integral_constant<std::uint32_t, sizeof(T)> {};
template <class P>
constexpr std::uint32_t StructBytes() {
  using T = std::remove_cv_t<std::remove_pointer_t<P>>;
  constexpr bool kIsStruct = std::is_class<T>::value && !std::is_same<T, bfloat16_t>::value;
  if constexpr (std::is_pointer<P>::value && kIsStruct) return BytesOfStruct<T>::value;
  return 0;
}

template <auto kernel>
struct Exported;
template <class... P, void (*kernel)(P...)>
struct Exported<kernel> {
  static constexpr char kParameters[] = {Letter<std::remove_cv_t<P>>()..., 0};
  static constexpr std::uint32_t kBytes[] = {sizeof(P)..., 0};
  static constexpr std::uint32_t kStructs[] = {StructBytes<std::remove_cv_t<P>>()..., 0};

  static void Call(std::uint32_t blocks, void* const* arguments) {
    CallWith(blocks, arguments, std::index_sequence_for<P...>());
  }
  template <std::size_t... i>
  static void CallWith(std::uint32_t blocks, void* const* arguments, std::index_sequence<i...>) {
    (void)arguments;
    auto body = [&] { kernel(*static_cast<std::remove_reference_t<P>*>(arguments[i])...); };
    rt::Launch({"", blocks, kChecked, AnyopWaits<void>::any,
                [](void* called) { (*static_cast<decltype(body)*>(called))(); }, &body});
  }
  static constexpr anyop_ascend_kernel Entry(const char* name) {
    return {name, kParameters, kBytes, &Call, kStructs};
  }
};

}  // namespace anyop_launching
}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC

template <class... P>
inline AscendC::anyop_launching::Launcher<P...> anyop_ascend_start(const char* name,
                                                                   void (*kernel)(P...),
                                                                   std::uint32_t blocks,
                                                                   const void* = nullptr,
                                                                   void* stream = nullptr) {
  return {name, kernel, blocks, stream};
}

// ANYOP_ASCEND_KERNELS(a, b, c): up to 64 names.
#define ANYOP_ASCEND_ENTRY(name) ::AscendC::anyop_launching::Exported<&name>::Entry(#name),
#define ANYOP_ASCEND_PARENTHESES ()
#define ANYOP_ASCEND_EXPAND(...) ANYOP_ASCEND_EXPAND3(ANYOP_ASCEND_EXPAND3(__VA_ARGS__))
#define ANYOP_ASCEND_EXPAND3(...) ANYOP_ASCEND_EXPAND2(ANYOP_ASCEND_EXPAND2(__VA_ARGS__))
#define ANYOP_ASCEND_EXPAND2(...) ANYOP_ASCEND_EXPAND1(ANYOP_ASCEND_EXPAND1(__VA_ARGS__))
#define ANYOP_ASCEND_EXPAND1(...) ANYOP_ASCEND_EXPAND0(ANYOP_ASCEND_EXPAND0(__VA_ARGS__))
#define ANYOP_ASCEND_EXPAND0(...) \
  ANYOP_ASCEND_EXPANDED(          \
      ANYOP_ASCEND_EXPANDED(ANYOP_ASCEND_EXPANDED(ANYOP_ASCEND_EXPANDED(__VA_ARGS__))))
#define ANYOP_ASCEND_EXPANDED(...) __VA_ARGS__
#define ANYOP_ASCEND_EACH(name, ...) \
  ANYOP_ASCEND_ENTRY(name) __VA_OPT__(ANYOP_ASCEND_NEXT ANYOP_ASCEND_PARENTHESES(__VA_ARGS__))
#define ANYOP_ASCEND_NEXT() ANYOP_ASCEND_EACH
#define ANYOP_ASCEND_KERNELS(...)                                                     \
  extern "C" __attribute__((visibility("default"), used))                             \
  const anyop_ascend_kernel anyop_ascend_kernels[] = {__VA_OPT__(ANYOP_ASCEND_EXPAND( \
      ANYOP_ASCEND_EACH(__VA_ARGS__))){nullptr, nullptr, nullptr, nullptr, nullptr}};
