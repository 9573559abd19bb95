// SPDX-License-Identifier: Apache-2.0
#include "platform/safetensors_header.h"

#include <bit>
#include <utility>

#include "platform/byte_count.h"

namespace anyop {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

}  // namespace

std::string_view SafetensorsName(DType dtype) { return kDTypeRows[int(dtype)].safetensors; }

int FindSafetensorsName(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (kDTypeRows[i].safetensors == name) return i;
  }
  return -1;
}

SafetensorsHeader::SafetensorsHeader(std::string_view format) {
  json_.Begin('{').Key("__metadata__").Begin('{').Field("format", format);
}

SafetensorsHeader& SafetensorsHeader::Metadata(std::string_view key, std::string_view value) {
  json_.Field(key, value);
  return *this;
}

void SafetensorsHeader::EndMetadata() {
  if (std::exchange(is_in_metadata_, false)) json_.End('}');
}

void SafetensorsHeader::Add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                            std::int64_t bytes) {
  EndMetadata();
  json_.Key(name).Begin('{').Field("dtype", SafetensorsName(dtype)).Key("shape").Begin('[');
  for (const std::int64_t n : shape) json_.Number(n);
  json_.End(']').Key("data_offsets").Begin('[').Number(at_);
  at_ += bytes;
  json_.Number(at_).End(']').End('}');
}

std::string SafetensorsHeader::Finish() {
  EndMetadata();
  std::string text = json_.End('}').text();
  std::uint64_t bytes = 0;
  constexpr auto kLength = std::int64_t(sizeof bytes);
  bytes = std::uint64_t(AlignBytes(std::int64_t(text.size()) + kLength, kSafetensorsAlignment) -
                        kLength);
  text.resize(bytes, ' ');
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + text;
}

}  // namespace anyop
