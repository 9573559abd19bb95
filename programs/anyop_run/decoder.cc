// SPDX-License-Identifier: Apache-2.0
#include "decoder.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace anyop {
namespace {

using Json = nlohmann::json;

constexpr const char* kRoles[] = {"tokens", "positions", "starts", "lengths"};

[[noreturn]] void Refuse(const std::string& text) { throw Error(ANYOP_INVALID_ARGUMENT, text); }

// Other numbers convert silently.
std::int64_t Whole(const Json& number, const char* what) {
  if (!number.is_number_integer() ||
      (number.is_number_unsigned() && number.get<std::uint64_t>() >> 63)) {
    Refuse(std::string("\"") + what + "\" must be a whole number.");
  }
  return number.get<std::int64_t>();
}

const CompiledGraph& GraphOf(const std::vector<CompiledGraph>& graphs, const std::string& name) {
  for (const CompiledGraph& g : graphs) {
    if (g.name() == name) return g;
  }
  Refuse("there is no graph '" + name + "', but the decoder calls it.");
}

int RoleOf(const Json& inputs, const GraphPort& port) {
  if (!inputs.contains(port.name)) Refuse("nothing says what the input " + port.name + " is.");
  const std::string role = inputs.at(port.name).get<std::string>();
  for (int k = 0; k < 4; ++k) {
    if (role == kRoles[k]) return k;
  }
  Refuse("the input " + port.name + " is '" + role +
         "', but must be tokens, positions, starts or lengths.");
}

void Set(const Array& array, std::int64_t at, std::int64_t value) {
  if (array.dtype() == DType::kI64) {
    array.at<std::int64_t>(at) = value;
  } else {
    array.at<std::int32_t>(at) = std::int32_t(value);
  }
}

std::int64_t Get(const Array& array) {
  if (array.size() != 1) Refuse("the next token must be one number.");
  if (array.dtype() == DType::kI64) return *array.data<std::int64_t>();
  if (array.dtype() == DType::kI32) return *array.data<std::int32_t>();
  Refuse("the next token must be i32 or i64.");
}

}  // namespace

Decoder::Decoder(const std::string& path, const LoadOptions& options) {
  std::string metadata;
  const std::vector<CompiledGraph> graphs = LoadGraphs(path, &metadata, options);
  try {
    const Json all = Json::parse(metadata);
    if (!all.is_object() || !all.contains("decoder")) {
      Refuse("its metadata says nothing of a \"decoder\", so these graphs are something else.");
    }
    const Json& facts = all.at("decoder");
    chunk_ = Whole(facts.at("chunk"), "chunk");
    max_tokens_ = Whole(facts.at("max_tokens"), "max_tokens");
    for (const Json& id : facts.at("end_ids")) end_ids_.push_back(Whole(id, "end_ids"));
    if (chunk_ < 1 || max_tokens_ < 1 || max_tokens_ > std::numeric_limits<std::int32_t>::max()) {
      Refuse("\"chunk\" and \"max_tokens\" must be 1 or more, and below 2^31.");
    }
    for (Step* step : {&prefill_, &decode_}) {
      step->graph = GraphOf(graphs, facts.at(step == &prefill_ ? "prefill" : "decode"));
      for (const GraphPort& port : step->graph.inputs()) {
        if (!port.is_tensor || (port.dtype != DType::kI64 && port.dtype != DType::kI32)) {
          Refuse("the input " + port.name + " is " + port.type + ", but must be i32 or i64.");
        }
        step->roles.push_back(Role(RoleOf(facts.at("inputs"), port)));
      }
      const std::vector<GraphPort> outputs = step->graph.outputs();
      const auto token = std::find_if(outputs.begin(), outputs.end(), [&](const GraphPort& port) {
        return port.name == facts.at("token").get<std::string>();
      });
      if (token == outputs.end()) Refuse("no output is the next token.");
      step->token = std::size_t(token - outputs.begin());
    }
  } catch (const Json::exception& e) {
    throw Error(ANYOP_INVALID_ARGUMENT, path + ": the decoder's metadata are damaged: " + e.what());
  } catch (const Error& e) {
    throw Error(e.code, path + ": " + e.what());
  }
}

std::int64_t Decoder::Append(std::span<const std::int64_t> tokens) {
  if (tokens.empty()) Refuse("The prompt is empty, but must hold at least one token.");
  if (std::int64_t(tokens.size()) > max_tokens_ - length_) {
    Refuse("The sequence would be " + std::to_string(length_ + std::int64_t(tokens.size())) +
           " tokens long, but the model holds " + std::to_string(max_tokens_) + ".");
  }
  std::int64_t next = -1;
  while (!tokens.empty()) {
    const std::size_t n = std::min(tokens.size(), std::size_t(chunk_));
    next = Run(n == 1 ? &decode_ : &prefill_, tokens.first(n));
    tokens = tokens.subspan(n);
  }
  return next;
}

bool Decoder::IsEnd(std::int64_t token) const {
  return std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end();
}

std::int64_t Decoder::Run(Step* step, std::span<const std::int64_t> tokens) {
  const std::int64_t t = std::int64_t(tokens.size());
  if (step->tokens != t) {
    step->inputs.clear(), step->arguments.clear();
    const std::vector<GraphPort> ports = step->graph.inputs();
    for (std::size_t k = 0; k < ports.size(); ++k) {
      const std::int64_t sizes[] = {t, t, 2, 1};
      step->inputs.push_back(Array::Zeros({sizes[step->roles[k]]}, ports[k].dtype));
    }
    for (const Array& a : step->inputs) step->arguments.push_back(a);
    step->tokens = t;
  }
  for (std::size_t k = 0; k < step->inputs.size(); ++k) {
    const Array& input = step->inputs[k];
    const Role role = step->roles[k];
    if (role == kStarts) Set(input, 1, t);
    if (role == kLengths) Set(input, 0, length_ + t);
    for (std::int64_t i = 0; role <= kPositions && i < t; ++i) {
      Set(input, i, role == kTokens ? tokens[std::size_t(i)] : length_ + i);
    }
  }
  const std::int64_t next = Get(step->graph.Run(step->arguments)[step->token]);
  length_ += t;
  return next;
}

}  // namespace anyop
