// SPDX-License-Identifier: Apache-2.0
#include "optest/call.h"

#include <sstream>
#include <stdexcept>

#include "optest/exact.h"
#include "optest/failures.h"
#include "optest/frame.h"

namespace anyop::optest {
namespace {

Argument DefaultOf(const Param& p) {
  if (!p.has_default || p.default_is_none) return {};
  switch (p.kind) {
    case ParamKind::kInt:
      return p.default_int;
    case ParamKind::kFloat:
      return p.default_float;
    case ParamKind::kBool:
      return p.default_int != 0;
    case ParamKind::kDType:
      return DType(p.default_int);
    case ParamKind::kWord:
      return std::string(p.words[std::size_t(p.default_int)]);
    case ParamKind::kInts:
      return p.default_ints;
    case ParamKind::kFloats:
      return p.default_floats;
    default:
      return {};
  }
}

void Print(std::ostream& out, const Argument& argument) {
  if (const auto* array = std::get_if<Array>(&argument)) {
    out << array->Text();
  } else if (const auto* arrays = std::get_if<std::vector<Array>>(&argument)) {
    out << arrays->size() << " tensors" << (arrays->empty() ? "" : " " + (*arrays)[0].Text());
  } else if (std::holds_alternative<std::monostate>(argument)) {
    out << "None";
  } else {
    out << ShowScalar(argument);
  }
}

// Runs the call through the runtime, with results of the frame's own.
void RunIn(Operator& op, Frame* frame, const Arrangement& arrangement = {}) {
  const HeldPlan plan = GetPlan(op, frame->values());
  for (int r = 0; r < plan->n_results; ++r) {
    const ResultShape& s = plan->results[r];
    frame->AddResult(r, s.dtype, {s.shape, s.shape + s.rank}, arrangement);
  }
  anyop::Run(op, *GetPlan(op, frame->values()), frame->values());
}

}  // namespace

std::string ShowScalar(const Argument& argument) {
  std::ostringstream out;
  const auto list = [&](const auto& values) {
    out << "[";
    for (std::size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
    out << "]";
  };
  if (const auto* i = std::get_if<std::int64_t>(&argument)) out << *i;
  if (const auto* f = std::get_if<double>(&argument)) out << *f;
  if (const auto* b = std::get_if<bool>(&argument)) out << (*b ? "True" : "False");
  if (const auto* s = std::get_if<std::string>(&argument)) out << "'" << *s << "'";
  if (const auto* d = std::get_if<DType>(&argument)) out << Name(*d);
  if (const auto* is = std::get_if<std::vector<std::int64_t>>(&argument)) list(*is);
  if (const auto* fs = std::get_if<std::vector<double>>(&argument)) list(*fs);
  return out.str();
}

Call::Call(std::string_view op, std::uint64_t seed) : op_(Find(op)), seed_(seed), random_(seed) {
  for (const Param& p : op_->contract->forms[0].params) arguments_.push_back(DefaultOf(p));
}

std::size_t Call::Index(std::string_view name) const {
  const int i = op_->contract->param(name);
  if (i < 0) throw std::runtime_error(op_->name + " has no parameter " + std::string(name));
  return std::size_t(i);
}

Call& Call::Set(std::string_view name, Argument value) {
  const std::size_t i = Index(name);
  const bool wants_float = op_->contract->forms[0].params[i].kind == ParamKind::kFloat;
  const auto* whole = std::get_if<std::int64_t>(&value);
  arguments_[i] = wants_float && whole ? Argument(double(*whole)) : std::move(value);
  return *this;
}

const Argument& Call::argument(std::string_view name) const { return arguments_[Index(name)]; }

bool Call::given(std::string_view name) const {
  return !std::holds_alternative<std::monostate>(argument(name));
}

const Array& Call::array(std::string_view name) const {
  const auto* array = std::get_if<Array>(&argument(name));
  if (!array) throw std::runtime_error(std::string(name) + " is no tensor of this call");
  return *array;
}
Array& Call::array(std::string_view name) {
  return const_cast<Array&>(static_cast<const Call&>(*this).array(name));
}

std::vector<Array>& Call::arrays(std::string_view name) {
  auto* arrays = std::get_if<std::vector<Array>>(&arguments_[Index(name)]);
  if (!arrays) throw std::runtime_error(std::string(name) + " is no list of tensors");
  return *arrays;
}

std::int64_t Call::integer(std::string_view name) const {
  const Argument& a = argument(name);
  if (const auto* b = std::get_if<bool>(&a)) return *b;
  if (const auto* i = std::get_if<std::int64_t>(&a)) return *i;
  throw std::runtime_error(std::string(name) + " is no integer of this call");
}

double Call::number(std::string_view name) const {
  const auto* f = std::get_if<double>(&argument(name));
  return f ? *f : double(integer(name));
}

std::string_view Call::word(std::string_view name) const {
  const auto* word = std::get_if<std::string>(&argument(name));
  if (!word) throw std::runtime_error(std::string(name) + " is no word of this call");
  return *word;
}

std::int64_t Call::Draw(std::int64_t low, std::int64_t high) {
  // Not std::uniform_int_distribution: its sequence differs between libraries.
  return low + std::int64_t(random_() % std::uint64_t(high - low + 1));
}

double Call::value(std::string_view expression) const {
  return EvaluateOn(*op_, arguments_, expression);
}

Results Call::Run(std::string_view kernel) {
  Scope scope;
  if (!kernel.empty()) scope.policy(op_->name + "=" + std::string(kernel));
  return Run(Arrangement());
}

Results Call::Run(const Arrangement& arrangement) {
  Defect defect;
  Results results = Run(arrangement, &defect);
  if (defect) Fail(defect.text + "\n  " + Text());
  return results;
}

Results Call::Run(const Arrangement& arrangement, Defect* defect) {
  Frame frame(*op_, arguments_, arrangement);
  RunIn(*op_, &frame, arrangement);
  *defect = frame.FindDefect(true);
  Results results = frame.Read();
  TakeWritten(*op_, results, &arguments_);
  return results;
}

std::map<std::string, Results> Call::RunEveryKernel() {
  std::map<std::string, Results> all;
  const std::vector<Argument> before = arguments_;
  for (const OperatorKernel& k : op_->kernels) {
    if (!k.is_for_host || !k.is_built || !k.has_features) continue;
    arguments_ = before;
    try {
      all[k.name] = Run(k.name);
    } catch (const Error& e) {
      if (e.code != ANYOP_UNSUPPORTED) throw;
    }
  }
  return all;
}

Results Call::Exact() const { return ExactResults(*op_, arguments_); }

std::string Call::Refusal() const {
  Frame frame(*op_, arguments_);
  try {
    RunIn(*op_, &frame);
  } catch (const Error& e) {
    if (e.code != ANYOP_INVALID_ARGUMENT) Fail(std::string("not an InvalidArgument: ") + e.what());
    if (const Defect defect = frame.FindDefect(false)) Fail(defect.text + "\n  " + Text());
    return e.what();
  }
  Fail("the call is not refused: " + Text());
  return "";
}

std::string Call::Text() const {
  std::ostringstream out;
  out << op_->name << "(";
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    out << (i ? ", " : "") << op_->contract->forms[0].params[i].name << ": ";
    Print(out, arguments_[i]);
  }
  out << ")";
  return out.str();
}

}  // namespace anyop::optest
