// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/registry.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "platform/env.h"
#include "platform/error.h"
#include "platform/log.h"
#include "runtime/observe/watch.h"
#include "runtime/plan/plan_cache.h"
#include "runtime/plan/policy.h"
#include "runtime/registry/added_kernels.h"
#include "runtime/registry/gradient.h"
#include "runtime/registry/library.h"
#include "runtime/registry/replace.h"
#include "runtime/run/call.h"
#include "runtime/run/check_composition.h"

namespace anyop {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::map<std::string, Operator*, std::less<>> operators;
  // In order of registration, so that hosts find new ones without a look at all (OperatorsFrom). A
  // replaced operator keeps its place, so that hosts, which ask by number, miss none.
  std::vector<Operator*> in_order;
  int next_index = 0;
  std::map<std::string, const anyop_reference*, std::less<>> references;
  std::vector<LoadedLibrary> libraries;
  AddedKernels added;  // by libraries of devices
};

// Never destroyed: other threads may still call at exit.
Registry& TheRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

bool SameContract(const Operator& a, const Operator& b) {
  return a.contract->hash == b.contract->hash;
}

// The gradient's operator: one that is registered already, else one that comes with this library.
Operator& FindGradient(const Registry& r, const NewLibrary& library, const Operator& op) {
  const std::string full = library.name + "." + op.data->gradient;
  const auto known = r.operators.find(full);
  if (known != r.operators.end()) return *known->second;
  std::vector<std::string> names;
  for (const auto& other : library.operators) {
    if (other->name == full) return *other;
    names.push_back(other->contract->name);
  }
  Fail(ANYOP_INVALID_ARGUMENT, op.name + ": its gradient is '" + op.data->gradient +
                                   "', but the library has no such operator." +
                                   DidYouMean(op.data->gradient, names));
}

void WireGradients(const Registry& r, NewLibrary& library) {
  for (const auto& op : library.operators) {
    if (!*op->data->gradient) continue;
    try {
      op->gradient =
          std::make_unique<GradientWiring>(WireGradient(*op, FindGradient(r, library, *op)));
    } catch (const Error& e) {
      throw Error(e.code, library.file + ": " + e.what());
    }
  }
}

void CheckCompositions(const Registry& r, const NewLibrary& library) {
  const FindOperator find = [&](const std::string& name) -> const Operator* {
    for (const auto& op : library.operators) {
      if (op->name == name) return op.get();
    }
    const auto known = r.operators.find(name);
    return known == r.operators.end() ? nullptr : known->second;
  };
  for (const auto& op : library.operators) {
    try {
      CheckWrites(*op, find);
      CheckCircles(*op, find);
    } catch (const Error& e) {
      throw Error(e.code, library.file + ": " + e.what());
    }
  }
}

const anyop_library_info& OperatorsOf(const LibraryTables& tables, const std::string& path) {
  if (tables.operators) return *tables.operators;
  Fail(ANYOP_NOT_AVAILABLE, path + ": is a library of a device, but operators are needed here.");
}

// After the built-in operators, in the order in which they are named.
void LoadGiven() {
  const std::string given = Environment("ANYOP_LOAD");
  for (std::size_t begin = 0; begin < given.size();) {
    const std::size_t end = std::min(given.find(':', begin), given.size());
    const std::string path = given.substr(begin, end - begin);
    begin = end + 1;
    if (path.empty()) continue;
    std::error_code is_missing;  // one file has one name, wherever the process goes
    const auto real = std::filesystem::canonical(path, is_missing);
    try {
      Load(is_missing ? path : real.string());
    } catch (const Error& e) {
      throw Error(e.code, "the environment variable ANYOP_LOAD is '" + given +
                              "', but must name libraries that can be loaded. " + e.what());
    }
  }
}

// The devices that ship lie beside libanyop, so that their names are enough. A file of that name in
// the working directory comes first.
std::string OrBeside(const std::string& path) {
  if (path.find('/') != path.npos || access(path.c_str(), F_OK) == 0) return path;
  const std::string beside = LibraryFolder() + path;
  return access(beside.c_str(), F_OK) == 0 ? beside : path;
}

std::string BuiltInPath() {
  const std::string given = Environment("ANYOP_LIBRARY");
  if (!given.empty()) return given;
  const std::string beside = LibraryFolder() + "anyop_ops.so";
  return access(beside.c_str(), R_OK) == 0 ? beside : "";
}

// Operators that Python or a host makes in memory have no file that could be built again: a second
// one of the same contract is skipped.
bool IsReplaced(const Operator& known, const Operator& made) {
  return made.image != 0 && made.image != known.image;
}

// Throws where the library contradicts operators that are registered, as Register says.
void CheckFits(const Registry& r, const NewLibrary& library) {
  const std::string retry = " Try a new process.";
  for (const auto& op : library.operators) {
    const auto found = r.operators.find(op->name);
    if (found == r.operators.end()) continue;
    const Operator& known = *found->second;
    if (!SameContract(known, *op)) {
      Fail(ANYOP_INVALID_ARGUMENT, op->name + " of " + library.file + " is\n  " +
                                       op->contract->text + "\nbut " + known.file +
                                       " has already registered\n  " + known.contract->text +
                                       (IsReplaced(known, *op) ? "\n" + retry.substr(1) : ""));
    }
    const std::string why = IsReplaced(known, *op) ? WhyNotReplaced(known, *op) : "";
    if (!why.empty()) {
      Fail(ANYOP_INVALID_ARGUMENT,
           op->name + ": " + why + "; " + known.file + " stays loaded." + retry);
    }
  }
  // Only a file can be built again. Looking at all operators for each one that Python defines took
  // 280 us of each of 6,000 registrations, which take 31 us without.
  if (!library.image) return;
  for (const auto& [name, known] : r.operators) {
    if (known->library != library.name || known->file != library.file || !known->image) continue;
    if (std::any_of(library.operators.begin(), library.operators.end(),
                    [&](const auto& op) { return op->name == name; })) {
      continue;
    }
    Fail(ANYOP_INVALID_ARGUMENT, name + ": " + library.file +
                                     " was built again and has no such operator, but the one that "
                                     "is loaded may be in use." +
                                     retry);
  }
}

// Warns where a library of the same name comes from another file. It may be one that was built
// elsewhere, or a mistake: two builds cannot be loaded side by side.
void TellOfOtherFile(const Registry& r, const NewLibrary& library) {
  for (const auto& op : library.operators) {
    const auto found = r.operators.find(op->name);
    if (found == r.operators.end() || !IsReplaced(*found->second, *op)) continue;
    const std::string& known = found->second->file;
    if (known == library.file) return;
    Log(2, (library.name + " of " + library.file + " takes the place of that of " + known +
            ", in every call, graph and framework.")
               .c_str());
    return;
  }
}

// Puts the operator in the place of the one of its name, if there is one.
void Enter(Registry& r, std::unique_ptr<Operator> op) {
  Operator* made = op.release();
  made->entry = CurrentEntry();  // who observes now observes it as well
  made->index = r.next_index++;
  const auto [known, is_new] = r.operators.try_emplace(made->name, made);
  if (is_new) {
    r.in_order.push_back(made);
  } else {
    Replace(*known->second, *made);
    known->second = made;
  }
}

// Throws where the device has a kernel for an operator that is neither there nor in the library.
void CheckKernelsHaveOperators(const Registry& r, const NewLibrary& library,
                               const NewDevice& device) {
  for (const auto& [name, k] : device.kernels) {
    const auto is_it = [&name = name](const auto& op) { return op->name == name; };
    if (r.operators.count(name) ||
        std::any_of(library.operators.begin(), library.operators.end(), is_it)) {
      continue;
    }
    std::vector<std::string> known;
    for (const auto& [full_name, op] : r.operators) known.push_back(full_name);
    for (const auto& op : library.operators) known.push_back(op->name);
    Fail(ANYOP_NOT_AVAILABLE, library.file + ": has a kernel " + k.kernel->name + " for " + name +
                                  ", but no such operator is loaded." + DidYouMean(name, known) +
                                  " Try loading its library first.");
  }
}

// The operator read again with the kernels of libraries of devices. Its gradient is not wired yet.
std::unique_ptr<Operator> WithKernels(const Operator& op, const AddedKernels& added,
                                      const std::string& file) {
  std::unique_ptr<Operator> made;
  try {
    made = ReadWithKernels(op, added.Of(op.name));
  } catch (const Error& e) {
    throw Error(e.code, file + ": " + e.what());
  }
  added.CheckNames(*made);
  return made;
}

// Registered operators read again with the kernels that are new, their gradients the same.
std::vector<std::unique_ptr<Operator>> ReadChanged(const Registry& r,
                                                   const std::set<std::string>& changed,
                                                   const AddedKernels& added,
                                                   const std::string& file) {
  std::vector<std::unique_ptr<Operator>> all;
  for (const std::string& name : changed) {
    const auto known = r.operators.find(name);
    if (known == r.operators.end()) continue;
    const Operator& op = *known->second;
    all.push_back(WithKernels(op, added, file));
    if (!op.gradient) continue;
    Operator& gradient = *r.operators.find(op.gradient->op->name)->second;
    all.back()->gradient = std::make_unique<GradientWiring>(WireGradient(*all.back(), gradient));
  }
  return all;
}

}  // namespace

std::string LibraryFolder() {
  Dl_info self;
  if (!dladdr(reinterpret_cast<void*>(&LoadBuiltIn), &self) || !self.dli_fname) return "";
  const std::string path = self.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

std::string FullName(std::string_view name) {
  return name.find('.') == name.npos ? "anyop." + std::string(name) : std::string(name);
}

Operator::Operator() = default;
Operator::~Operator() = default;

void LoadBuiltIn() {
  static std::once_flag once;
  // Loading looks operators up, which comes back here: call_once within itself would never return.
  static thread_local bool is_loading = false;
  if (is_loading) return;
  is_loading = true;
  struct Done {
    ~Done() { is_loading = false; }
  } done;
  std::call_once(once, [] {
    CheckEnvironment();
    PlanCache::SetCapacity(std::size_t(EnvironmentInteger("ANYOP_PLAN_CACHE")));
    const std::string path = BuiltInPath();
    if (!path.empty()) Register(ReadLibrary(OperatorsOf(OpenLibrary(path), path), path));
    LoadGiven();
  });
}

Operator* FindRegistered(std::string_view full_name) {
  Registry& r = TheRegistry();
  std::shared_lock lock(r.mutex);
  const auto found = r.operators.find(full_name);
  return found == r.operators.end() ? nullptr : found->second;
}

bool HasLibrary(std::string_view name) {
  Registry& r = TheRegistry();
  std::shared_lock lock(r.mutex);
  for (const LoadedLibrary& l : r.libraries) {
    if (l.name == name) return true;
  }
  return false;
}

std::vector<std::string> OperatorNames() {
  Registry& r = TheRegistry();
  std::shared_lock lock(r.mutex);
  std::vector<std::string> names;
  for (const auto& [name, op] : r.operators) names.push_back(name);
  return names;
}

void Register(NewLibrary library, NewDevice device) {
  Registry& r = TheRegistry();
  // Down to RegisterDevice all is checked and made on the side, then entered: all or nothing.
  std::unique_lock lock(r.mutex);
  const std::string& file = library.file;
  CheckFits(r, library);
  std::set<std::string> changed;
  CheckKernelsHaveOperators(r, library, device);
  AddedKernels added = r.added.With(device, file, &changed);
  for (auto& op : library.operators) {
    if (added.HasAnyOf(op->name)) op = WithKernels(*op, added, file);
  }
  WireGradients(r, library);
  CheckCompositions(r, library);
  std::erase_if(library.operators, [&](const auto& op) {
    const auto known = r.operators.find(op->name);
    return known != r.operators.end() && !IsReplaced(*known->second, *op);
  });
  for (const auto& op : library.operators) changed.erase(op->name);
  auto made = ReadChanged(r, changed, added, file);
  if (device.kind) RegisterDevice(std::move(device.kind));  // the last that can fail
  TellOfOtherFile(r, library);
  for (auto& op : library.operators) Enter(r, std::move(op));
  for (auto& op : made) Enter(r, std::move(op));
  r.added = std::move(added);
  for (const auto& [name, reference] : library.references)
    r.references.insert_or_assign(name, reference);
  if (library.name.empty()) return;  // a device alone
  for (const LoadedLibrary& l : r.libraries) {
    if (l.file == library.file && l.name == library.name) return;
  }
  r.libraries.push_back({library.name, library.version, library.file});
}

Operator* Find(std::string_view name) {
  LoadBuiltIn();
  const std::string full = FullName(name);
  if (Operator* op = FindRegistered(full)) return op;
  std::vector<std::string> known = OperatorNames();
  std::string text = "there is no operator '" + std::string(name) + "'.";
  if (known.empty()) Fail(ANYOP_NOT_AVAILABLE, text + " No operator library is loaded.");
  const std::string near = Nearest(full, known);
  if (near.empty()) Fail(ANYOP_NOT_AVAILABLE, text);
  const bool is_ours = near.starts_with("anyop.");
  Fail(ANYOP_NOT_AVAILABLE, text + " Did you mean '" + (is_ours ? near.substr(6) : near) + "'?");
}

std::vector<Operator*> Operators() {
  LoadBuiltIn();
  Registry& r = TheRegistry();
  std::shared_lock lock(r.mutex);
  std::vector<Operator*> all;
  for (const auto& [name, op] : r.operators) all.push_back(op);
  return all;
}

std::vector<Operator*> OperatorsFrom(std::size_t first) {
  LoadBuiltIn();
  Registry& r = TheRegistry();
  std::shared_lock lock(r.mutex);
  return {r.in_order.begin() + std::ptrdiff_t(std::min(first, r.in_order.size())),
          r.in_order.end()};
}

namespace {

// Kernels of the device `word` for the operators of X.so lie beside it, in X.word.so and
// X.word_*.so.
std::vector<std::string> KernelsBeside(const std::string& library, const std::string& word) {
  if (!library.ends_with(".so")) return {};
  const std::filesystem::path path(library);
  const std::string stem = path.stem().string() + "." + word;
  std::vector<std::string> found;
  std::error_code is_missing;
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, is_missing)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem) || !name.ends_with(".so")) continue;
    const std::string rest = name.substr(stem.size(), name.size() - stem.size() - 3);
    if (rest.empty() || rest[0] == '_') found.push_back((path.parent_path() / name).string());
  }
  std::ranges::sort(found);  // a folder has no order, and kernels are tried in that of loading
  return found;
}

// Loads kernels that lie beside libraries of operators. Operators and device may be loaded in
// either order, so whichever comes second brings the kernels. operators: the file of the new
// operators, "" if none are; new_word: of the new device, "" if there is none.
void LoadKernelsBeside(const std::string& operators, const std::string& new_word) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& library, const std::string& word) {
    for (const std::string& file : KernelsBeside(library, word)) files.push_back(file);
  };
  if (!operators.empty()) {
    for (const DeviceKind* kind : DeviceKinds()) add(operators, kind->word);
  }
  if (!new_word.empty()) {
    for (const LoadedLibrary& library : Libraries()) {
      if (library.file != operators) add(library.file, new_word);
    }
  }
  // A file that cannot be loaded keeps no other one out: errors are gathered.
  std::string wrong;
  int code = ANYOP_OK;
  for (const std::string& file : files) {
    try {
      Load(file);
    } catch (const Error& e) {
      code = e.code;
      wrong += (wrong.empty() ? "" : "\n") + std::string(e.what());
    }
  }
  if (code) Fail(code, wrong);
}

}  // namespace

void Load(const std::string& given) {
  LoadBuiltIn();
  const std::string path = OrBeside(given);
  const Image image = OpenImage(path);
  NewLibrary library;
  library.file = path;
  NewDevice device;
  if (image.tables.operators) {
    library = ReadLibrary(*image.tables.operators, path, image.fingerprint);
    CheckProcessPolicy(library, /*is_whole=*/true);
  }
  if (image.tables.device) {
    device = ReadDeviceLibrary(*image.tables.device, path, image.fingerprint);
  }
  const std::string word = device.kind ? device.kind->word : "";
  Register(std::move(library), std::move(device));
  LoadKernelsBeside(image.tables.operators ? path : "", word);
}

void Define(const anyop_library_info& info, const std::string& file) {
  LoadBuiltIn();
  CheckInfo(&info, file);
  NewLibrary library = ReadLibrary(info, file);
  CheckProcessPolicy(library, /*is_whole=*/false);
  Register(std::move(library));
}

void LoadReferences(const std::string& path) {
  LoadBuiltIn();
  NewLibrary library = ReadLibrary(OperatorsOf(OpenLibrary(path), path), path);
  library.operators.clear();
  for (const auto& [name, reference] : library.references) {
    const Operator* op = FindRegistered(name);
    if (!op) continue;
    // A reference reads frames of the operator as they are, so that its parameters must be the
    // same.
    const std::string wanted = KernelLetters(op->contract->forms[0]);
    if (reference->params && wanted == reference->params) continue;
    Fail(ANYOP_INVALID_ARGUMENT, name + ": the reference in " + path + " takes \"" +
                                     (reference->params ? reference->params : "") +
                                     "\", but the signature needs \"" + wanted + "\".");
  }
  Registry& r = TheRegistry();
  std::unique_lock lock(r.mutex);
  for (const auto& [name, reference] : library.references)
    r.references.insert_or_assign(name, reference);
}

const anyop_reference* FindReference(const Operator& op) {
  Registry& r = TheRegistry();
  std::shared_lock lock(r.mutex);
  const auto found = r.references.find(op.name);
  return found == r.references.end() ? nullptr : found->second;
}

std::vector<LoadedLibrary> Libraries() {
  LoadBuiltIn();
  Registry& r = TheRegistry();
  std::shared_lock lock(r.mutex);
  return r.libraries;
}

}  // namespace anyop
