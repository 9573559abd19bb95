// SPDX-License-Identifier: Apache-2.0
// What a definition of an operator says of its tensors and attributes, and whether a call fits it.
#pragma once
#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "anyop_ascend/host/context.h"

namespace anyop_ascend {
namespace host {

struct Attribute {
  std::string name;
  char kind = 0;
  bool has_default = false;
  std::int64_t integer = 0;
  float number = 0;
  std::string text;
  std::vector<std::int64_t> integers;
  std::vector<float> numbers;

  anyop_ascend_attribute value() const {
    return {
        name.c_str(),   kind,
        integer,        number,
        text.c_str(),   integers.data(),
        numbers.data(), static_cast<std::uint32_t>(kind == 'I' ? integers.size() : numbers.size())};
  }
};

// An input or output. types: of DataType, where place i belongs to place i of the other tensors;
// any: of DataTypeList, which go with all of theirs. Empty: not said.
struct Parameter {
  std::string name;
  bool is_required = false;
  bool is_list = false;
  std::vector<ge::DataType> types;
  std::vector<ge::DataType> any;
};

// What is known of an operator.
struct Definition {
  std::deque<Parameter> inputs;
  std::deque<Parameter> outputs;
  std::deque<Attribute> attributes;

  std::string Json() const {
    std::string out = "{\"inputs\": " + Names(inputs) + ", \"outputs\": " + Names(outputs);
    out += ", \"attributes\": [";
    for (const Attribute& a : attributes) {
      out += &a == &attributes.front() ? "" : ", ";
      out += "{\"name\": \"" + a.name + "\", \"kind\": \"" + std::string(a.kind ? 1 : 0, a.kind) +
             "\", \"optional\": " + (a.has_default ? "true}" : "false}");
    }
    return out + "]}";
  }

 private:
  static std::string Names(const std::deque<Parameter>& all) {
    std::string out = "[";
    for (const Parameter& one : all) out += (out.size() > 1 ? ", \"" : "\"") + one.name + "\"";
    return out + "]";
  }
};

// A tensor of a call beside its parameter.
struct Matched {
  const Parameter* parameter;
  ge::DataType type;
};
// The tensors of each parameter; of a list it is all of them.
inline void Match(const std::deque<Parameter>& known, const anyop_ascend_tensor* given,
                  std::uint32_t count, std::vector<Matched>& to) {
  for (std::size_t i = 0, p = 0; i < count && p < known.size(); ++i) {
    if (given[i].dtype >= 0) to.push_back({&known[p], static_cast<ge::DataType>(given[i].dtype)});
    if (!given[i].more) ++p;
  }
}
inline std::size_t NumberOfArguments(const anyop_ascend_tensor* given, std::uint32_t count) {
  return static_cast<std::size_t>(
      std::count_if(given, given + count, [](const anyop_ascend_tensor& t) { return !t.more; }));
}
// Whether a list is given where the definition has one, and nowhere else.
inline bool HasLists(const Definition& known, const anyop_ascend_tiling_call& call,
                     std::string& why) {
  for (std::size_t i = 0, p = 0; i < call.inputs && p < known.inputs.size(); ++i) {
    if (!call.input[i].more) {
      ++p;
      continue;
    }
    if (known.inputs[p].is_list) continue;
    why = "the input '" + known.inputs[p].name +
          "' is no list of tensors by its definition. Try DYNAMIC, or one tensor";
    return false;
  }
  return true;
}

inline std::string Shown(const std::vector<ge::DataType>& types) {
  std::string out;
  std::vector<ge::DataType> told;
  for (const ge::DataType type : types) {
    if (std::find(told.begin(), told.end(), type) != told.end()) continue;
    told.push_back(type);
    out += std::string(out.empty() ? "" : ", ") + ge::NameOf(type);
  }
  return out;
}

// Whether every REQUIRED input is given.
inline bool HasInputs(const Definition& known, const anyop_ascend_tiling_call& call,
                      std::string& why) {
  std::size_t at = 0;  // of the first tensor of the argument
  for (const Parameter& p : known.inputs) {
    const bool is_given = at < call.inputs && call.input[at].dtype >= 0;
    if (!is_given && p.is_required) {
      why = "the input '" + p.name +
            "' is REQUIRED by its definition, but is not "
            "given. Inputs are the tensors that are no `out`, in order";
      return false;
    }
    while (at < call.inputs && call.input[at].more) ++at;
    ++at;
  }
  return true;
}

// Whether the types of a call are among those of the definition, each and together.
inline bool HasTypes(const Definition& known, const anyop_ascend_tiling_call& call,
                     std::string& why) {
  std::vector<Matched> tensors;
  Match(known.inputs, call.input, call.inputs, tensors);
  // With another number of outputs an input is one of them, such as one that is written in place.
  if (NumberOfArguments(call.output, call.outputs) == known.outputs.size()) {
    Match(known.outputs, call.output, call.outputs, tensors);
  }
  std::vector<bool> columns;
  std::string together;
  for (const Matched& one : tensors) {
    const Parameter& p = *one.parameter;
    const auto& types = p.types.empty() ? p.any : p.types;
    if (types.empty()) continue;
    if (std::find(types.begin(), types.end(), one.type) == types.end()) {
      why = "'" + p.name + "' is " + ge::NameOf(one.type) + ", but its definition takes " +
            Shown(types) + ". Try one of these, or add the type to DataType of the definition";
      return false;
    }
    if (p.types.empty()) continue;
    columns.resize(columns.empty() ? types.size() : std::min(columns.size(), types.size()), true);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (types[i] != one.type) columns[i] = false;
    }
    together += (together.empty() ? "'" : ", '") + p.name + "' is " + ge::NameOf(one.type);
  }
  if (columns.empty() || std::find(columns.begin(), columns.end(), true) != columns.end()) {
    return true;
  }
  why = together +
        ", but no place of the lists of DataType has these together. Try types of one "
        "place, or add a place to each list";
  return false;
}

}  // namespace host
}  // namespace anyop_ascend
