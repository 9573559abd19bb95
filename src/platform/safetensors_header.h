// SPDX-License-Identifier: Apache-2.0
// The header of a file in the safetensors format: 8 bytes with the length of a JSON text, the text,
// then the elements of all tensors without gaps. https://github.com/huggingface/safetensors
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "anyop/dtype.h"
#include "platform/json.h"

namespace anyop {

// Our headers end at a multiple of this, so that the elements of a file that is mapped into memory
// are aligned as those that anyop allocates.
inline constexpr std::int64_t kSafetensorsAlignment = 64;

// The format's name for a dtype; and the dtype that has a name in the format, or -1.
std::string_view SafetensorsName(DType dtype);
int FindSafetensorsName(std::string_view name);

class SafetensorsHeader {
 public:
  explicit SafetensorsHeader(std::string_view format);
  // Only before the first tensor.
  SafetensorsHeader& Metadata(std::string_view key, std::string_view value);
  // Tensors in the order in which their elements follow.
  void Add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
           std::int64_t bytes);
  // The header with its length, and blanks up to the alignment.
  std::string Finish();

 private:
  void EndMetadata();

  JsonWriter json_;
  bool is_in_metadata_ = true;
  std::int64_t at_ = 0;
};

}  // namespace anyop
