// SPDX-License-Identifier: Apache-2.0
// One try: draw everything; repair false conditions by solving them for one of their unknowns;
// build the shapes; ask Check. Most signatures succeed at once, the hardest in a few tries.
#include "signature/generate.h"

#include <algorithm>

#include "signature/repair.h"

namespace anyop {
namespace {

// Where a signature wants a longer list, a short one is made, and the try fails.
constexpr std::int64_t kLongestList = 4096;

class Generator {
 public:
  Generator(const Contract& c, Random& random, const GenerateOptions& options)
      : contract_(c), random_(random), options_(options), draft_(c) {}

  std::optional<GeneratedCall> Try() {
    draft_.form = options_.form >= 0 ? options_.form : int(Below(contract_.forms.size()));
    DrawDTypes();
    for (int i = 0; i < contract_.n_params(); ++i) DrawParam(i);
    DrawVars();
    Repair(draft_, random_, fixed_);
    if (!BuildShapes()) return {};
    GeneratedCall out{std::move(draft_.call), 0, {}, {}};
    std::string error;
    out.form = Check(contract_, out.call.frame(), &out.bindings, &error);
    if (out.form < 0 || (options_.form >= 0 && out.form != options_.form)) return {};
    if (!InferResults(contract_, out.form, out.bindings, out.call.frame(), out.results, &error)) {
      return {};
    }
    return out;
  }

 private:
  const Form& form() const { return contract_.forms[std::size_t(draft_.form)]; }
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  bool Chance(double p) { return double(random_() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T* Fixed(const std::map<std::string, T>& map, std::string_view name) {
    const auto it = map.find(std::string(name));
    return it == map.end() ? nullptr : &it->second;
  }

  // From the first dtypes where no other may be: one that is added to the list changes no call.
  DType DrawDType(std::uint32_t mask) {
    const int n = mask >> kFirstDTypes ? kDTypes : kFirstDTypes;
    for (;;) {
      const int d = int(Below(std::uint64_t(n)));
      if (mask >> d & 1) return DType(d);
    }
  }
  void DrawDTypes() {
    Bindings& b = draft_.bindings;
    for (int i = 0; i < int(form().dtype_vars.size()); ++i) {
      const DType* fixed = Fixed(options_.dtypes, form().dtype_vars[std::size_t(i)]);
      draft_.dtypes[i] = fixed ? 1u << int(*fixed) : AllowedDTypes(form(), NodeOp::kDTypeVar, i);
      if (!draft_.dtypes[i]) continue;
      b.dtype[i] = std::uint8_t(DrawDType(draft_.dtypes[i]));
      b.dtype_bound |= 1ull << i;
    }
  }
  void DrawVars() {
    Bindings& b = draft_.bindings;
    for (int v = 0; v < int(form().vars.size()); ++v) {
      const double* fixed = Fixed(options_.numbers, form().vars[std::size_t(v)]);
      if (fixed) fixed_.vars |= 1ull << v;
      b.var[v] = fixed ? std::int64_t(*fixed) : options_.sizes[Below(options_.sizes.size())];
      b.bound |= 1ull << v;
    }
  }
  bool DrawPresence(int i, const Param& p) {
    const bool* given = Fixed(options_.given, p.name);
    if (given) fixed_.presence |= 1ull << i;
    if (given) return *given;
    return !p.is_optional || Chance(options_.optional_chance);
  }
  void DrawParam(int i) {
    const Param& p = form().params[std::size_t(i)];
    const Param& first = contract_.forms[0].params[std::size_t(i)];
    OwnedCall& call = draft_.call;
    call.Clear(i);
    if (!DrawPresence(i, p)) return;
    if (IsTensor(p.kind)) return Place(i, p);
    if (p.kind == ParamKind::kWord) return DrawWord(i, p);
    if (const double* fixed = Fixed(options_.numbers, p.name)) {
      fixed_.params |= 1ull << i;
      if (p.kind == ParamKind::kFloat) return call.SetFloat(i, *fixed);
      if (p.kind == ParamKind::kBool) return call.SetBool(i, *fixed != 0);
      return call.SetInt(i, std::int64_t(*fixed));
    }
    if (const Shape* fixed = Fixed(options_.lists, p.name)) {
      fixed_.params |= 1ull << i;
      return call.SetInts(i, *fixed);
    }
    if (p.kind == ParamKind::kDType) return DrawDTypeParam(i, p);
    if (first.has_default && !first.default_is_none && Chance(options_.default_chance)) {
      return call.SetDefault(i);
    }
    DrawNumber(i, p);
  }
  // Conditions ask only whether the tensor is present; its shape comes at the end (BuildShapes).
  void Place(int i, const Param& p) {
    if (p.kind == ParamKind::kTensor) return draft_.call.SetTensor(i, DType::kF32, {});
    if (!draft_.list_length) draft_.list_length = 1 + int(Below(3));
    draft_.call.SetTensors(i, DType::kF32, std::vector<Shape>(std::size_t(draft_.list_length)));
  }
  void DrawWord(int i, const Param& p) {
    const std::string* fixed = Fixed(options_.words, p.name);
    if (fixed) fixed_.params |= 1ull << i;
    draft_.call.SetWord(i, fixed ? *fixed : std::string(p.words[Below(p.words.size())]));
  }
  void DrawDTypeParam(int i, const Param& p) {
    const DType* fixed = Fixed(options_.dtypes, p.name);
    if (fixed) fixed_.params |= 1ull << i;
    draft_.call.SetDType(i, fixed ? *fixed : DrawDType(AllowedDTypes(form(), NodeOp::kParam, i)));
  }
  void DrawNumber(int i, const Param& p) {
    OwnedCall& call = draft_.call;
    constexpr double kFloats[] = {0.25, 0.5, 1, 1.5, 2};
    switch (p.kind) {
      case ParamKind::kBool:
        return call.SetBool(i, Below(2));
      case ParamKind::kInt:
        return call.SetInt(i, 1 + std::int64_t(Below(8)));
      case ParamKind::kFloat:
        return call.SetFloat(i, kFloats[Below(5)]);
      default:
        break;
    }
    std::size_t n = 1 + Below(3);
    if (p.size >= 0) {
      const Number size = draft_.Eval(p.size);  // a literal; a variable is bound by the list
      if (size.known && size.i >= 0 && size.i <= kLongestList) n = std::size_t(size.i);
    }
    if (p.kind == ParamKind::kFloats) {
      std::vector<double> list(n);
      for (double& x : list) x = kFloats[Below(5)];
      return call.SetFloats(i, list);
    }
    Shape list(n);
    for (auto& x : list) x = 1 + std::int64_t(Below(3));
    call.SetInts(i, list);
  }

  DType DTypeOf(const DTypes& d) {
    if (d.kind == DTypes::kSet) return DrawDType(d.mask);
    if (d.kind == DTypes::kParameter) return DType(draft_.call[d.index].i);
    return DType(draft_.bindings.dtype[d.index]);
  }
  bool BuildShape(const TensorType& type, Shape* shape) {
    if (type.has_dots) *shape = lead_;
    for (const int d : type.dims) {
      const Number v = draft_.Eval(d);
      if (!v.known || v.i < 0) return false;
      shape->push_back(v.i);
    }
    return shape->size() <= kMaxRank;
  }
  bool BuildShapes() {
    if (options_.lead) {
      lead_ = *options_.lead;
    } else {
      lead_.resize(Below(3));
      for (auto& size : lead_) size = options_.sizes[Below(options_.sizes.size())];
    }
    for (int i = 0; i < contract_.n_params(); ++i) {
      const Param& p = form().params[std::size_t(i)];
      if (!draft_.call[i].tag) continue;
      if (p.size >= 0 && draft_.Eval(p.size).i != draft_.call[i].count) {
        if (!FitLength(i, p)) return false;
      }
      if (!IsTensor(p.kind)) continue;
      Shape shape;
      if (!BuildShape(p.tensor, &shape)) return false;
      const DType dtype = DTypeOf(p.tensor.dtypes);
      if (p.kind == ParamKind::kTensor) {
        draft_.call.SetTensor(i, dtype, shape);
      } else {
        draft_.call.SetTensors(i, dtype, std::vector<Shape>(draft_.call[i].count, shape));
      }
    }
    return true;
  }
  // A list whose length is a variable that was drawn after it.
  bool FitLength(int i, const Param& p) {
    const Number n = draft_.Eval(p.size);
    if (!n.known || n.i < 0 || n.i > 64 || (fixed_.params >> i & 1)) return false;
    Shape list(std::size_t(n.i), 1);
    draft_.call.SetInts(i, list);
    return p.kind == ParamKind::kInts;
  }

  const Contract& contract_;
  Random& random_;
  const GenerateOptions& options_;
  Draft draft_;
  FixedParts fixed_;
  Shape lead_;
};

}  // namespace

std::uint32_t AllowedDTypes(const Form& form, NodeOp op, int index) {
  std::uint32_t mask = form.dtypes;
  for (const Condition& c : form.conditions) {
    const Node& n = form.node(c.node);
    if (n.op != NodeOp::kIn) continue;
    const Node& left = form.node(n.a);
    if (left.op == op && left.i == index) mask &= std::uint32_t(n.i);
  }
  return mask;
}

std::optional<GeneratedCall> Generate(const Contract& contract, Random& random,
                                      const GenerateOptions& options) {
  for (int i = 0; i < options.tries; ++i) {
    if (auto call = Generator(contract, random, options).Try()) return call;
  }
  return {};
}

}  // namespace anyop
