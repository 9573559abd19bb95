// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/library.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include "platform/cpu.h"
#include "platform/error.h"
#include "platform/files.h"
#include "platform/hash_bytes.h"
#include "platform/shared_object.h"
#include "runtime/device/device.h"
#include "runtime/plan/key.h"
#include "runtime/plan/plan_cache.h"

namespace anyop {
namespace {

// A struct of an older or newer library as this runtime's: fields that it lacks stay zero. A field
// that the size cuts in two is lacking, or half a pointer would be copied.
template <class T>
T Widen(const T* from) {
  T to{};
  const std::size_t whole = from->size / alignof(T) * alignof(T);
  std::memcpy(&to, from, std::min(whole, sizeof(T)));
  to.size = sizeof(T);
  return to;
}

[[noreturn]] void FailTable(const std::string& file, const std::string& what) {
  Fail(ANYOP_NOT_AVAILABLE, file + ": " + what + ". Build it again with this version of anyop.");
}

const char* TextOr(const char* text) { return text ? text : ""; }

// The oldest layouts that this runtime reads, by the first field that they may lack.
constexpr std::size_t kLeastInfo = offsetof(anyop_library_info, docs);
constexpr std::size_t kLeastOp = offsetof(anyop_op, check);

class OperatorReader {
 public:
  // added: kernels of libraries of devices, which come first.
  OperatorReader(const anyop_library_info& info, const std::string& file, std::uint32_t number,
                 std::span<const AddedKernels::Added> added = {})
      : info_(info), file_(file), number_(number), added_(added) {}

  std::unique_ptr<Operator> Read() {
    const anyop_op* raw = info_.ops[number_];
    if (!raw) FailTable(file_, "the table of operator " + std::to_string(number_) + " is missing");
    if (raw->size < kLeastOp) FailTable(file_, "an operator's table is too short");
    op_->data_storage = std::make_unique<anyop_op>(Widen(raw));
    anyop_op* data = op_->data_storage.get();
    for (const char** text : {&data->signature, &data->gradient, &data->flops, &data->bytes,
                              &data->means, &data->prepack, &data->commutes}) {
      *text = TextOr(*text);
    }
    op_->data = data;
    op_->number = number_;
    op_->library = info_.name;
    op_->file = file_;
    op_->contract = ParseContract(data->signature, data->gradient);
    const Form& form = op_->contract->forms[0];
    op_->name = op_->library + "." + op_->contract->name;
    op_->shown_name = op_->display_name();
    op_->doc = info_.docs ? TextOr(info_.docs[number_]) : "";
    op_->source = info_.files ? TextOr(info_.files[number_]) : "";
    op_->n_params = int(form.params.size());
    op_->n_results = int(form.results.size());
    op_->plans = std::make_unique<PlanCache>();
    ReadKernels();
    CompileExpressions();
    CheckLetters("the check", data->check_params, Taker::kCheck);
    CheckLetters("the check of data", data->check_data_params, Taker::kCheck);
    FindWhatIsRead();
    MakeKeyParts(*op_);  // last: kernels and expressions say which numbers plans depend on
    return std::move(op_);
  }

 private:
  void ReadKernels() {
    const char* list = info_.kernel_lists ? info_.kernel_lists[number_] : nullptr;
    const std::vector<std::string> listed = SplitList(TextOr(list));
    anyop_kernel_list own{op_->data->n_kernels, op_->data->kernels};
    if (!own.n && info_.kernels) own = info_.kernels[number_];
    if (own.n && !own.first) {
      FailTable(file_, "the list of kernels of " + op_->name + " is missing");
    }
    for (const AddedKernels::Added& a : added_) {
      op_->kernels.push_back(ReadKernel(*a.kernel.kernel));
      op_->kernels.back().stops = a.kernel.stops;
      op_->kernels.back().file = a.file;
      if (a.kernel.signature) *a.kernel.signature = op_->data->signature;
    }
    for (std::uint64_t k = 0; k < own.n; ++k) {
      const anyop_kernel* raw = own.first[k];
      if (!raw) {  // this build leaves the kernel out, and only the list of C++ names has its name
        OperatorKernel kernel;
        kernel.name = k < listed.size() ? listed[k] : "kernel " + std::to_string(k);
        RemovePrefix(kernel.name);
        kernel.device = DeviceWordOf(kernel.name);
        const bool has_name = k < listed.size();
        kernel.is_for_host = !has_name || kernel.device == "cpu";
        op_->kernels.push_back(std::move(kernel));
        continue;
      }
      op_->kernels.push_back(ReadKernel(*raw));
    }
  }
  OperatorKernel ReadKernel(const anyop_kernel& raw) {
    if (raw.size < kLeastKernel) FailTable(file_, "a kernel's table is too short");
    OperatorKernel kernel;
    kernel.data = Widen(&raw);
    anyop_kernel& d = kernel.data;
    for (const char** text : {&d.name, &d.when, &d.needs, &d.workspace, &d.params, &d.probe}) {
      *text = TextOr(*text);
    }
    kernel.name = d.name;
    if (!d.run) FailTable(file_, "kernel " + kernel.name + " of " + op_->name + " has no function");
    kernel.device = DeviceWordOf(kernel.name);
    kernel.is_for_host = kernel.device == "cpu";
    kernel.needs_caller = kernel.name == kPythonKernel;
    kernel.is_built = true;
    // Features of a device differ from card to card: dispatch asks for those of the call's.
    if (kernel.is_for_host) kernel.missing = MissingFeature(d.needs);
    kernel.has_features = kernel.missing.empty();
    kernel.is_portable = !*d.needs;
    CheckLetters("kernel " + kernel.name, d.params, Taker::kKernel);
    return kernel;
  }

  // The list names objects of C++ ("rms_norm_avx512"). A kernel's own name has the device in place
  // of the operator ("cpu_avx512").
  void RemovePrefix(std::string& name) {
    const std::size_t colons = name.rfind("::");
    if (colons != name.npos) name = name.substr(colons + 2);
    if (!name.empty() && name[0] == '&') name = name.substr(1);
    if (name.starts_with(op_->contract->name + "_")) {
      name = "cpu_" + name.substr(op_->contract->name.size() + 1);
    }
  }

  enum class Taker { kKernel, kCheck };
  void CheckLetters(const std::string& what, const char* letters, Taker taker) {
    if (!letters || !*letters) return;
    const std::string all = KernelLetters(op_->contract->forms[0]);
    const bool is_check = taker == Taker::kCheck;
    const std::string wanted = is_check ? all.substr(0, std::size_t(op_->n_params)) : all;
    if (is_check ? IsCheckOf(letters, wanted) : wanted == letters) return;
    Fail(ANYOP_INVALID_ARGUMENT, op_->name + " in " + file_ + ": " + what + " takes \"" + letters +
                                     "\", but the signature needs \"" + wanted + "\":\n  " +
                                     op_->contract->text);
  }

  // Which tensors' data the operator's check may read: those whose letter is not that of a shape
  // alone. A check whose letters are not known may read every tensor.
  void FindWhatIsRead() {
    const Form& form = op_->contract->forms[0];
    const std::string_view letters = TextOr(op_->data->check_params);
    for (std::size_t i = 0; i < form.params.size(); ++i) {
      if (!IsTensor(form.params[i].kind)) continue;
      const std::uint64_t bit = std::uint64_t{1} << i;
      if (form.params[i].is_planned) op_->planned |= bit;
      const bool has_data =
          letters.empty() || std::string_view("tTl").find(letters[i]) != std::string_view::npos;
      if (op_->data->check && has_data) op_->check_reads |= bit;
    }
  }

  // f(), whose errors begin with the field that they are about.
  template <class F>
  static auto Naming(const std::string& field, F&& f) {
    try {
      return f();
    } catch (const Error& e) {
      throw Error(e.code, field + ": " + e.what());
    }
  }

  void CompileExpressions() {
    Contract& c = *op_->contract;
    const anyop_op& d = *op_->data;
    if (*d.flops) op_->flops = Naming(".flops", [&] { return CompileExpression(c, d.flops); });
    if (*d.bytes) op_->bytes = Naming(".bytes", [&] { return CompileExpression(c, d.bytes); });
    if (*d.means) {
      op_->compositions = Naming(".means", [&] { return ParseCompositions(c, d.means); });
    }
    if (*d.prepack) {  // in a contract of its own: what it uses is no part of a plan's key
      const auto own = ParseContract(d.signature);
      Naming(".prepack",
             [&] { return ParseCompositions(*own, d.prepack, CompositionField::kPrepack); });
    }
    for (OperatorKernel& k : op_->kernels) {
      const std::string of = " of kernel " + k.name;
      if (!k.is_built) continue;
      if (*k.data.when) {
        k.when = Naming(".when" + of, [&] { return CompileConditions(c, k.data.when); });
      }
      if (*k.data.workspace) {
        k.workspace = Naming(".workspace" + of, [&] {
          return CompileExpression(c, k.data.workspace, ThreadsName::kKnown);
        });
      }
    }
  }

  const anyop_library_info& info_;
  const std::string& file_;
  std::uint32_t number_;
  std::span<const AddedKernels::Added> added_;
  std::unique_ptr<Operator> op_ = std::make_unique<Operator>();
};

void CheckIsReadable(const std::string& path) {
  std::string why;
  const int file = OpenRegularFile(path, &why);
  if (file >= 0) {
    close(file);
    return;
  }
  if (!why.starts_with("it is")) {  // the system's own words
    Fail(ANYOP_NOT_AVAILABLE, path + ": there is no such file, or it cannot be read.");
  }
  Fail(ANYOP_NOT_AVAILABLE, path + ": " + why + ", but must be a library of operators.");
}

// file: what is opened; path: what messages call it.
LibraryTables OpenTable(const std::string& file, const std::string& path) {
  // LOCAL: libraries may define the same names. NOW: a missing symbol is an error here and not the
  // end of the process in a call.
  void* handle = dlopen(file.c_str(), RTLD_LOCAL | RTLD_NOW);
  if (!handle) {
    const char* why = dlerror();
    Fail(ANYOP_NOT_AVAILABLE, path + ": cannot be loaded: " + (why ? why : "unknown") + ".");
  }
  const auto operators = reinterpret_cast<anyop_library_fn>(dlsym(handle, "anyop_library"));
  const auto device =
      reinterpret_cast<anyop_device_library_fn>(dlsym(handle, "anyop_device_library"));
  if (!operators && !device) {
    Fail(ANYOP_NOT_AVAILABLE, path +
                                  ": is no operator library, because it does not export "
                                  "anyop_library (nor anyop_device_library).");
  }
  LibraryTables tables;
  if (operators) CheckInfo(tables.operators = operators(), path);
  if (device && !(tables.device = device())) {
    Fail(ANYOP_NOT_AVAILABLE, path + ": anyop_device_library returned nothing.");
  }
  return tables;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// dlopen answers with the old code for a name or an inode that it knows, so a library that was
// built again is opened as a file of its own, in memory. Its descriptor stays open, because a later
// copy with the same number would have the same name.
LibraryTables OpenCopy(const std::string& bytes, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const int file = memfd_create(name.c_str(), MFD_CLOEXEC);
  std::size_t done = 0;
  while (file >= 0 && done < bytes.size()) {
    const ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n <= 0) break;
    done += std::size_t(n);
  }
  if (done < bytes.size()) {
    if (file >= 0) close(file);
    Fail(ANYOP_NOT_AVAILABLE, path +
                                  ": was built again, but there is no memory for a copy of it "
                                  "beside the old one. Try a new process.");
  }
  return OpenTable("/proc/self/fd/" + std::to_string(file), path);
}

}  // namespace

LibraryTables OpenLibrary(const std::string& path) {
  CheckIsReadable(path);
  CheckIsWhole(path);
  // Without a slash dlopen would search the system's folders.
  return OpenTable(path.find('/') == path.npos ? "./" + path : path, path);
}

Image OpenImage(const std::string& path) {
  CheckIsReadable(path);
  CheckIsWhole(path);
  static auto& mutex = *new std::mutex;
  static auto& images = *new std::map<std::uint64_t, LibraryTables>;
  const std::lock_guard lock(mutex);
  const std::string bytes = ReadFile(path);
  const std::uint64_t fingerprint = HashBytes(bytes.data(), bytes.size()) | 1;  // 0 means none
  const auto known = images.find(fingerprint);
  if (known != images.end()) return {known->second, fingerprint};
  LibraryTables tables = OpenLibrary(path);
  // New content, and yet tables that are known: dlopen has answered with the old code.
  const bool is_old = std::any_of(images.begin(), images.end(), [&](const auto& image) {
    return image.second.operators == tables.operators && image.second.device == tables.device;
  });
  if (is_old) tables = OpenCopy(bytes, path);
  images.emplace(fingerprint, tables);
  return {tables, fingerprint};
}

void CheckInfo(const anyop_library_info* info, const std::string& path) {
  if (!info) Fail(ANYOP_NOT_AVAILABLE, path + ": anyop_library returned nothing.");
  if (info->abi_version > ANYOP_ABI_VERSION || info->abi_version == 0) {
    Fail(ANYOP_NOT_AVAILABLE,
         path + ": was built for boundary version " + std::to_string(info->abi_version) +
             ", but this anyop has version " + std::to_string(ANYOP_ABI_VERSION) +
             ". Try a newer anyop, or build the library with this one's headers.");
  }
  if (info->size < kLeastInfo || !info->name) {
    Fail(ANYOP_NOT_AVAILABLE, path + ": the library's table has " + std::to_string(info->size) +
                                  " bytes, but at least " + std::to_string(kLeastInfo) +
                                  " are needed. Build it again with this version of anyop.");
  }
}

NewLibrary ReadLibrary(const anyop_library_info& raw, const std::string& file,
                       std::uint64_t fingerprint) {
  const anyop_library_info info = Widen(&raw);
  NewLibrary library{info.name, TextOr(info.version), file, fingerprint, {}, {}};
  if (info.n_ops && !info.ops) FailTable(file, "the table of its operators is missing");
  for (std::uint32_t i = 0; i < info.n_ops; ++i) {
    try {
      library.operators.push_back(OperatorReader(info, file, i).Read());
      library.operators.back()->image = fingerprint;
      library.operators.back()->info = &raw;
    } catch (const Error& e) {
      // Some texts name the file already.
      if (std::string_view(e.what()).find(file) != std::string_view::npos) throw;
      throw Error(e.code, file + ": " + e.what());
    }
  }
  for (std::uint32_t i = 0; info.references && i < info.n_references; ++i) {
    const anyop_reference* r = info.references[i];
    if (!r || r->size < sizeof *r || !r->op || !r->run) {
      FailTable(file, "the table of reference " + std::to_string(i) + " is not whole");
    }
    library.references.emplace_back(library.name + "." + r->op, r);
  }
  return library;
}

std::unique_ptr<Operator> ReadWithKernels(const Operator& known,
                                          std::span<const AddedKernels::Added> added) {
  const anyop_library_info info = Widen(known.info);
  auto made = OperatorReader(info, known.file, known.number, added).Read();
  made->image = known.image;
  made->info = known.info;
  return made;
}

}  // namespace anyop
