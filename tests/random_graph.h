// SPDX-License-Identifier: Apache-2.0
// Random graphs of the operators that are loaded, from their signatures: calls of what was computed
// before, views, changes in place, several results, numbers and sizes of the call.
#pragma once
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "graph/builder/builder.h"
#include "graph/ir/layout.h"
#include "graph/passes/pattern.h"
#include "platform/error.h"
#include "runtime/run/call.h"
#include "signature/generate.h"

namespace anyop::testing {

// Data that an index tensor must hold; none of other tensors.
struct IndexData {
  IndexRule rule = IndexRule::kNone;
  std::int64_t bound = 0;
};

struct RandomGraph {
  Graph graph;
  std::int64_t n = 0;                 // what the symbol n is; 0: there is none
  std::vector<IndexData> index_data;  // by value
};

// Floats between -2 and 2, indices as their rule says, other integers below 4.
inline void Fill(const Array& a, const IndexData& data, Random& random) {
  const auto draw = [&](std::int64_t below) {
    return std::int64_t(random() % std::uint64_t(below));
  };
  std::int64_t last = 0;
  const std::int64_t size = a.size();
  for (std::int64_t i = 0; i < size; ++i) {
    double value = double(draw(4001) - 2000) / 1000;
    if (data.rule == IndexRule::kBelow) {
      value = data.bound > 0 ? double(draw(data.bound)) : -1;
    } else if (data.rule == IndexRule::kOffsets) {
      last = i == 0 ? 0 : std::min(data.bound, last + draw(3));
      value = double(last);
    } else if (!IsFloat(a.dtype())) {
      value = double(draw(4));
    }
    const Array one = Array::Full({}, a.dtype(), value);
    std::memcpy(static_cast<char*>(a.data()) + i * Bytes(a.dtype()), one.data(),
                std::size_t(Bytes(a.dtype())));
  }
}

class GraphMaker {
 public:
  explicit GraphMaker(std::uint64_t seed) : random_(seed) {
    has_symbol_ = Chance(40);
    is_dense_ = Chance(50);
    dtypes_ = {DType::kF32, Chance(50) ? DType::kBF16 : DType::kF16};
    if (is_dense_) dtypes_.resize(1);
    n_ = 2 + Draw(6);
    for (Operator* op : Operators()) {
      if (op->library != "anyop" || op->data->check || op->kernels.empty()) continue;
      operators_.push_back(op);
    }
  }

  RandomGraph Make() {
    const int nodes = 2 + int(Draw(is_dense_ ? 20 : 12));
    for (int tries = 0; tries < 4 * nodes && int(graph().nodes.size()) < nodes; ++tries) {
      const bool is_chained = Chance(is_dense_ ? 90 : 60) && !made_.empty();
      const int what = int(Draw(100));
      const bool is_added = what < 8    ? AddRepeat()
                            : what < 16 ? AddComposition(Pick(patterns_))
                                        : AddCall(is_chained);
      if (!is_added) continue;
      if (Chance(is_dense_ ? 10 : 35)) AddView();
    }
    AddOutputs();
    RandomGraph made;
    made.n = has_symbol_ && IsSymbolUsed() ? n_ : 0;
    made.index_data = std::move(index_data_);
    made.graph = builder_.Finish();
    made.index_data.resize(made.graph.values.size());
    return made;
  }

 private:
  const Graph& graph() const { return builder_.graph(); }
  std::int64_t Draw(std::int64_t below) { return std::int64_t(random_() % std::uint64_t(below)); }
  bool Chance(int percent) { return Draw(100) < percent; }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[std::size_t(Draw(std::int64_t(from.size())))];
  }

  bool IsSymbolUsed() const {
    return std::any_of(graph().inputs.begin(), graph().inputs.end(), [&](int v) {
      const std::vector<Size>& shape = graph().value(v).shape;
      return std::any_of(shape.begin(), shape.end(),
                         [](const Size& s) { return !s.is_constant(); });
    });
  }
  // What is not known while the graph is made is -1.
  Shape ShapeOf(int value) const {
    std::vector<std::int64_t> symbols;
    for (const GraphSymbol& s : graph().symbols) symbols.push_back(s.name == "n" ? n_ : -1000000);
    Shape shape;
    for (const Size& s : graph().value(value).shape) {
      const std::int64_t size = s.At(symbols);
      shape.push_back(size < 0 || size > 100000 ? -1 : size);
    }
    return shape;
  }
  bool IsNumber(int value) const { return graph().value(value).kind == GraphValue::kScalar; }

  // ---- Calls.

  // An earlier call once more.
  bool AddRepeat() {
    if (graph().nodes.empty()) return false;
    const GraphNode node = Pick(graph().nodes);
    const bool has_result = std::count(node.results.begin(), node.results.end(), -1) == 0;
    if (node.into || node.results.empty() || !has_result) return false;
    for (const int r : builder_.Call(*node.op, node.arguments)) made_.push_back(r);
    return true;
  }

  // The parts of an operator, with other calls in between.
  bool AddComposition(const Pattern& pattern) {
    GenerateOptions options;
    options.sizes = {1, 2, 3, 4, 6, 8};
    options.lead = Shape{n_};
    const Form& form = pattern.op->contract->forms[0];
    for (const std::string_view v : form.dtype_vars) options.dtypes[std::string(v)] = dtypes_[0];
    if (!made_.empty()) Follow(form, Pick(made_), &options);
    const std::optional<GeneratedCall> call = Generate(*pattern.op->contract, random_, options);
    if (!call || IsLarge(*pattern.op, *call)) return false;
    const std::vector<GraphArgument> given = Arguments(*pattern.op, *call);
    std::vector<int> values(std::size_t(pattern.n_variables), -1);
    for (const PatternStatement& s : pattern.statements) {
      std::vector<GraphArgument> arguments;
      for (const PatternArgument& a : s.arguments) {
        if (a.kind == PatternArgument::kComputed) return false;
        arguments.push_back(a.kind == PatternArgument::kParameter ? given[std::size_t(a.index)]
                            : a.kind == PatternArgument::kVariable
                                ? ValueArgument(values[std::size_t(a.index)])
                                : a.literal);
      }
      try {
        const std::vector<int> results = builder_.Call(*s.op, std::move(arguments));
        for (std::size_t r = 0; r < results.size(); ++r) {
          values[std::size_t(s.results[r])] = results[r];
          made_.push_back(results[r]);
        }
      } catch (const Error&) {
        return false;
      }
      if (Chance(40)) AddCall(Chance(80));
      if (Chance(15)) AddView();
    }
    return true;
  }

  bool AddCall(bool is_chained) {
    Operator& op = *(Chance(is_dense_ ? 95 : 70) ? PickRowwise() : Pick(operators_));
    GenerateOptions options;
    options.sizes = {1, 2, 3, 4, 6, 8};
    options.tries = 20;
    options.lead = Chance(25) ? Shape{2, n_} : Shape{n_};
    options.form = int(Draw(std::int64_t(op.contract->forms.size())));
    const Form& form = op.contract->forms[std::size_t(options.form)];
    for (const std::string_view v : form.dtype_vars) options.dtypes[std::string(v)] = Pick(dtypes_);
    if (is_chained) Follow(form, Pick(made_), &options);
    std::optional<GeneratedCall> call = Generate(*op.contract, random_, options);
    if (!call) {
      options.dtypes.clear();
      call = Generate(*op.contract, random_, options);
    }
    if (!call || IsLarge(op, *call)) return false;
    return Add(op, *call);
  }
  Operator* PickRowwise() {
    for (int tries = 0; tries < 20; ++tries) {
      Operator* op = Pick(operators_);
      if (op->data->rowwise) return op;
    }
    return Pick(operators_);
  }
  static bool IsLarge(const Operator& op, const GeneratedCall& call) {
    std::int64_t bytes = 0;
    for (int r = 0; r < op.n_results; ++r) bytes += call.results[r].bytes;
    return bytes > 1 << 16;
  }

  // Sizes by which one of the tensors may be this value.
  void Follow(const Form& form, int value, GenerateOptions* options) {
    const Shape shape = ShapeOf(value);
    if (std::count(shape.begin(), shape.end(), -1)) return;
    std::vector<const Param*> tensors;
    for (const Param& p : form.params) {
      if (p.kind == ParamKind::kTensor && p.rule == IndexRule::kNone) tensors.push_back(&p);
    }
    if (tensors.empty()) return;
    const Param& p = *Pick(tensors);
    const int n_dims = int(p.tensor.dims.size()), n_lead = int(shape.size()) - n_dims;
    if (n_lead < 0 || (n_lead > 0 && !p.tensor.has_dots)) return;
    if (p.tensor.has_dots) options->lead = Shape(shape.begin(), shape.begin() + n_lead);
    for (int d = 0; d < n_dims; ++d) {
      const Node* node = &form.node(p.tensor.dims[std::size_t(d)]);
      std::int64_t size = shape[std::size_t(n_lead + d)];
      if (node->op == NodeOp::kMul && form.node(node->a).op == NodeOp::kInt && size % 2 == 0) {
        size /= 2;
        node = &form.node(node->b);
      }
      if (node->op != NodeOp::kVar) continue;
      options->numbers[std::string(form.vars[std::size_t(node->i)])] = double(size);
    }
    for (const std::string_view v : form.dtype_vars) {
      options->dtypes[std::string(v)] = graph().value(value).dtype;
    }
  }

  bool Add(Operator& op, const GeneratedCall& generated) {
    std::vector<GraphArgument> arguments = Arguments(op, generated);
    GraphBuilder::CallOptions options = Options(op, generated, arguments);
    std::vector<int> results;
    try {
      results = builder_.Call(op, arguments, options);
    } catch (const Error&) {
      try {
        results = builder_.Call(op, std::move(arguments));
      } catch (const Error&) {
        return false;  // sizes that are equal now are not always
      }
    }
    for (const int r : results) {
      if (r >= 0) made_.push_back(r);
    }
    return true;
  }

  std::vector<GraphArgument> Arguments(const Operator& op, const GeneratedCall& generated) {
    const Form& form = op.contract->forms[std::size_t(generated.form)];
    std::vector<GraphArgument> arguments;
    given_.clear();
    for (int i = 0; i < op.n_params; ++i) {
      const anyop_value& v = generated.call[i];
      const Param& p = form.params[std::size_t(i)];
      IndexData data;
      data.rule = p.rule;
      if (p.rule != IndexRule::kNone) {
        data.bound = Evaluate(*op.contract, generated.form, p.bound, generated.bindings,
                              generated.call.frame())
                         .i;
      }
      if (v.tag == ANYOP_TENSOR) {
        arguments.push_back(ValueArgument(Tensor(*v.t, p.is_mut, data)));
      } else if (v.tag == ANYOP_TENSORS) {
        std::vector<int> values;
        for (std::uint32_t k = 0; k < v.count; ++k)
          values.push_back(Tensor(*v.ts[k], p.is_mut, data));
        arguments.push_back(ValuesArgument(std::move(values)));
      } else {
        arguments.push_back(Number(v));
      }
    }
    return arguments;
  }

  // Results that are declined, or written into values.
  GraphBuilder::CallOptions Options(const Operator& op, const GeneratedCall& generated,
                                    const std::vector<GraphArgument>& arguments) {
    GraphBuilder::CallOptions options;
    const std::vector<Result>& results = op.contract->forms[0].results;
    options.into.assign(results.size(), -1);
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (results[r].is_optional && Chance(30)) options.declined |= 1u << r;
      if (options.declined >> r & 1 || !Chance(20)) continue;
      const ResultShape& s = generated.results[r];
      std::vector<int> fitting;
      for (const int v : Candidates(s.dtype, {s.shape, s.shape + s.rank}, true)) {
        if (MayTake(results[r], arguments, v) && !IsTaken(options.into, v)) fitting.push_back(v);
      }
      if (!fitting.empty()) options.into[r] = Pick(fitting);
    }
    return options;
  }
  // Whether a result may be written into a value: no argument lies there but itself, where `over`
  // says so.
  bool MayTake(const Result& result, const std::vector<GraphArgument>& arguments, int value) const {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      for (const int v : arguments[i].values) {
        if (IsNumber(v) || graph().Root(v) != graph().Root(value)) continue;
        if (v != value || !(result.over >> i & 1)) return false;
      }
    }
    return true;
  }
  bool IsTaken(const std::vector<int>& into, int value) const {
    return std::any_of(into.begin(), into.end(),
                       [&](int v) { return v >= 0 && graph().Root(v) == graph().Root(value); });
  }

  GraphArgument Number(const anyop_value& v) {
    if (v.tag == ANYOP_FLOAT && Chance(20)) {
      return ValueArgument(builder_.Scalar(builder_.FreeName("number"), ParamKind::kFloat));
    }
    return LiteralArgument(v);
  }

  std::vector<int> Candidates(DType dtype, const Shape& shape, bool is_written) const {
    std::vector<int> fitting;
    for (int v = 0; v < int(graph().values.size()); ++v) {
      const GraphValue& value = graph().value(v);
      const GraphValue& root = graph().value(graph().Root(v));
      const bool may_write = root.kind != GraphValue::kConstant && !root.is_frozen;
      if (IsNumber(v) || value.dtype != dtype || (is_written && !may_write)) continue;
      if (std::size_t(v) < index_data_.size() &&
          index_data_[std::size_t(v)].rule != IndexRule::kNone) {
        continue;
      }
      if (ShapeOf(v) == shape) fitting.push_back(v);
    }
    return fitting;
  }

  int Tensor(const DLTensor& t, bool is_written, const IndexData& data) {
    const int value = Choose(t, is_written, data);
    given_.push_back({graph().Root(value), is_written});
    return value;
  }
  int Choose(const DLTensor& t, bool is_written, const IndexData& data) {
    const Shape shape(t.shape, t.shape + t.ndim);
    const DType dtype = static_cast<const anyop::Tensor&>(t).type();
    if (data.rule == IndexRule::kNone) {
      std::vector<int> fitting = Candidates(dtype, shape, is_written);
      std::erase_if(fitting, [&](int v) { return Meets(v, is_written); });
      if (!fitting.empty() && Chance(85)) {
        // What was made last is the most likely, so that chains come about.
        return Chance(60) ? fitting.back() : Pick(fitting);
      }
    }
    return Fresh(dtype, shape, data);
  }

  // Whether this value is another argument's memory, and one of the two is written.
  bool Meets(int value, bool is_written) const {
    return std::any_of(given_.begin(), given_.end(), [&](const Given& g) {
      return g.root == graph().Root(value) && (g.is_written || is_written);
    });
  }

  int Fresh(DType dtype, const Shape& shape, const IndexData& data) {
    int value = -1;
    if (Chance(50)) {
      std::vector<Size> sizes(shape.begin(), shape.end());
      for (std::size_t d = 0; d < sizes.size() && d < 2; ++d) {
        if (has_symbol_ && shape[d] == n_) sizes[d] = builder_.Symbol("n");
      }
      value = builder_.Input(builder_.FreeName("x"), dtype, std::move(sizes));
    } else {
      const Array a = Array::Empty({shape.data(), shape.size()}, dtype);
      Fill(a, data, random_);
      value = builder_.State(builder_.FreeName("s"), a);
    }
    index_data_.resize(std::size_t(value) + 1);
    index_data_[std::size_t(value)] = data;
    return value;
  }

  // ---- Views and outputs.

  void AddView() {
    const int base =
        Chance(60) && !made_.empty() ? Pick(made_) : int(Draw(std::int64_t(graph().values.size())));
    if (IsNumber(base)) return;
    const Shape shape = ShapeOf(base);
    const int rank = int(shape.size());
    if (rank == 0 || std::count(shape.begin(), shape.end(), -1)) return;
    try {
      int view = -1;
      const int a = int(Draw(rank)), b = int(Draw(rank));
      if (Chance(40)) {
        const std::int64_t begin = Draw(shape[std::size_t(a)] + 1);
        const std::int64_t end = begin + Draw(shape[std::size_t(a)] - begin + 1);
        view = builder_.Slice(base, a, begin, end);
      } else if (Chance(40)) {
        view = builder_.Transpose(base, a, b);
      } else {
        const std::vector<Size>& sizes = graph().value(base).shape;
        std::vector<Size> merged(sizes.begin() + (rank > 1), sizes.end());
        if (rank > 1) merged[0] = sizes[0] * merged[0];
        if (Chance(30)) merged.insert(merged.begin(), Size(1));
        view = builder_.Reshape(base, std::move(merged));
      }
      made_.push_back(view);
    } catch (const Error&) {
    }
  }

  void AddOutputs() {
    const int n = 1 + int(Draw(4));
    for (int k = 0; k < n && !made_.empty(); ++k) {
      builder_.Output(Chance(50) ? made_.back() : Pick(made_), "out" + std::to_string(k));
    }
  }

  Random random_;
  GraphBuilder builder_;
  const std::vector<Pattern> patterns_ = FindPatterns();
  bool has_symbol_;
  bool is_dense_;  // long chains of operators on rows, of one dtype
  std::int64_t n_;
  std::vector<DType> dtypes_;
  std::vector<Operator*> operators_;
  struct Given {
    int root;
    bool is_written;
  };
  std::vector<Given> given_;  // tensors of the call that is made
  std::vector<int> made_;     // results and views
  std::vector<IndexData> index_data_;
};

}  // namespace anyop::testing
