// SPDX-License-Identifier: Apache-2.0
#include "plugin.h"

#include <cstring>
#include <stdexcept>
#include <vector>

#include "dtypes.h"

namespace anyop::mindspore {
namespace {

DType DTypeOf(const Given& given, int index) {
  const DTypeRow* row = FindDType(given.dtypes[index]);
  if (!row)
    Refuse(given, "a tensor is " + std::string(given.dtypes[index]) +
                      ", but anyop has no such dtype. Try a cast to float32.");
  return DType(FromDL(row->dtype));
}

bool IsInput(const Given& given, int index) {
  return given.inputs && std::size_t(index) < given.inputs->GetInputSize();
}

// A number is memory of one element, of the dtype that MindSpore gives Python's numbers.
template <class T>
T NumberAt(const Given& given, int index) {
  const Array x = given.tensor(index);
  if (!x.is_none() && x.size() == 1) {
    switch (x.dtype()) {
      case DType::kF64:
        return T(*x.data<double>());
      case DType::kF32:
        return T(*x.data<float>());
      case DType::kI64:
        return T(*x.data<std::int64_t>());
      case DType::kI32:
        return T(*x.data<std::int32_t>());
      case DType::kBool:
        return T(*x.data<bool>());
      default:
        break;
    }
  }
  Refuse(given, "input " + std::to_string(index) + " is " + given.dtypes[index] +
                    ", but must be a number.");
}

}  // namespace

void Refuse(const Given& given, const std::string& why) {
  throw std::runtime_error(std::string(given.primitive) + ": " + why);
}

void MustBeAbsent(const Given& given, const char* name, const Array& value) {
  if (value.is_none()) return;
  Refuse(given, std::string(name) + " is given, but anyop's kernels take none. Try None.");
}

Array Given::tensor(int index) const {
  if (!data[index] && !std::strcmp(dtypes[index], "none")) return {};
  const Array::Shape shape{sizes[index], std::size_t(ranks[index])};
  const DType dtype = DTypeOf(*this, index);
  if (IsInput(*this, index) && !inputs->IsScalarInput(std::size_t(index))) {
    // In PyNative a view comes uncopied, with the address of the memory that it is a view of.
    if (const auto layout = inputs->GetInputTensorLayout(std::size_t(index))) {
      char* begin = static_cast<char*>(data[index]);
      if (begin) begin += layout->storage_offset * std::size_t(Bytes(dtype));
      return Array::Wrap(begin, shape, dtype, layout->strides);
    }
  }
  return Array::Wrap(data[index], shape, dtype);
}

double Given::number(int index) const { return NumberAt<double>(*this, index); }
std::int64_t Given::integer(int index) const { return NumberAt<std::int64_t>(*this, index); }

int Serve(const Given& given, int count, Body body) {
  if (given.count != count) {
    Refuse(given, "MindSpore gives it " + std::to_string(given.count) +
                      " inputs and results, but this plug-in knows it with " +
                      std::to_string(count) +
                      ". Try the MindSpore that anyop doctor is content with.");
  }
  try {
    body(given);
  } catch (const std::exception& error) {
    const std::string begin = std::string(given.primitive) + ": ", text = error.what();
    throw std::runtime_error(text.starts_with(begin) ? text : begin + text);
  }
  return 0;
}

Array Contiguous(const Array& x) { return x.is_contiguous() ? x : x.Clone(); }

Array Shaped(const Array& x, std::initializer_list<std::int64_t> shape) {
  return Contiguous(x).Reshape(shape);
}

Array Rows(const Array& x, const Array& weight) {
  if (weight.is_none() || weight.rank() == 1) return x;
  std::vector<std::int64_t> shape(x.shape().begin(), x.shape().end() - weight.rank());
  shape.push_back(weight.size());
  return Contiguous(x).Reshape(shape);
}

Array Flat(const Array& x) { return x.is_none() ? x : Shaped(x, {x.size()}); }

Array As(const Array& x, DType dtype) {
  return x.dtype() == dtype ? x : Call("cast", x, dtype).run()[0];
}
Array ToF32(const Array& x) { return As(x, DType::kF32); }

std::int64_t LastOf(const Array& x) { return x.rank() ? x.dim(-1) : 1; }
std::int64_t Quotient(std::int64_t a, std::int64_t b) { return b ? a / b : 0; }
std::int64_t RowsOf(const Array& x) { return x.tensor().rows(); }

void Copy(const Array& from, const Array& to) { Call("cast", from, to.dtype()).into(to); }

void FillZero(const Array& x) {
  if (x.bytes()) std::memset(x.data(), 0, std::size_t(x.bytes()));
}

const char* StyleOf(const Given& given, std::int64_t mode) {
  if (mode != 0 && mode != 1) {
    Refuse(given, "mode is " + std::to_string(mode) +
                      ", but must be 0 (halves) or 1 (neighbours). Try 0 or 1.");
  }
  return mode ? "gptj" : "neox";
}

}  // namespace anyop::mindspore
