// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/policy.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "platform/error.h"
#include "runtime/device/device.h"
#include "runtime/registry/operator.h"
#include "runtime/registry/registry.h"

namespace anyop {
namespace {

std::string_view Trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

[[noreturn]] void FailPolicy(std::string_view text, const std::string& what) {
  Fail(ANYOP_INVALID_ARGUMENT, "policy " + InQuotes(text) + ": " + what);
}

// op: the operator that the item names, null if there is none.
void CheckItem(std::string_view text, const PolicyItem& item, const Operator* op,
               const std::vector<std::string>& known) {
  if (!op) {
    FailPolicy(text,
               "there is no operator " + InQuotes(item.op) + "." + DidYouMean(item.op, known));
  }
  if (item.choice != PolicyItem::kPinned) return;
  std::vector<std::string> names;
  for (const OperatorKernel& k : op->kernels) {
    if (NameMatches(*op, k.name, item.kernel)) return;
    names.push_back(k.name);
  }
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  const std::string has = list.empty() ? "and none at all." : "only " + list + ".";
  std::string hint = DidYouMean(item.kernel, names);
  if (item.device() != "cpu" && !FindDeviceKind(item.device())) {
    hint = " No library of a device " + InQuotes(item.device()) +
           " is loaded. Try loading it first, by ANYOP_LOAD or anyop.load.";
  }
  FailPolicy(text,
             op->display_name() + " has no kernel " + InQuotes(item.kernel) + ", " + has + hint);
}

std::string_view LibraryOf(const PolicyItem& item) {
  return std::string_view(item.op).substr(0, item.op.find('.'));
}

// An operator of a library that is not loaded yet is checked by CheckProcessPolicy, when it is.
void CheckLoaded(std::string_view text, const PolicyItem& item) {
  if (HasLibrary(LibraryOf(item))) {
    CheckItem(text, item, FindRegistered(item.op), OperatorNames());
  }
}

// Whether these are pins for two kinds of device, which are about different calls.
bool AreApart(const PolicyItem& a, const PolicyItem& b) {
  return a.choice == PolicyItem::kPinned && b.choice == PolicyItem::kPinned &&
         a.device() != b.device();
}

void Sort(Policy* policy) {
  std::ranges::sort(policy->items, {},
                    [](const PolicyItem& i) { return std::tie(i.op, i.kernel); });
}

class PolicyParser {
 public:
  explicit PolicyParser(std::string_view text) : text_(text) {}

  Policy Parse() {
    // <=, so that a comma at the end is followed by a word, too: an empty one, which is refused.
    for (std::size_t begin = 0; begin <= text_.size();) {
      const std::size_t end = std::min(text_.find(',', begin), text_.size());
      const std::string_view word = Trim(text_.substr(begin, end - begin));
      if (!word.empty()) {
        ParseWord(word);
      } else if (!Trim(text_).empty()) {
        FailPolicy(text_, "there is nothing between two commas.");
      }
      begin = end + 1;
    }
    Sort(&policy_);
    return std::move(policy_);
  }

 private:
  void ParseWord(std::string_view word) {
    const std::size_t equal = word.find('=');
    if (word == "all" || word == "none") {
      const bool all = word == "all";
      if (policy_.has_base && policy_.all != all) FailPolicy(text_, "all and none contradict.");
      policy_.all = all;
      policy_.has_base = true;
    } else if (word[0] == '+' || word[0] == '-') {
      const auto choice = word[0] == '+' ? PolicyItem::kEnabled : PolicyItem::kDisabled;
      Add(Trim(word.substr(1)), {{}, choice, {}});
    } else if (equal != word.npos) {
      const std::string kernel(Trim(word.substr(equal + 1)));
      if (kernel.empty()) FailPolicy(text_, InQuotes(word) + " names no kernel.");
      Add(Trim(word.substr(0, equal)), {{}, PolicyItem::kPinned, kernel});
    } else {
      const std::vector<std::string> known{"all", "none"};
      FailPolicy(text_, InQuotes(word) +
                            " must be all, none, +operator, -operator or operator=kernel." +
                            DidYouMean(word, known));
    }
  }
  void Add(std::string_view name, PolicyItem item) {
    if (name.empty()) FailPolicy(text_, "an operator's name is missing.");
    item.op = FullName(name);
    CheckLoaded(text_, item);
    for (const PolicyItem& other : policy_.items) {
      if (other.op != item.op || AreApart(other, item)) continue;
      if (other.choice == item.choice && other.kernel == item.kernel) return;
      FailPolicy(text_, "it says two things about " + std::string(name) + ".");
    }
    policy_.items.push_back(std::move(item));
  }

  std::string_view text_;
  Policy policy_;
};

std::string TextOf(const Policy& p) {
  std::string text = !p.has_base ? "" : p.all ? "all" : "none";
  for (const PolicyItem& i : p.items) {
    if (!text.empty()) text += ',';
    if (i.choice == PolicyItem::kEnabled) text += "+";
    if (i.choice == PolicyItem::kDisabled) text += "-";
    text += i.op;
    if (i.choice == PolicyItem::kPinned) text += "=" + i.kernel;
  }
  return text;
}

// The one policy of this text, made if it is new. Keys of plans hold its number, so that equal
// policies must have one, and none is ever freed.
const Policy* Intern(Policy policy) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::unique_ptr<Policy>>;
  policy.text = TextOf(policy);
  std::lock_guard lock(mutex);
  std::unique_ptr<Policy>& p = (*known)[policy.text];
  if (!p) {
    policy.number = policy.text.empty() ? 0 : std::uint32_t(known->size());
    p = std::make_unique<Policy>(std::move(policy));
  }
  return p.get();
}

}  // namespace

std::span<const PolicyItem> Policy::find(std::string_view op) const {
  return std::ranges::equal_range(items, op, {}, &PolicyItem::op);
}

const Policy* ParsePolicy(std::string_view text) {
  LoadBuiltIn();
  return Intern(PolicyParser(text).Parse());
}

const Policy* Combine(const Policy* outer, const Policy* inner) {
  if (inner->has_base || outer->text.empty()) return inner;
  Policy both = *outer;
  for (const PolicyItem& i : inner->items) {
    std::erase_if(both.items, [&](const PolicyItem& o) { return o.op == i.op && !AreApart(o, i); });
    both.items.push_back(i);
  }
  Sort(&both);
  return Intern(std::move(both));
}

void CheckProcessPolicy(const NewLibrary& library, bool is_whole) {
  const Policy* policy = process_policy.load(std::memory_order_acquire);
  if (!policy || policy->items.empty()) return;
  std::vector<std::string> known = OperatorNames();
  for (const auto& op : library.operators) known.push_back(op->name);
  for (const PolicyItem& item : policy->items) {
    if (LibraryOf(item) != library.name) continue;
    const auto same = [&](const auto& op) { return op->name == item.op; };
    const auto found = std::find_if(library.operators.begin(), library.operators.end(), same);
    if (found != library.operators.end()) {
      CheckItem(policy->text, item, found->get(), known);
    } else if (is_whole) {
      CheckItem(policy->text, item, FindRegistered(item.op), known);
    }
  }
}

bool NameMatches(const Operator& op, std::string_view kernel, std::string_view wanted) {
  const bool is_a_name = std::any_of(op.kernels.begin(), op.kernels.end(),
                                     [&](const OperatorKernel& k) { return k.name == wanted; });
  if (is_a_name) return kernel == wanted;
  return kernel.size() > wanted.size() && kernel.starts_with(wanted) &&
         kernel[wanted.size()] == '_';
}

}  // namespace anyop
