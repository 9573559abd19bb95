// SPDX-License-Identifier: Apache-2.0
#include "hosting/graph_call.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "graph/builder/parse_graph.h"
#include "graph/ir/alias.h"
#include "graph/ir/text.h"
#include "graph/saved/files.h"
#include "graph/saved/load.h"
#include "graph/saved/manifest.h"
#include "platform/error.h"
#include "platform/hash_bytes.h"
#include "signature/fitted.h"

namespace anyop {
namespace {

// Without the lines of the user's program: the same graph has the same text wherever it was made.
Graph WithoutPlaces(Graph graph) {
  for (GraphValue& v : graph.values) v.place.clear();
  for (GraphNode& n : graph.nodes) n.place.clear();
  return graph;
}

[[noreturn]] void RefuseGraph(const std::string& what) {
  Fail(ANYOP_INVALID_ARGUMENT, "graph: " + what);
}

// The numbers in the order of the inputs; throws unless there is exactly one of the right kind for
// each input that is no tensor.
std::vector<GraphNumber> InOrder(const Graph& graph, std::vector<GraphNumber> numbers) {
  std::vector<GraphNumber> ordered;
  for (const int id : graph.inputs) {
    const GraphValue& v = graph.value(id);
    if (v.kind != GraphValue::kScalar) continue;
    const auto found = std::find_if(numbers.begin(), numbers.end(),
                                    [&](const GraphNumber& n) { return n.name == v.name; });
    if (found == numbers.end()) {
      RefuseGraph(v.name + " is missing: a bound call fixes the inputs that are no tensors.");
    }
    anyop_value& given = found->value;
    given = Fitted(v.scalar, given);
    if (given.tag != TagOf(v.scalar)) {
      RefuseGraph(v.name + " is " + ShowExact(given) + ", but must be " + ShowType(graph, id) +
                  ".");
    }
    ordered.push_back(std::move(*found));
    numbers.erase(found);
  }
  if (!numbers.empty()) RefuseGraph("no input that is a number is called " + numbers[0].name + ".");
  return ordered;
}

// A size that is a*symbol + b, with one symbol: such a size can be solved for the symbol.
struct Linear {
  int symbol = -1;
  std::int64_t a = 0, b = 0;
};
std::optional<Linear> LinearOf(const Size& size) {
  Linear found;
  for (const SizeTerm& t : size.terms()) {
    if (t.symbols.empty()) {
      found.b = t.factor;
    } else if (t.symbols.size() == 1 && found.symbol < 0) {
      found.symbol = t.symbols[0];
      found.a = t.factor;
    } else {
      return std::nullopt;
    }
  }
  return found.symbol >= 0 ? std::optional(found) : std::nullopt;
}

// The digest of the manifest, which stands for the folder: it holds the digests of all other files.
std::string DigestOfFolder(const std::string& path) {
  const std::string manifest = ReadText(path + "/" + kManifestFile);
  return DigestOf(HashBytes(manifest.data(), manifest.size()));
}

Graph ReadSaved(const GraphText& text) {
  LoadedGraphs loaded = ReadGraph(text.path, text.name);
  const std::string digest = DigestOfFolder(text.path);
  if (digest != text.digest) {
    RefuseGraph(text.path + " has the digest " + digest + ", but " + text.digest +
                " when the call was bound: it was saved anew. Try binding it again.");
  }
  Graph graph = std::move(loaded.graphs[0].graph);
  const std::vector<bool> written = WrittenRoots(graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!written[v] || graph.values[v].array.is_none()) continue;
    RefuseGraph(graph.values[v].name +
                " is state that the graph writes, but every node with this text would share it. "
                "Try an input in its place.");
  }
  return graph;
}

class GraphCall : public BoundCall {
 public:
  GraphCall(GraphText text, const ScopeState& scope)
      : BoundCall(scope),
        executable_(WithoutPlaces(text.path.empty() ? ParseGraph(text.graph) : ReadSaved(text)),
                    LoadedOptions()),
        numbers_(InOrder(graph(), std::move(text.numbers))) {
    text.numbers = numbers_;
    text_ =
        text.path.empty() ? TextOfGraphCall(graph(), numbers_, scope) : ShowCallText(text, scope);
    const std::vector<bool> written = WrittenRoots(graph());
    auto number = numbers_.begin();
    for (const int id : graph().inputs) {
      const GraphValue& v = graph().value(id);
      if (v.kind == GraphValue::kScalar) {
        frame_.push_back((number++)->value);
        continue;
      }
      frame_.push_back(TensorValue(nullptr));
      inputs_.push_back({v.name, v.dtype, written[std::size_t(id)]});
    }
    for (const GraphOutput& o : graph().outputs) {
      results_.push_back({o.name, int(graph().value(o.value).dtype), {}});
    }
  }

 private:
  const Graph& graph() const { return executable_.graph(); }

  std::vector<anyop_value> Frame(const DLTensor* inputs) const {
    std::vector<anyop_value> frame = frame_;
    for (anyop_value& v : frame) {
      if (v.tag == ANYOP_TENSOR) v.t = inputs++;
    }
    return frame;
  }

  void DoRun(const DLTensor* inputs, const DLTensor* results) const override {
    const std::vector<anyop_value> frame = Frame(inputs);
    std::vector<const DLTensor*> outputs;
    for (std::size_t r = 0; r < results_.size(); ++r) outputs.push_back(&results[r]);
    executable_.Replay(*executable_.Prepare(frame), frame, outputs);
  }

  void DoInfer(std::span<const DLTensor> inputs, ResultShape* results) const override {
    const auto is_unknown = [](const DLTensor& t) {
      return t.ndim < 0 || std::any_of(t.shape, t.shape + t.ndim, [](auto n) { return n < 0; });
    };
    if (std::none_of(inputs.begin(), inputs.end(), is_unknown)) {
      const std::shared_ptr<Specialisation> s = executable_.Prepare(Frame(inputs.data()));
      std::ranges::copy(OutputsOf(*s), results);
      return;
    }
    const std::vector<std::optional<std::int64_t>> symbols = Symbols(inputs);
    for (const GraphOutput& o : graph().outputs) {
      const GraphValue& v = graph().value(o.value);
      ResultShape& result = *results++;
      result = {v.dtype, int(v.shape.size()), {}, 0};
      for (std::size_t d = 0; d < v.shape.size(); ++d) {
        result.shape[d] = At(v.shape[d], symbols).value_or(-1);
      }
    }
  }

  // The symbols that the known sizes give; throws where these contradict the graph. The first pass
  // solves sizes of one symbol. The second one compares all sizes, because a size may have symbols
  // that only a later input gives.
  std::vector<std::optional<std::int64_t>> Symbols(std::span<const DLTensor> inputs) const {
    std::vector<std::optional<std::int64_t>> symbols(graph().symbols.size());
    auto number = numbers_.begin();
    for (const int id : graph().inputs) {
      const GraphValue& v = graph().value(id);
      if (v.kind != GraphValue::kScalar) continue;
      if (v.symbol >= 0) symbols[std::size_t(v.symbol)] = number->value.i;
      ++number;
    }
    ForSizes(inputs, [&](const DLTensor&, int, const Size& want, std::int64_t size) {
      const auto linear = LinearOf(want);
      if (!linear || symbols[std::size_t(linear->symbol)]) return;
      if ((size - linear->b) % linear->a == 0 && (size - linear->b) / linear->a >= 0) {
        symbols[std::size_t(linear->symbol)] = (size - linear->b) / linear->a;
      }
    });
    ForSizes(inputs, [&](const DLTensor& t, int id, const Size& want, std::int64_t size) {
      const std::optional<std::int64_t> value = At(want, symbols);
      const auto linear = LinearOf(want);
      const bool is_wrong =
          value ? *value != size : linear && !symbols[std::size_t(linear->symbol)];
      if (!is_wrong) return;
      RefuseGraph(graph().value(id).name + " is " + Show(t) + ", but must be " +
                  ShowType(graph(), id) +
                  (value && !want.is_constant()
                       ? ", and " + ShowSize(graph(), want) + " is " + std::to_string(*value)
                       : "") +
                  ".");
    });
    return symbols;
  }
  // f(tensor, value, size by the graph, size given) for each size that is given.
  template <class F>
  void ForSizes(std::span<const DLTensor> inputs, F&& f) const {
    auto t = inputs.begin();
    for (const int id : graph().inputs) {
      const GraphValue& v = graph().value(id);
      if (v.kind == GraphValue::kScalar) continue;
      if (t->ndim >= 0 && t->ndim != int(v.shape.size())) {
        RefuseGraph(v.name + " is " + Show(*t) + ", but must be " + ShowType(graph(), id) + ".");
      }
      for (int d = 0; d < t->ndim; ++d) {
        if (t->shape[d] >= 0) f(*t, id, v.shape[std::size_t(d)], t->shape[d]);
      }
      ++t;
    }
  }
  static std::optional<std::int64_t> At(const Size& size,
                                        const std::vector<std::optional<std::int64_t>>& symbols) {
    std::vector<std::int64_t> known;
    for (const auto& s : symbols) known.push_back(s.value_or(0));
    for (const SizeTerm& t : size.terms()) {
      for (const int s : t.symbols) {
        if (!symbols[std::size_t(s)]) return std::nullopt;
      }
    }
    return size.At(known);
  }

  BoundGradient MakeGradient(std::span<const std::uint8_t>,
                             std::span<const std::uint8_t>) const override {
    Fail(ANYOP_UNSUPPORTED, "graph: it has no gradient, but one is wanted.");
  }
  std::string shown_name() const override { return "graph"; }

  mutable Executable executable_;  // safe from any thread
  const std::vector<GraphNumber> numbers_;
  std::vector<anyop_value> frame_;  // without tensors
};

}  // namespace

std::string TextOfGraphCall(const Graph& graph, std::vector<GraphNumber> numbers,
                            const ScopeState& scope) {
  for (const GraphValue& v : graph.values) {
    if (v.kind != GraphValue::kState && v.kind != GraphValue::kConstant) continue;
    RefuseGraph(
        v.name + (v.kind == GraphValue::kState ? " is state" : " is a constant") +
        " of the graph, but its text cannot hold memory. Try an input in its place, or a saved "
        "graph.");
  }
  GraphText text;
  text.graph = Print(WithoutPlaces(graph));
  text.numbers = InOrder(graph, std::move(numbers));
  return ShowCallText(text, scope);
}

std::string TextOfSavedGraphCall(const std::string& path, const std::string& name,
                                 std::vector<GraphNumber> numbers, const ScopeState& scope) {
  GraphText text;
  text.path = std::filesystem::absolute(path).lexically_normal().string();
  // Only the name is used here: the weights are compared with their digests when the text is read.
  text.name = ReadGraph(text.path, name, {.verify = false}).graphs[0].name;
  text.digest = DigestOfFolder(text.path);
  text.numbers = std::move(numbers);
  return ShowCallText(text, scope);
}

std::unique_ptr<BoundCall> MakeGraphCall(GraphText text, const ScopeState& scope) {
  return std::make_unique<GraphCall>(std::move(text), scope);
}

}  // namespace anyop
