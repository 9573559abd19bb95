// SPDX-License-Identifier: Apache-2.0
#include "map.h"

#include <charconv>
#include <functional>
#include <optional>

#include "bindings/torch/allocate.h"
#include "runtime/plan/calling_host.h"
#include "runtime/run/call.h"

namespace anyop::vllm_host {
namespace {

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(Trim(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

c10::IValue ReadConstant(std::string_view text) {
  if (text.starts_with('\'')) return std::string(text.substr(1, text.size() - 2));
  if (text == "None") return {};
  if (text == "True" || text == "False") return text == "True";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  TORCH_CHECK(error == std::errc() && end == text.data() + text.size(), "'", text,
              "' is no word in quotes, number, True, False or None");
  return text.find('.') == text.npos ? c10::IValue(std::int64_t(number)) : c10::IValue(number);
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

// The type of an argument, be it optional.
c10::TypeKind KindOf(const c10::Argument& argument) {
  const c10::TypePtr& type = argument.type();
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind();
}

bool Fits(ParamKind param, c10::TypeKind argument) {
  switch (param) {
    case ParamKind::kTensor:
      return argument == c10::TypeKind::TensorType;
    case ParamKind::kFloat:
      return argument == c10::TypeKind::FloatType;
    case ParamKind::kInt:
      return argument == c10::TypeKind::IntType;
    case ParamKind::kBool:
      return argument == c10::TypeKind::BoolType;
    case ParamKind::kWord:
      return argument == c10::TypeKind::StringType;
    default:
      return false;
  }
}

c10::IValue DefaultOf(const TorchOperator& op, const std::string& param) {
  const std::string name = "anyop::" + op.op->contract->name;
  const auto ours = c10::Dispatcher::singleton().findSchema({name, ""});
  const std::optional<int> i = ours ? ours->schema().argumentIndexWithName(param) : std::nullopt;
  const auto value = i ? ours->schema().arguments()[std::size_t(*i)].default_value() : std::nullopt;
  TORCH_CHECK(value, "nothing is left for ", param, " of ", op.name, ", which has no default");
  return *value;
}

// What of vLLM's arguments an operator may read, and what is left of it.
class GivenArguments {
 public:
  GivenArguments(const c10::FunctionSchema& schema, const TorchOperator& op) : schema_(schema) {
    std::size_t needed = 0, read = 0;
    for (int i = 0; i < op.n_params; ++i) {
      needed += op.kinds[i] == ParamKind::kTensor && !op.param(i).is_optional;
    }
    for (const c10::Argument& a : schema.arguments()) {
      read += KindOf(a) == c10::TypeKind::TensorType && !IsWritten(a);
    }
    for (const c10::Argument& a : schema.arguments()) {
      is_left_.push_back(!IsWritten(a) || read < needed);
    }
  }
  // -1: none that is left has the name, or the kind.
  int TakeNamed(std::string_view name, ParamKind kind) {
    const std::optional<int> i = schema_.argumentIndexWithName(name);
    return i ? TakeIfFits(std::size_t(*i), kind) : -1;
  }
  int TakeNext(ParamKind kind) {
    for (std::size_t i = 0; i < is_left_.size(); ++i) {
      if (const int taken = TakeIfFits(i, kind); taken >= 0) return taken;
    }
    return -1;
  }
  void CheckNoneIsLeft(const TorchOperator& op) const {
    for (std::size_t i = 0; i < is_left_.size(); ++i) {
      TORCH_CHECK(!is_left_[i], "no parameter of ", op.name, " takes ",
                  schema_.arguments()[i].name());
    }
  }

 private:
  int TakeIfFits(std::size_t i, ParamKind kind) {
    if (!is_left_[i] || !Fits(kind, KindOf(schema_.arguments()[i]))) return -1;
    is_left_[i] = false;
    return int(i);
  }

  const c10::FunctionSchema& schema_;
  std::vector<bool> is_left_;
};

}  // namespace

std::map<std::string, c10::IValue, std::less<>> ReadConstants(std::string_view text) {
  std::map<std::string, c10::IValue, std::less<>> constants;
  for (const std::string_view part : Commas(text)) {
    const std::size_t equals = part.find('=');
    TORCH_CHECK(equals != part.npos, "'", part, "' is no constant like kind = 'tanh'");
    constants.emplace(Trim(part.substr(0, equals)), ReadConstant(Trim(part.substr(equals + 1))));
  }
  return constants;
}

Mapping::Mapping(const c10::FunctionSchema& schema, const TorchOperator& op,
                 std::string_view constants)
    : op_(&op), params_(std::size_t(op.n_params)) {
  auto given = ReadConstants(constants);
  GivenArguments arguments(schema, op);
  std::vector<bool> is_known(params_.size());
  for (int i = 0; i < op.n_params; ++i) {
    Source& source = params_[std::size_t(i)];
    if (const auto found = given.find(op.param(i).name); found != given.end()) {
      source.constant = found->second;
      given.erase(found);
      is_known[std::size_t(i)] = true;
    } else {
      source.argument = arguments.TakeNamed(op.param(i).name, op.kinds[i]);
      is_known[std::size_t(i)] = source.argument >= 0;
    }
  }
  TORCH_CHECK(given.empty(), op.name, " has no parameter ", given.begin()->first);
  for (int i = 0; i < op.n_params; ++i) {
    if (is_known[std::size_t(i)]) continue;
    Source& source = params_[std::size_t(i)];
    source.argument = arguments.TakeNext(op.kinds[i]);
    if (source.argument < 0) source.constant = DefaultOf(op, std::string(op.param(i).name));
  }
  arguments.CheckNoneIsLeft(op);
  if (!schema.returns().empty()) {
    results_.push_back(-1);
  } else {
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      if (IsWritten(schema.arguments()[i])) results_.push_back(int(i));
    }
  }
  TORCH_CHECK(int(results_.size()) <= op.n_results, op.name, " has ", op.n_results,
              " results, but ", results_.size(), " are asked for");
}

c10::IValue Mapping::Run(const c10::IValue* arguments) const try {
  c10::SmallVector<c10::IValue, 8> given;
  for (const Source& s : params_) {
    given.push_back(s.argument < 0 ? s.constant : arguments[s.argument]);
  }
  torch_host::Frame frame(*op_);
  frame.FillParams(given.data(), false);
  for (int r = 0; r < op_->n_results; ++r) {
    frame.SetNone(op_->n_params + r);
    const int to = r < int(results_.size()) ? results_[std::size_t(r)] : -1;
    if (to >= 0) frame.SetResult(r, arguments[to].toTensor());
  }
  const HeldPlan plan = GetPlan(*op_->op, frame.values());
  at::Tensor fresh;
  if (!results_.empty() && results_[0] < 0) {
    const ResultShape& shape = plan->results[0];
    fresh = torch_host::EmptyCpu({shape.shape, std::size_t(shape.rank)},
                                 torch_host::ToTorch(shape.dtype));
    frame.SetFresh(0, fresh, shape, plan->device);
  }
  static const HostName torch = InternHostName("torch");
  const CallingHost host(torch);
  anyop::Run(*op_->op, *plan, frame.values());
  return fresh.defined() ? c10::IValue(std::move(fresh)) : c10::IValue();
} catch (const Error& e) {
  torch_host::RaiseTorchError(e.code, e.what());
}

}  // namespace anyop::vllm_host
