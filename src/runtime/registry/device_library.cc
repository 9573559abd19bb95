// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/device_library.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "platform/error.h"
#include "runtime/registry/registry.h"

namespace anyop {
namespace {

constexpr const char* kAgain = ". Build it again with this version of anyop.";

// The functions that every device has. The table of an older library may end behind the last one.
constexpr struct {
  const char* name;
  std::size_t offset;
} kFunctions[] = {
    {"error_text", offsetof(anyop_device, error_text)},
    {"count", offsetof(anyop_device, count)},
    {"properties", offsetof(anyop_device, properties)},
    {"allocate", offsetof(anyop_device, allocate)},
    {"release", offsetof(anyop_device, release)},
    {"copy", offsetof(anyop_device, copy)},
    {"fill", offsetof(anyop_device, fill)},
    {"default_stream", offsetof(anyop_device, default_stream)},
    {"create_stream", offsetof(anyop_device, create_stream)},
    {"destroy_stream", offsetof(anyop_device, destroy_stream)},
    {"create_event", offsetof(anyop_device, create_event)},
    {"destroy_event", offsetof(anyop_device, destroy_event)},
    {"record_event", offsetof(anyop_device, record_event)},
    {"wait_event", offsetof(anyop_device, wait_event)},
    {"query_event", offsetof(anyop_device, query_event)},
    {"synchronize_event", offsetof(anyop_device, synchronize_event)},
    {"elapsed", offsetof(anyop_device, elapsed)},
    {"synchronize", offsetof(anyop_device, synchronize)},
    {"late_error", offsetof(anyop_device, late_error)},
};
constexpr std::size_t kLeastDevice = offsetof(anyop_device, activate);
constexpr std::size_t kLeastEntry = offsetof(anyop_device_kernel, signature);

// Of DLPack: CPU, and memory of the host that CUDA and ROCm have pinned.
constexpr int kHostTypes[] = {1, 3, 11};
// All other types of DLPack, which has no 5 and 6. 12 is for extensions.
constexpr int kDeviceTypes[] = {2, 4, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18};

template <class T, std::size_t N>
bool Has(const T (&list)[N], const T& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsOfName(char c) { return IsLower(c) || (c >= '0' && c <= '9') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(std::string_view text) {
  return !text.empty() && IsLower(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsLower(c) || IsDigit(c); });
}

class DeviceReader {
 public:
  DeviceReader(const anyop_device_info& info, const std::string& file) : info_(info), file_(file) {}

  NewDevice Read() {
    CheckSize("its anyop_device_info", info_.size, sizeof info_);
    CheckVersion("its anyop_device_info", info_.version);
    if (!info_.name) Refuse("its anyop_device_info has no name, but every library has one.");
    if (info_.n_kernels && !info_.kernels) {
      Refuse("its anyop_device_info tells of " + std::to_string(info_.n_kernels) +
             " kernels, but their list is NULL. Try 0 for n_kernels.");
    }
    if (!info_.device && !info_.n_kernels) {
      Refuse("it brings neither a device nor kernels, but a library of a device has one of them.");
    }
    NewDevice made;
    if (info_.device) made.kind = ReadDevice(*info_.device);
    for (std::uint32_t i = 0; i < info_.n_kernels; ++i) {
      const anyop_device_kernel& k = ReadKernel(i);
      CheckIsRun(*k.kernel, made.kind.get());
      auto& entry = made.kernels.emplace_back(FullName(k.op), anyop_device_kernel{}).second;
      std::memcpy(&entry, &k, std::min<std::size_t>(k.size, sizeof entry));
    }
    return made;
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const {
    Fail(ANYOP_NOT_AVAILABLE, file_ + ": " + what);
  }
  [[noreturn]] void Contradict(const std::string& what) const {
    Fail(ANYOP_INVALID_ARGUMENT, file_ + ": " + what);
  }

  // A size that ends within a pointer is refused: half a pointer would be copied.
  void CheckSize(const std::string& table, std::size_t size, std::size_t least) const {
    if (size < least) {
      Refuse(table + " has " + std::to_string(size) + " bytes, but at least " +
             std::to_string(least) + " are needed" + kAgain);
    }
    if (size % sizeof(void*) == 0) return;
    Refuse(table + " has " + std::to_string(size) +
           " bytes, but its size must be sizeof, a multiple of " + std::to_string(sizeof(void*)) +
           kAgain);
  }
  void CheckVersion(const std::string& table, std::uint32_t version) const {
    if (version >= 1 && version <= ANYOP_DEVICE_VERSION) return;
    Refuse(table + " is of version " + std::to_string(version) + ", but this anyop has version " +
           std::to_string(ANYOP_DEVICE_VERSION) +
           (version ? ". Try a newer anyop." : std::string(kAgain)));
  }

  std::unique_ptr<DeviceKind> ReadDevice(const anyop_device& given) const {
    CheckSize("its anyop_device", given.size, kLeastDevice);
    CheckVersion("its anyop_device", given.version);
    auto made = std::make_unique<DeviceKind>();
    anyop_device& d = made->table;
    // What an older library lacks stays null, what a newer one has beyond this struct is left out.
    std::memcpy(&d, &given, std::min<std::size_t>(given.size, sizeof d));
    CheckWord("its device is called", d.word);
    made->word = d.word;
    made->file = file_;
    const std::string device = "its device '" + made->word + "'";
    if (made->word == "cpu") {
      Contradict(device + " has the name of the host. Try another word.");
    }
    CheckType(device, d.dlpack_type);
    for (const auto& f : kFunctions) {
      void* function;
      std::memcpy(&function, reinterpret_cast<const char*>(&d) + f.offset, sizeof function);
      if (!function) {
        Refuse(device + " has no function `" + f.name + "`, but every device has one. Write it.");
      }
    }
    made->runs = ReadRuns(*made, device);
    made->runs.insert(made->runs.begin(), made->word);
    return made;
  }

  void CheckWord(const std::string& what, const char* word) const {
    if (word && IsWord(word)) return;
    Contradict(what + " " + (word ? InQuotes(word) : "NULL") +
               ", but the word of a device is lower-case letters and digits, a letter first: "
               "'x_y' is a kernel of x, and 'x:0' the first x. Try another word.");
  }
  void CheckType(const std::string& device, int type) const {
    if (Has(kDeviceTypes, type)) return;
    Contradict(device + " has tensors of DLPack type " + std::to_string(type) + ", but " +
               (Has(kHostTypes, type) ? "that is memory of the host" : "DLPack has no such type") +
               ". Try 12, which is an extension.");
  }
  std::vector<std::string> ReadRuns(const DeviceKind& kind, const std::string& device) const {
    const anyop_device& d = kind.table;
    if (!d.runs) Refuse(device + " has NULL for `runs`, but must have a text. Try \"\".");
    const std::vector<std::string> words = SplitList(d.runs);
    for (const std::string& word : words) {
      CheckWord(device + " runs kernels of", word.c_str());
      if (word == "cpu" && !d.submit) {
        Contradict(device +
                   " runs kernels of 'cpu', but has no function `submit`, and without it they "
                   "would be called before the device has done its work. Try \"\" for `runs`, or "
                   "write submit.");
      }
      if (!CanRun(d)) Contradict(device + " runs kernels of " + InQuotes(word) + NoWay(kind.word));
    }
    return words;
  }

  static bool CanRun(const anyop_device& d) { return d.submit || d.activate; }
  static std::string NoWay(const std::string& word) {
    return ", but " + InQuotes(word) +
           " has neither `submit` nor `activate`, one of which every device that runs kernels "
           "has. Write activate where kernels start their work themselves, else submit.";
  }

  const anyop_device_kernel& ReadKernel(std::uint32_t i) const {
    const std::string entry = "kernel " + std::to_string(i) + " of its list";
    const anyop_device_kernel* k = info_.kernels[i];
    if (!k) {
      Refuse(entry + " is NULL, but each of the " + std::to_string(info_.n_kernels) +
             " must be an anyop_device_kernel. Try a smaller n_kernels.");
    }
    CheckSize(entry, k->size, kLeastEntry);
    if (!k->op || !*k->op)
      Refuse(entry +
             " names no operator, but stands in front of the kernels of one. Try its full name.");
    const std::string of = " for " + FullName(k->op);
    if (!k->kernel) Refuse(entry + of + " is without an anyop_kernel, but that is what runs.");
    CheckSize("the anyop_kernel of " + entry + of, k->kernel->size, kLeastKernel);
    if (!k->kernel->name || !*k->kernel->name) {
      Refuse(entry + of +
             " has no name, but its name says which device it is for. Try 'toy_rows'.");
    }
    const std::string_view name = k->kernel->name, word = DeviceWordOf(name);
    const bool is_name = name.size() > word.size() + 1 && std::ranges::all_of(name, IsOfName);
    if (!is_name) {
      Refuse(
          entry + of + " is called " + InQuotes(name) +
          ", but must be called by a word of its device, \"_\" and lower-case letters, digits or "
          "\"_\": policies name it. Try '" +
          (word.empty() ? "toy" : std::string(word)) + "_rows'.");
    }
    if (k->stops != 0 && k->stops != 1) {
      Refuse(entry + of + " has " + std::to_string(k->stops) +
             " for `stops`, but must have 0 or 1.");
    }
    return *k;
  }

  // kind: of this library; null if the kernels are for a device of another one, which must be
  // loaded already: nothing else says what a word stands for.
  void CheckIsRun(const anyop_kernel& kernel, const DeviceKind* kind) const {
    const std::string name = kernel.name, word(DeviceWordOf(kernel.name));
    if (word == "cpu") {
      Contradict("its kernel " + name +
                 " is for device 'cpu', but loading a device changes no call on the CPU, where it "
                 "would be taken first. Try '" +
                 (kind                    ? kind->word
                  : DeviceKinds().empty() ? "toy"
                                          : DeviceKinds()[0]->word) +
                 "_...' as the kernel's name.");
    }
    std::vector<const DeviceKind*> all = DeviceKinds();
    if (kind) all = {kind};
    const auto runs = [&](const DeviceKind* k) { return k->Runs(word); };
    const auto by = std::find_if(all.begin(), all.end(), runs);
    if (by != all.end() && CanRun((*by)->table)) return;
    if (by != all.end()) {
      Contradict("its kernel " + name + " is for device " + InQuotes(word) + NoWay((*by)->word));
    }
    Contradict("its kernel " + name + " is for device " + InQuotes(word) + ", but " +
               (kind ? "its device '" + kind->word + "' does not run kernels of that name. Try '" +
                           kind->word + "_...' as the kernel's name."
                     : "no loaded library has a device that runs it. Try loading the device's "
                       "library first."));
  }

  const anyop_device_info& info_;
  const std::string& file_;
};

}  // namespace

NewDevice ReadDeviceLibrary(const anyop_device_info& info, const std::string& file,
                            std::uint64_t fingerprint) {
  NewDevice made = DeviceReader(info, file).Read();
  made.image = fingerprint;
  return made;
}

}  // namespace anyop
