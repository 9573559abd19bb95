// SPDX-License-Identifier: Apache-2.0
// What kernels print: to standard output, each line with the number of its block.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "checked_block.h"

namespace anyop_ascend {
namespace {

// Blocks on several threads print, and a line may come in parts.
struct Printed {
  std::mutex mutex;
  bool is_open = false;  // the last line has no end yet
  std::uint32_t block = 0;
};
Printed& AllPrinted() {
  static auto* printed = new Printed;
  return *printed;
}

void PrintLines(const std::string& text) {
  Printed& all = AllPrinted();
  const std::lock_guard lock(all.mutex);
  std::string out;
  if (all.is_open && all.block != block->index) {
    out = "\n";
    all.is_open = false;
  }
  for (const char c : text) {
    if (!all.is_open) out += Format("block %u: ", block->index);
    out += c;
    all.is_open = c != '\n';
  }
  all.block = block->index;
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);  // the kernel may end the process
}

template <class T>
T Read(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
std::string Shown(const unsigned char* at) {
  const T value = Read<T>(at);
  if (std::is_unsigned_v<T>) return Format("%llu", static_cast<unsigned long long>(value));
  return Format("%lld", static_cast<long long>(value));
}
float Bfloat16(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

struct Type {
  char letter;
  const char* name;
  std::uint32_t bytes;
  std::string (*show)(const unsigned char* at);
};
const Type kTypes[] = {
    {'b', "bool", 1, Shown<std::uint8_t>},
    {'c', "int8_t", 1, Shown<std::int8_t>},
    {'C', "uint8_t", 1, Shown<std::uint8_t>},
    {'s', "int16_t", 2, Shown<std::int16_t>},
    {'S', "uint16_t", 2, Shown<std::uint16_t>},
    {'i', "int32_t", 4, Shown<std::int32_t>},
    {'I', "uint32_t", 4, Shown<std::uint32_t>},
    {'q', "int64_t", 8, Shown<std::int64_t>},
    {'Q', "uint64_t", 8, Shown<std::uint64_t>},
    {'h', "half", 2,
     [](const unsigned char* at) {
       return Format("%.5g", static_cast<double>(static_cast<float>(Read<_Float16>(at))));
     }},
    {'e', "bfloat16_t", 2,
     [](const unsigned char* at) {
       return Format("%.4g", static_cast<double>(Bfloat16(Read<std::uint16_t>(at))));
     }},
    {'f', "float", 4,
     [](const unsigned char* at) { return Format("%.9g", static_cast<double>(Read<float>(at))); }},
    {'d', "double", 8, [](const unsigned char* at) { return Format("%.17g", Read<double>(at)); }},
};

}  // namespace

void Print(const char* format, ...) {
  if (!block) return;
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int bytes = std::vsnprintf(nullptr, 0, format, arguments);
  if (bytes > 0) {
    std::string text(static_cast<std::size_t>(bytes), ' ');
    std::vsnprintf(text.data(), text.size() + 1, format, again);
    PrintLines(text);
  }
  va_end(again);
  va_end(arguments);
}

void PrintDump(const Dump& dump, Site at) {
  if (!block) return;
  const Type* type = kTypes;
  while (type != std::end(kTypes) && type->letter != dump.letter) ++type;
  if (type == std::end(kTypes)) return;  // a struct
  const auto* data = static_cast<const unsigned char*>(dump.data);
  std::string place = "GM";
  if (dump.is_local) place = NameOfByte(static_cast<std::uint32_t>(data - block->memory));
  std::string text = Format(
      "DumpTensor %u, %s: %llu of %s at %s\n[", dump.note, anyop_ascend::Shown(PlaceOf(at)).c_str(),
      static_cast<unsigned long long>(dump.elements), type->name, place.c_str());
  const bool has_marks = dump.is_local && launched && launched->of.is_checked;
  for (std::uint64_t i = 0; i < dump.elements; ++i) {
    const unsigned char* element = data + i * type->bytes;
    const bool is_known = !has_marks || AreDefined(element, type->bytes);
    text += (i ? ", " : "") + (is_known ? type->show(element) : std::string("?"));
  }
  PrintLines(text + "]\n");
}

}  // namespace anyop_ascend
