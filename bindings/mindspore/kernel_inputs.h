// SPDX-License-Identifier: Apache-2.0
// What MindSpore tells a function of an operator plug-in beyond the addresses: its KernelInputInfo,
// an interface whose virtual functions are found by their number. Called here are only those that
// are the same in every C++ ABI of libstdc++. A test and the host compare the order with the header
// that MindSpore's wheel carries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace anyop::mindspore {

struct Layout {
  std::vector<std::int64_t> strides;  // in elements
  std::size_t storage_offset;         // in elements
};

class KernelInputs {
 public:
  virtual ~KernelInputs() = default;
  virtual bool IsScalarInput(std::size_t index) = 0;
  virtual std::size_t GetInputSize() = 0;
  virtual bool GetBoolInput(std::size_t index) = 0;
  virtual std::int64_t GetIntInput(std::size_t index) = 0;
  virtual double GetFloatInput(std::size_t index) = 0;
  virtual std::string GetStrInput(std::size_t index) = 0;  // another ABI
  virtual std::vector<std::int64_t> GetIntVecInput(std::size_t index) = 0;
  virtual std::vector<double> GetFloatVecInput(std::size_t index) = 0;
  virtual std::vector<std::vector<std::int64_t>> GetInt2DVecInput(std::size_t index) = 0;
  virtual std::vector<std::vector<double>> GetFloat2DVecInput(std::size_t index) = 0;
  virtual int GetInputTypeId(std::size_t index) = 0;
  virtual std::optional<Layout> GetInputTensorLayout(std::size_t index) = 0;
};

}  // namespace anyop::mindspore
