// SPDX-License-Identifier: Apache-2.0
#include "signature/owned_call.h"

#include "platform/error.h"
#include "signature/defaults.h"
#include "signature/expression.h"

namespace anyop {

OwnedCall::OwnedCall(const Contract& contract, DLDevice device)
    : contract_(&contract),
      device_(device),
      frame_(std::size_t(contract.n_params() + contract.n_results()), anyop_value{}) {
  for (int i = 0; i < contract.n_params(); ++i) SetDefault(i);
}

const DLTensor* OwnedCall::NewTensor(int i, DType dtype, Shape shape) {
  const auto& params = contract_->forms[0].params;
  const bool is_host = i < contract_->n_params() && params[std::size_t(i)].is_planned;
  const Shape& own = shapes_.emplace_back(std::move(shape));
  const int rank = own == UnknownRank() ? -1 : int(own.size());
  return &tensors_.emplace_back(
      MakeDLTensor(nullptr, is_host ? kHostDevice : device_, ToDL(dtype), rank, own.data()));
}

void OwnedCall::SetTensor(int i, DType dtype, Shape shape) {
  (*this)[i] = TensorValue(NewTensor(i, dtype, std::move(shape)));
}
void OwnedCall::SetTensors(int i, DType dtype, const std::vector<Shape>& shapes) {
  std::vector<std::pair<DType, Shape>> types;
  for (const Shape& shape : shapes) types.emplace_back(dtype, shape);
  SetTensors(i, types);
}
void OwnedCall::SetTensors(int i, const std::vector<std::pair<DType, Shape>>& types) {
  auto& list = lists_.emplace_back();
  for (const auto& [dtype, shape] : types) list.push_back(NewTensor(i, dtype, shape));
  (*this)[i] = TensorsValue(list.data(), list.size());
}
void OwnedCall::SetInt(int i, std::int64_t value) { (*this)[i] = IntValue(value); }
void OwnedCall::SetFloat(int i, double value) { (*this)[i] = FloatValue(value); }
void OwnedCall::SetBool(int i, bool value) { (*this)[i] = BoolValue(value); }
void OwnedCall::SetDType(int i, DType value) { (*this)[i] = DTypeValue(value); }
void OwnedCall::SetWord(int i, std::string_view word) {
  (*this)[i] = WordValue(words_.emplace_back(word), contract_->word(i, word));
}
void OwnedCall::SetInts(int i, std::vector<std::int64_t> values) {
  const auto& list = ints_.emplace_back(std::move(values));
  (*this)[i] = IntsValue(list.data(), list.size());
}
void OwnedCall::SetFloats(int i, std::vector<double> values) {
  const auto& list = floats_.emplace_back(std::move(values));
  (*this)[i] = FloatsValue(list.data(), list.size());
}
void OwnedCall::SetDefault(int i) { DefaultValue(*contract_, i, &frame_[std::size_t(i)]); }

std::string OwnedCall::Text() const {
  std::string out;
  for (std::size_t i = 0; i < frame_.size(); ++i) {
    if (!frame_[i].tag) continue;
    const std::size_t n = contract_->forms[0].params.size();
    const std::string_view name =
        i < n ? contract_->forms[0].params[i].name : contract_->forms[0].results[i - n].name;
    out += (out.empty() ? "" : ", ") + std::string(name) + " = " + Show(frame_[i]);
  }
  return out;
}

namespace {

class CallParser : public parse::Lexer {
 public:
  CallParser(const Contract& c, std::string_view call, DLDevice device)
      : Lexer{call}, contract_(c), call_(c, device) {}

  OwnedCall Parse() {
    Skip();
    while (at < text.size()) {
      ParseArgument();
      Skip();
      if (at < text.size()) Need(",", "expected , between arguments");
    }
    return std::move(call_);
  }

 private:
  void ParseArgument() {
    const std::size_t start = (Skip(), at);
    const std::string_view name = Name("expected the name of an argument");
    int i = contract_.param(name);
    const int r = contract_.result(name);
    if (i < 0 && r < 0) parse::Fail("no parameter or result has this name", start);
    const bool is_result = i < 0;
    if (is_result) i = contract_.n_params() + r;
    Need("=", "expected = and a value");
    Skip();
    if (EatName("None")) return call_.Clear(i);
    if (EatName("True")) return call_.SetBool(i, true);
    if (EatName("False")) return call_.SetBool(i, false);
    if (Peek() == '\'') return call_.SetWord(i, Word());
    if (Eat("[")) return ParseList(i);
    if (const int d = FindDType(PeekName()); d >= 0) {
      at += PeekName().size();
      const bool is_dtype =
          !is_result && contract_.forms[0].params[std::size_t(i)].kind == ParamKind::kDType;
      return is_dtype ? call_.SetDType(i, anyop::DType(d))
                      : call_.SetTensor(i, anyop::DType(d), ParseShape());
    }
    const bool is_tensor = is_result || IsTensor(contract_.forms[0].params[std::size_t(i)].kind);
    if (is_tensor && !PeekName().empty()) parse::Fail(parse::kNoDType, at);
    const bool is_float =
        !is_result && contract_.forms[0].params[std::size_t(i)].kind == ParamKind::kFloat;
    const parse::Literal n = Number();
    n.is_float || is_float ? call_.SetFloat(i, n.f) : call_.SetInt(i, n.i);
  }
  Shape ParseShape() {
    Shape shape;
    Need("[", "expected [ and the dimensions");
    if (Eat("]")) return shape;
    if (Eat("...")) {
      Need("]", "expected ]");
      return UnknownRank();
    }
    do {
      if (!PeekName().empty()) FailHere("expected a number: a call has sizes, not their names");
      shape.push_back(Eat("?") ? -1 : Number().i);
    } while (Eat(","));
    Need("]", "expected ]");
    return shape;
  }
  void ParseList(int i) {
    const bool is_result = i >= contract_.n_params();
    const ParamKind kind =
        is_result ? ParamKind::kTensors : contract_.forms[0].params[std::size_t(i)].kind;
    std::vector<std::int64_t> ints;
    std::vector<double> floats;
    std::vector<std::pair<anyop::DType, Shape>> types;
    while (!Eat("]")) {
      if (FindDType(PeekName()) >= 0) {
        const auto dtype = anyop::DType(DType());
        types.emplace_back(dtype, ParseShape());
      } else {
        const parse::Literal n = Number();
        ints.push_back(n.i), floats.push_back(n.f);
      }
      if (!At("]")) Need(",", "expected , or ]");
    }
    if (kind == ParamKind::kTensors) return call_.SetTensors(i, types);
    kind == ParamKind::kFloats ? call_.SetFloats(i, floats) : call_.SetInts(i, ints);
  }

  const Contract& contract_;
  OwnedCall call_;
};

}  // namespace

OwnedCall ParseCall(const Contract& contract, std::string_view text, DLDevice device) {
  try {
    return CallParser(contract, text, device).Parse();
  } catch (const SignatureError& e) {
    Fail(ANYOP_INVALID_ARGUMENT, "arguments of " + contract.name + ", " + PointAt(text, e));
  }
}

}  // namespace anyop
