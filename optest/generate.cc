// SPDX-License-Identifier: Apache-2.0
#include "optest/generate.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

#include "optest/fill.h"
#include "signature/generate.h"

namespace anyop::optest {
namespace {

// What one call is to be, packed into a seed: {random : 32 | form : 4 | dtypes : 12 | sizes : 8 |
// absence : 2 | round : 6}.
struct Recipe {
  std::uint32_t random;
  int form, dtypes, sizes, absence, round;

  std::uint64_t Pack() const {
    return std::uint64_t(random) << 32 | std::uint64_t(form) << 28 | std::uint64_t(dtypes) << 16 |
           std::uint64_t(sizes) << 8 | std::uint64_t(absence) << 6 | std::uint64_t(round);
  }
  static Recipe Unpack(std::uint64_t seed) {
    return {std::uint32_t(seed >> 32), int(seed >> 28 & 15), int(seed >> 16 & 0xfff),
            int(seed >> 8 & 255),      int(seed >> 6 & 3),   int(seed & 63)};
  }
};
enum Absence { kAllGiven, kAllAbsent, kSomeAbsent };

constexpr int kTries = 8, kMostDTypes = 12;
constexpr std::int64_t kMostElements = 1 << 15;  // of a tensor without stated sizes
// Around the vector widths 8, 16 and 32 and their multiples; primes; 0 and 1.
constexpr std::int64_t kWidths[] = {17, 1,  8,  33, 7,  0,  16,  65,  2,   31,  64,
                                    3,  32, 15, 9,  48, 63, 100, 127, 128, 129, 257};

struct Fixed {
  std::map<std::string, double> numbers;
  std::map<std::string, Shape> lists;
  bool empty() const { return numbers.empty() && lists.empty(); }
};

template <class F>
void ForEachDTypeSet(const Form& form, int node, F f) {
  const Node& n = form.node(node);
  if (n.op == NodeOp::kAnd) {
    ForEachDTypeSet(form, n.a, f);
    ForEachDTypeSet(form, n.b, f);
  } else if (n.op == NodeOp::kIn) {
    f(form.node(n.a), std::uint32_t(n.i));
  }
}

constexpr std::uint32_t kDifferentiable = 1u << ANYOP_F32 | 1u << ANYOP_F16 | 1u << ANYOP_BF16;

// The dtypes that a dtype variable, or a dtype parameter, of a form may be, by bit.
struct DTypeChoice {
  std::string name;
  NodeOp op;
  int index;
  std::uint32_t mask;
};
std::vector<DTypeChoice> DTypeChoices(const Form& form, Purpose purpose) {
  std::vector<DTypeChoice> choices;
  for (std::size_t v = 0; v < form.dtype_vars.size(); ++v) {
    choices.push_back({std::string(form.dtype_vars[v]), NodeOp::kDTypeVar, int(v), form.dtypes});
  }
  for (std::size_t p = 0; p < form.params.size(); ++p) {
    if (form.params[p].kind != ParamKind::kDType) continue;
    choices.push_back({std::string(form.params[p].name), NodeOp::kParam, int(p), form.dtypes});
  }
  for (const Condition& c : form.conditions) {
    ForEachDTypeSet(form, c.node, [&](const Node& what, std::uint32_t set) {
      for (DTypeChoice& choice : choices) {
        if (what.op == choice.op && what.i == choice.index) choice.mask &= set;
      }
    });
  }
  for (DTypeChoice& choice : choices) {
    const std::uint32_t floats = choice.mask & kDifferentiable;
    if (purpose == Purpose::kGradient && floats) choice.mask = floats;
  }
  return choices;
}

int NthBit(std::uint32_t mask, int n) {
  for (; n > 0; --n) mask &= mask - 1;
  return std::countr_zero(mask);
}

// "d = 576, stride = [2, 1]": numbers and lists by name.
Fixed ParseSizes(std::string_view given) {
  Fixed fixed;
  std::string text(given);
  std::erase(text, ' ');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t equals = text.find('=', at);
    if (equals == text.npos) throw std::invalid_argument("sizes need '=': " + text.substr(at));
    const std::string name = text.substr(at, equals - at);
    const bool is_list = text[equals + 1] == '[';
    const std::size_t end = std::min(text.find(is_list ? ']' : ',', equals), text.size());
    const std::string value = text.substr(equals + 1, end - equals - 1);
    if (is_list) {
      std::istringstream numbers(value.substr(1));
      for (std::string n; std::getline(numbers, n, ',');)
        fixed.lists[name].push_back(std::stoll(n));
    } else {
      fixed.numbers[name] = std::stod(value);
    }
    at = end + 1 + (is_list ? 1 : 0);
  }
  return fixed;
}

int CountDTypes(const Form& form, Purpose purpose) {
  std::int64_t n = 1;
  for (const DTypeChoice& c : DTypeChoices(form, purpose)) n *= std::max(1, std::popcount(c.mask));
  return int(std::min<std::int64_t>(n, 1 << 12));
}

bool FitsForm(const Operator& op, int form, const Fixed& fixed) {
  const Form& f = op.contract->forms[std::size_t(form)];
  const auto has = [&](const auto& entry) {
    return entry.first == "rows" || f.var(entry.first) >= 0 || f.param(entry.first) >= 0;
  };
  return std::ranges::all_of(fixed.numbers, has) && std::ranges::all_of(fixed.lists, has);
}

// What the recipe asks the generator of signatures for.
anyop::GenerateOptions OptionsOf(const OpTest& test, const Form& form, const Recipe& recipe,
                                 const Fixed& fixed, Purpose purpose, Call& call) {
  anyop::GenerateOptions options;
  options.form = recipe.form;
  options.numbers = fixed.numbers;
  options.lists = fixed.lists;
  if (const auto rows = options.numbers.find("rows"); rows != options.numbers.end()) {
    options.lead = Shape{std::int64_t(rows->second)};
    options.numbers.erase(rows);
  }
  int dtypes = recipe.dtypes;
  for (const DTypeChoice& c : DTypeChoices(form, purpose)) {
    const int n = std::max(1, std::popcount(c.mask));
    options.dtypes[c.name] = DType(NthBit(c.mask, dtypes % n));
    dtypes /= n;
  }
  const std::int64_t width = kWidths[std::size_t(recipe.round) % std::size(kWidths)];
  options.sizes = {width, 1, width, 2, 3, 5, width};
  options.optional_chance = recipe.absence == kAllGiven    ? 1
                            : recipe.absence == kAllAbsent ? 0
                                                           : 0.5;
  for (const auto& [name, values] : test.values) {
    if (options.numbers.count(std::string(name)) || values.empty()) continue;
    const std::int64_t k = call.Draw(0, std::int64_t(values.size()) - 1);
    options.numbers[std::string(name)] = values[std::size_t(k)];
  }
  for (const auto& [name, range] : test.ranges) {
    const int p = form.param(name);
    if (p < 0 || form.params[std::size_t(p)].kind != ParamKind::kFloat) continue;
    const double part = double(call.Draw(0, 1000)) / 1000;
    options.numbers.emplace(name, range.low + (range.high - range.low) * part);
  }
  return options;
}

Array ZerosLike(const DLTensor& t) {
  return Array(DType(FromDL(t.dtype)), {t.shape, t.shape + t.ndim});
}

Argument ToArgument(const anyop_value& v) {
  switch (v.tag) {
    case ANYOP_BOOL:
      return v.i != 0;
    case ANYOP_INT:
      return v.i;
    case ANYOP_FLOAT:
      return v.f;
    case ANYOP_WORD:
      return std::string(v.s, v.count);
    case ANYOP_DTYPE:
      return DType(v.i);
    case ANYOP_TENSOR:
      return ZerosLike(*v.t);
    case ANYOP_TENSORS: {
      std::vector<Array> list;
      for (std::uint32_t k = 0; k < v.count; ++k) list.push_back(ZerosLike(*v.ts[k]));
      return list;
    }
    case ANYOP_INTS:
      return std::vector<std::int64_t>(v.is, v.is + v.count);
    case ANYOP_FLOATS:
      return std::vector<double>(v.fs, v.fs + v.count);
    default:
      return {};
  }
}

// Slices all alike, now and then, so that the tensor may be expanded: one dimension or all leading
// ones.
void MayRepeat(Array& array, Call& call) {
  const int leading = int(array.shape().size()) - 1;
  if (leading < 1 || !IsFloat(array.dtype()) || call.Draw(0, 5) != 0) return;
  const int dim = int(call.Draw(0, leading));
  for (int i = 0; i < leading; ++i) {
    if (i == dim || dim == leading) array.Repeat(i);
  }
}

// What a call fills with extreme values of one kind: all that may hold them, or one tensor.
struct ExtremeFill {
  Extreme kind;
  std::vector<std::string_view> params;

  ExtremeFill(const OpTest& test, const Recipe& recipe, Call& call)
      : kind(Extreme((recipe.round + recipe.dtypes + recipe.sizes) % kExtremes)),
        params(ExtremeParams(test)) {
    const auto n = std::int64_t(params.size()), one = call.Draw(0, n);
    if (one < n) params = {params[std::size_t(one)]};
  }
};

void Fill(const OpTest& test, const GeneratedCall& generated,
          const std::optional<ExtremeFill>& extreme, Call& call) {
  const Contract& contract = *call.op().contract;
  const Form& form = contract.forms[std::size_t(generated.form)];
  for (const Param& p : form.params) {
    if (!IsTensor(p.kind) || !call.given(p.name)) continue;
    FillRule rule;
    const auto range = test.ranges.find(p.name);
    if (range != test.ranges.end()) rule.range = range->second;
    rule.rule = p.rule;
    if (p.bound >= 0) {
      rule.bound =
          Evaluate(contract, generated.form, p.bound, generated.bindings, generated.call.frame()).i;
    }
    if (extreme && std::ranges::count(extreme->params, p.name)) rule.extreme = extreme->kind;
    if (p.kind == ParamKind::kTensor) {
      FillArray(call.array(p.name), rule, call);
      MayRepeat(call.array(p.name), call);
    } else {
      for (Array& array : call.arrays(p.name)) FillArray(array, rule, call);
    }
  }
}

// Whoever draws or prepares an index writes -1 for none; operators take every negative number so.
void VaryNegatives(Argument& argument, Call& call) {
  constexpr std::int64_t kNegatives[] = {-1, -2, -7, -1000, INT32_MIN};
  auto* array = std::get_if<Array>(&argument);
  if (!array || (array->dtype() != DType::kI32 && array->dtype() != DType::kI64)) return;
  for (std::int64_t i = 0; i < array->size(); ++i) {
    if (array->GetInt(i) != -1) continue;
    array->SetInt(i, kNegatives[call.Draw(0, std::int64_t(std::size(kNegatives)) - 1)]);
  }
}

bool IsTooLarge(const Operator& op, const GeneratedCall& generated) {
  for (int i = 0; i < op.n_params; ++i) {
    const anyop_value& v = generated.call[i];
    if (v.tag != ANYOP_TENSOR) continue;
    std::int64_t elements = 1;
    for (int k = 0; k < v.t->ndim; ++k) elements *= v.t->shape[k];
    if (elements > kMostElements) return true;
  }
  return false;
}

}  // namespace

std::vector<std::uint64_t> Seeds(const OpTest& test, Purpose purpose, const SeedOptions& options) {
  const Operator& op = *Find(test.op);
  std::mt19937 random(std::uint32_t(options.seed * 2654435761u + 1));
  std::vector<std::uint64_t> seeds;
  const int n_forms = int(op.contract->forms.size());
  for (int form = 0; form < n_forms; ++form) {
    const int all = CountDTypes(op.contract->forms[std::size_t(form)], purpose);
    const int used = options.is_exhaustive ? all : std::min(all, kMostDTypes);
    const int least = purpose == Purpose::kExtremeValues ? kExtremes : 6;
    const int most = purpose == Purpose::kExtremeValues ? 2 * kExtremes : 24;
    const int rounds = options.is_exhaustive ? 64 : std::clamp(64 / (used * n_forms), least, most);
    for (int d = 0; d < used; ++d) {
      const int dtypes = used == all ? d : int(random() % unsigned(all));
      for (int round = 0; round < rounds; ++round) {
        seeds.push_back(Recipe{std::uint32_t(random()), form, dtypes, 0, round % 3, round}.Pack());
      }
      for (std::size_t s = 0; s < test.sizes.size(); ++s) {
        if (!FitsForm(op, form, ParseSizes(test.sizes[s]))) continue;
        seeds.push_back(
            Recipe{std::uint32_t(random()), form, dtypes, int(s) + 1, int(s) % 3, 0}.Pack());
      }
    }
  }
  return seeds;
}

std::vector<std::string_view> ExtremeParams(const OpTest& test) {
  std::vector<std::string_view> params;
  std::size_t named = test.not_extreme.count("*");
  for (const Param& p : Find(test.op)->contract->forms[0].params) {
    named += test.not_extreme.count(p.name);
    if (!IsTensor(p.kind) || test.not_extreme.count(p.name)) continue;
    params.push_back(p.name);
  }
  if (named != test.not_extreme.size()) {
    throw std::invalid_argument("not_extreme names what is no parameter of " +
                                std::string(test.op));
  }
  return test.not_extreme.count("*") ? std::vector<std::string_view>() : params;
}

std::vector<std::uint64_t> PromiseSeeds(const OpTest& test) {
  constexpr int kEach = 3;
  const Operator& op = *Find(test.op);
  std::mt19937 random(1);
  std::vector<std::uint64_t> seeds;
  for (int form = 0; form < int(op.contract->forms.size()); ++form) {
    const int all = CountDTypes(op.contract->forms[std::size_t(form)], Purpose::kPromises);
    for (int i = 0; i < kEach * all; ++i) {
      seeds.push_back(Recipe{std::uint32_t(random()), form, i / kEach, 0, i % 3, i % 3}.Pack());
    }
  }
  return seeds;
}

std::optional<Call> Generate(const OpTest& test, std::uint64_t seed, Purpose purpose) {
  const Recipe recipe = Recipe::Unpack(seed);
  Call call(test.op, seed);
  const Fixed fixed =
      recipe.sizes > 0 ? ParseSizes(test.sizes.at(std::size_t(recipe.sizes - 1))) : Fixed();
  const Operator& op = call.op();
  const Form& form = op.contract->forms[std::size_t(recipe.form)];
  anyop::Random random(seed);
  anyop::GenerateOptions asked = OptionsOf(test, form, recipe, fixed, purpose, call);
  if (purpose == Purpose::kPromises) asked.tries = 20;
  const int tries = purpose == Purpose::kPromises ? 2 : kTries;
  for (int attempt = 0; attempt < tries; ++attempt) {
    if (attempt == kTries / 2) asked.optional_chance = 0.5;  // one argument may need another
    const auto generated = anyop::Generate(*op.contract, random, asked);
    if (!generated || (fixed.empty() && IsTooLarge(op, *generated))) {
      if (attempt > 1 && fixed.empty()) asked.sizes.insert(asked.sizes.end(), {1, 2, 3, 4, 8});
      continue;
    }
    std::vector<Argument> arguments;
    for (int i = 0; i < op.n_params; ++i) arguments.push_back(ToArgument(generated->call[i]));
    call.set_arguments(std::move(arguments));
    std::optional<ExtremeFill> extreme;
    if (purpose == Purpose::kExtremeValues) extreme.emplace(test, recipe, call);
    Fill(test, *generated, extreme, call);
    if (test.prepare) test.prepare(call);
    if (test.negatives_are_alike) {
      std::vector<Argument> varied = call.arguments();
      for (Argument& argument : varied) VaryNegatives(argument, call);
      call.set_arguments(std::move(varied));
    }
    if (purpose == Purpose::kGradient && test.prepare_gradient) test.prepare_gradient(call);
    return call;
  }
  return std::nullopt;
}

}  // namespace anyop::optest
