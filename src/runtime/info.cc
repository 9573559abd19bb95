// SPDX-License-Identifier: Apache-2.0
// What is known of an operator without a call.
#include <algorithm>
#include <string_view>

#include "platform/json.h"
#include "runtime/device/device.h"
#include "runtime/registry/gradient.h"
#include "runtime/registry/replace.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

// By ParamKind.
constexpr const char* kKindNames[] = {"tensor", "tensors", "int",  "float", "bool",
                                      "word",   "dtype",   "ints", "floats"};

std::string_view Availability(const OperatorKernel& k) {
  return !k.is_built ? "not built" : k.has_features ? "available" : "unavailable";
}

std::string KernelLine(const OperatorKernel& k) {
  std::string line = "  " + k.name;
  if (!k.is_built) return line + ": not built for this machine";
  if (*k.data.when) line += ", when " + std::string(k.data.when);
  if (*k.data.needs) line += ", needs " + std::string(k.data.needs);
  if (!k.is_for_host) line += ", for device " + k.device;
  if (!k.file.empty()) line += ", of " + k.file;
  if (!k.has_features) line += " (this machine has no " + k.missing + ")";
  return line;
}

// Words of devices that some kernel can run on: the host's, then those of loaded libraries. A
// kernel that is a function of Python runs on the host alone (needs_caller).
std::vector<std::string> DeviceWords(const Operator& op) {
  std::vector<std::string> words;
  const auto add = [&](bool has_any, const std::string& word) {
    if (has_any && std::ranges::find(words, word) == words.end()) words.push_back(word);
  };
  for (const OperatorKernel& k : op.kernels) add(k.is_for_host && k.has_features, k.device);
  for (const DeviceKind* kind : DeviceKinds()) {
    add(std::ranges::any_of(op.kernels,
                            [&](const OperatorKernel& k) {
                              return k.has_features && !k.needs_caller && kind->Runs(k.device);
                            }),
        kind->word);
  }
  return words;
}
std::string OtherDevices(const Operator& op) {
  std::string text;
  for (const std::string& word : DeviceWords(op)) {
    if (word != "cpu") text += (text.empty() ? "cpu, " : ", ") + word;
  }
  return text;
}

std::string GradientText(const Operator& op) {
  const GradientWiring* wiring = GradientOf(op);
  if (!wiring) return "";
  std::string text = wiring->op->display_name() + ", of";
  for (int target : wiring->targets) {
    text += (text.ends_with("of") ? " " : ", ");
    text += op.contract->forms[0].params[std::size_t(target)].name;
  }
  return text;
}

// {"op": its full name, "sources": [[kind, name], ...], "targets": [parameter, ...],
// "words": {parameter: those words of it that the gradient takes, where it takes fewer}}, or null.
void WriteGradient(const Operator& op, JsonWriter& json) {
  const GradientWiring* wiring = GradientOf(op);
  if (!wiring) {
    json.Null("gradient");
    return;
  }
  const Form& form = op.contract->forms[0];
  // By GradientSource::Kind.
  constexpr const char* kKinds[] = {"result_gradient", "param", "result"};
  json.Key("gradient").Begin('{').Field("op", wiring->op->name).Key("sources").Begin('[');
  for (const GradientSource& s : wiring->sources) {
    const auto index = std::size_t(s.index);
    const bool is_param = s.kind == GradientSource::kParam;
    json.Begin('[').Value(kKinds[s.kind]);
    json.Value(is_param ? form.params[index].name : form.results[index].name).End(']');
  }
  json.End(']').Key("targets").Begin('[');
  for (int target : wiring->targets) json.Value(form.params[std::size_t(target)].name);
  json.End(']').Key("words").Begin('{');
  for (const GradientWiring::FewerWords& fewer : wiring->fewer_words) {
    json.Key(form.params[std::size_t(fewer.param)].name).Begin('[');
    for (const std::string& word : *fewer.words) json.Value(word);
    json.End(']');
  }
  json.End('}').End('}');
}

}  // namespace

std::string InfoText(const Operator& given) {
  const Operator& op = Latest(given);
  std::string text = op.contract->text + "\n";
  if (!op.doc.empty()) text += "\n" + op.doc + "\n";
  text += "\nKernels, best first:\n";
  for (const OperatorKernel& k : op.kernels) text += KernelLine(k) + "\n";
  if (op.kernels.empty()) {
    text += op.compositions.empty() ? "  none\n" : "  none: it is the calls of .means\n";
  }
  const std::pair<const char*, std::string> facts[] = {
      {"Devices:  ", OtherDevices(op)}, {"Means:    ", op.data->means},
      {"Gradient: ", GradientText(op)}, {"Flops:    ", op.data->flops},
      {"Bytes:    ", op.data->bytes},
  };
  text += "\n";
  for (const auto& [label, value] : facts) {
    if (!value.empty()) text += label + value + "\n";
  }
  return text + "Library:  " + op.file + "\n";
}

std::string InfoJson(const Operator& given) {
  const Operator& op = Latest(given);
  const Form& first = op.contract->forms[0];
  JsonWriter json;
  json.Begin('{');
  json.Field("name", op.name).Field("library", op.library).Field("file", op.file);
  json.Field("source", op.source).Field("doc", op.doc);
  json.Field("signature", op.contract->text).Field("hash", op.contract->hash);
  json.Field("means", op.data->means);
  json.Field("flops", op.data->flops).Field("bytes", op.data->bytes);
  WriteGradient(op, json);
  json.Key("params").Begin('[');
  for (const Param& p : first.params) {
    json.Begin('{').Field("name", p.name).Field("kind", kKindNames[int(p.kind)]);
    json.Field("type", p.tensor.text).Field("default", p.default_text);
    json.Flag("required", !p.has_default).Flag("optional", p.is_optional);
    json.Flag("mut", p.is_mut).Flag("dense", p.is_dense).Flag("planned", p.is_planned);
    json.Key("words").Begin('[');
    for (const std::string& word : op.contract->words[std::size_t(&p - first.params.data())]) {
      json.Value(word);
    }
    json.End(']').End('}');
  }
  json.End(']').Key("results").Begin('[');
  for (const Result& r : first.results) {
    json.Begin('{')
        .Field("name", r.name)
        .Field("type", r.tensor.text)
        .Flag("optional", r.is_optional)
        .End('}');
  }
  json.End(']').Key("devices").Begin('[');
  for (const std::string& word : DeviceWords(op)) json.Value(word);
  json.End(']').Key("kernels").Begin('[');
  for (const OperatorKernel& k : op.kernels) {
    json.Begin('{').Field("name", k.name).Field("state", Availability(k));
    json.Field("device", k.device).Field("file", k.file.empty() ? op.file : k.file);
    if (k.is_built) json.Field("when", k.data.when).Field("needs", k.data.needs);
    json.End('}');
  }
  json.End(']').End('}');
  return json.text();
}

}  // namespace anyop
