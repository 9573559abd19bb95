// SPDX-License-Identifier: Apache-2.0
// Wrong calls, made from right ones, must be refused by the runtime before anything is written.
#include "optest/exact.h"
#include "optest/failures.h"
#include "optest/frame.h"
#include "optest/session.h"

namespace anyop::optest {
namespace {

struct Mutation {
  std::string what;
  std::string param;
  std::vector<Argument> arguments;
  bool must_be_refused;  // else: refused if the signature says so
};

class Mutations {
 public:
  explicit Mutations(Call& call) : call_(call) {
    const Form& form = FormOf(call);
    for (std::size_t i = 0; i < form.params.size(); ++i) {
      const Param& p = form.params[i];
      if (const auto* array = std::get_if<Array>(&call.arguments()[i])) {
        OfArray(i, p, *array);
      } else if (p.kind == ParamKind::kWord && call.given(p.name)) {
        Add("an unknown word", i, std::string("no such word"), true);
      }
      if (p.kind == ParamKind::kTensor && !p.is_optional) Add("no tensor", i, Argument(), true);
      if (p.kind == ParamKind::kTensor) Add("a number", i, Argument(1.5), true);
    }
  }

  const std::vector<Mutation>& all() const { return all_; }

 private:
  static const Form& FormOf(const Call& call) {
    const int form = CheckArguments(call.op(), call.arguments()).form;
    return call.op().contract->forms[std::size_t(form)];
  }

  void Add(const std::string& what, std::size_t i, Argument value, bool must_be_refused) {
    Mutation m{what, std::string(call_.op().contract->forms[0].params[i].name), call_.arguments(),
               must_be_refused};
    m.arguments[i] = std::move(value);
    all_.push_back(std::move(m));
  }

  void OfArray(std::size_t i, const Param& p, const Array& array) {
    std::vector<std::int64_t> shape = array.shape();
    for (std::size_t k = 0; k < shape.size(); ++k) {
      std::vector<std::int64_t> longer = shape;
      ++longer[k];
      Add("one more in dimension " + std::to_string(k), i, Array(array.dtype(), longer), false);
    }
    shape.insert(shape.begin(), 1);
    if (shape.size() <= kMaxRank) {
      Add("one more dimension", i, Array(array.dtype(), shape), false);
    }
    for (const DType dtype : {DType::kI8, DType::kF64, DType::kBool}) {
      if (dtype == array.dtype()) continue;
      Add("another dtype", i, Array(dtype, array.shape()), false);
    }
    if (array.size() == 0 || IsFloat(array.dtype())) return;
    if (p.rule == IndexRule::kBelow) {
      Array beyond = array;
      beyond.SetInt(array.size() - 1, std::int64_t(Largest(array.dtype()) / 2));
      Add("an index out of range", i, beyond, true);
    } else if (p.rule == IndexRule::kOffsets) {
      Array wrong = array;
      wrong.SetInt(0, -1);
      Add("offsets that do not start at 0", i, wrong, true);
      wrong = array;
      wrong.SetInt(array.size() - 1, std::int64_t(Largest(array.dtype()) / 2));
      Add("offsets that end too late", i, wrong, true);
    }
  }

  Call& call_;
  std::vector<Mutation> all_;
};

bool IsRight(const Operator& op, const std::vector<Argument>& arguments) {
  try {
    CheckArguments(op, arguments);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Adds memory for the results of the right call, so that a write to them would show.
void AddResults(const Call& call, Frame* frame) {
  const CheckedCall checked = CheckArguments(call.op(), call.arguments());
  for (int r = 0; r < call.op().n_results; ++r) {
    const ResultShape& s = checked.results[r];
    frame->AddResult(r, s.dtype, {s.shape, s.shape + s.rank}, {});
  }
}

// Returns whether the call was refused.
bool CheckMutation(Call& call, const Mutation& m) {
  Operator& op = *Find(call.op().name);
  Frame frame(op, m.arguments);
  if (m.must_be_refused) AddResults(call, &frame);
  const std::string where = m.param + ": " + m.what + "\n  made from " + Reproduce(call);
  try {
    const HeldPlan plan = GetPlan(op, frame.values());
    if (!m.must_be_refused) {
      if (!IsRight(op, m.arguments)) Fail("a wrong call is not refused: " + where);
      return false;
    }
    anyop::Run(op, *plan, frame.values());
    Fail("a wrong call is not refused: " + where);
    return false;
  } catch (const Error& e) {
    const std::string text = e.what();
    // What runs on devices alone is refused there: see CheckDevices.
    const bool may_be_unsupported = m.must_be_refused ? !RunsOnHost(op) : IsRight(op, m.arguments);
    if (e.code == ANYOP_UNSUPPORTED && may_be_unsupported) return false;
    const std::string refusal = text + "\n  " + where;
    if (e.code != ANYOP_INVALID_ARGUMENT) Fail("not an InvalidArgument: " + refusal);
    if (!text.starts_with(op.display_name() + ": ")) {
      Fail("the message does not begin with the operator's name: " + refusal);
    }
    if (!text.ends_with('.') && !text.ends_with('?') && !text.ends_with(')')) {
      Fail("the message is no sentence: " + refusal);
    }
    if (const Defect defect = frame.FindDefect(false)) {
      Fail(defect.text + "\n  by a call that is refused: " + refusal);
    }
    return true;
  }
}

}  // namespace

void CheckWrongCalls(const OpTest& test) {
  constexpr int kCallsEach = 6;
  int calls = 0, refused = 0, made = 0;
  ForEachCall(test, Purpose::kValues, [&](Call& call) {
    if (++calls > kCallsEach && !TheSession().seeds.is_exhaustive) return;
    const Mutations mutations(call);
    for (const Mutation& m : mutations.all()) {
      ++made;
      refused += CheckMutation(call, m);
      if (HasFailed()) return;
    }
  });
  if (made == 0 || HasFailed()) return;
  if (refused == 0) Fail("nothing was refused");
}

}  // namespace anyop::optest
