// SPDX-License-Identifier: Apache-2.0
#include "map.h"

#include <charconv>

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

int ArgumentNamed(const c10::FunctionSchema& schema, std::string_view name) {
  const std::optional<int> found = schema.argumentIndexWithName(name);
  TORCH_CHECK(found, schema.name(), " has no argument ", name);
  return *found;
}

}  // namespace

Mapping::Source Mapping::Read(const c10::FunctionSchema& schema, std::string_view text) const {
  if (text.starts_with('\'')) return {-1, std::string(text.substr(1, text.size() - 2))};
  if (text == "None") return {-1, c10::IValue()};
  if (text == "True" || text == "False") return {-1, text == "True"};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    return {-1,
            text.find('.') == text.npos ? c10::IValue(std::int64_t(number)) : c10::IValue(number)};
  }
  return {ArgumentNamed(schema, text), {}};
}

Mapping::Mapping(const c10::FunctionSchema& schema, const std::string& name,
                 const std::string& call) {
  if (call == "nothing") return;
  if (call == "True" || call == "False") {
    constant_ = call == "True";
    return;
  }
  const std::string_view text = call;
  const std::size_t open = text.find('('), close = text.find(')'), arrow = text.find("->");
  TORCH_CHECK(open < close && close < arrow && arrow != text.npos, "a row of ", name, " is '", call,
              "', but must be like 'gelu(input, 'tanh') -> out'");
  op_ = &Ours(std::string(text.substr(0, open)).c_str());
  for (std::string_view part : Commas(text.substr(open + 1, close - open - 1))) {
    params_.push_back(Read(schema, part));
  }
  TORCH_CHECK(int(params_.size()) == op_->n_params, op_->name, " takes ", op_->n_params,
              " arguments, but a row of ", name, " has ", params_.size());
  for (std::string_view part : Commas(text.substr(arrow + 2))) {
    results_.push_back(part == "return" ? -1 : ArgumentNamed(schema, part));
  }
}

c10::IValue Mapping::Run(const c10::IValue* arguments) const try {
  if (!op_) return constant_;
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
