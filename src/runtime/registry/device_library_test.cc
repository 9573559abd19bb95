// SPDX-License-Identifier: Apache-2.0
// What is wrong in a library of a device is said when it is loaded, and leaves nothing behind.
#include "runtime/registry/device_library.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "anyop/stream.h"
#include "runtime/registry/gradient.h"
#include "runtime/registry/library.h"
#include "runtime/registry/registry.h"
#include "runtime/registry/replace.h"
#include "runtime/testing/testing.h"

namespace anyop::device_library_test {
namespace {

// A function of any type, of a device that nobody uses.
struct Anything {
  template <class R, class... Args>
  using Function = R (*)(Args...);
  template <class R, class... Args>
  operator Function<R, Args...>() const {
    return [](Args...) -> R { return R{}; };
  }
};

int Run(const anyop_context*, const anyop_value*) { return ANYOP_OK; }

// Right as it stands.
struct HandMade {
  HandMade() {
    kernel.size = sizeof kernel;
    kernel.name = "hand_axpy";
    kernel.params = "fttt";
    kernel.run = &Run;
  }

  anyop_device device = {.size = sizeof device,
                         .version = ANYOP_DEVICE_VERSION,
                         .word = "hand",
                         .dlpack_type = 12,
                         .host_can_read = 1,
                         .runs = "cpu",
                         .error_text = [] { return ""; },
                         .count = [] { return std::int32_t{1}; },
                         .properties = Anything(),
                         .allocate = Anything(),
                         .release = Anything(),
                         .copy = Anything(),
                         .fill = Anything(),
                         .default_stream = Anything(),
                         .create_stream = Anything(),
                         .destroy_stream = Anything(),
                         .create_event = Anything(),
                         .destroy_event = Anything(),
                         .record_event = Anything(),
                         .wait_event = Anything(),
                         .query_event = Anything(),
                         .synchronize_event = Anything(),
                         .elapsed = Anything(),
                         .synchronize = Anything(),
                         .late_error = Anything(),
                         .activate = nullptr,
                         .submit = Anything(),
                         .check_indices = nullptr,
                         .failed = nullptr,
                         .pack = nullptr,
                         .unpack = nullptr,
                         .takes_host_calls = 0,
                         .reserved = 0,
                         .allocation = nullptr};
  anyop_kernel kernel{};
  anyop_device_kernel entry = {sizeof entry, 0, "testing.axpy", &kernel, nullptr};
  const anyop_device_kernel* list[1] = {&entry};
  anyop_device_info info = {sizeof info, ANYOP_DEVICE_VERSION, "hand", &device, 1, 0, list};

  // image: what tells the contents of a file apart, 0 of one that is no file.
  void Load(const std::string& file = "hand.so", std::uint64_t image = 0) const {
    NewLibrary without_operators;
    without_operators.file = file;
    Register(std::move(without_operators), ReadDeviceLibrary(info, file, image));
  }
};

std::vector<std::string> KernelsOf(const char* op) {
  std::vector<std::string> names;
  for (const OperatorKernel& k : Find(op)->kernels) names.push_back(k.name);
  return names;
}

struct Wrong {
  std::function<void(HandMade&)> change;
  std::string error;  // behind the file
  int code = ANYOP_INVALID_ARGUMENT;
};

const std::string kAgain = " Build it again with this version of anyop.";
const std::string kKernelName =
    ", but must be called by a word of its device, \"_\" and lower-case letters, digits or \"_\": "
    "policies name it. Try 'hand_rows'.";
const std::string kWord =
    ", but the word of a device is lower-case letters and digits, a letter first: 'x_y' is a "
    "kernel of x, and 'x:0' the first x. Try another word.";
const std::string kNoWay =
    ", but 'hand' has neither `submit` nor `activate`, one of which every device that runs kernels "
    "has. Write activate where kernels start their work themselves, else submit.";
const std::string kNoSubmit =
    "its device 'hand' runs kernels of 'cpu', but has no function `submit`, and without it they "
    "would be called before the device has done its work. Try \"\" for `runs`, or write submit.";

void ExpectRefused(const std::vector<Wrong>& all) {
  const auto before = KernelsOf("testing.axpy");
  const std::size_t libraries = Libraries().size();
  for (const Wrong& w : all) {
    HandMade library;
    w.change(library);
    int code = 0;
    EXPECT_EQ(ErrorOf([&] { library.Load(); }, &code), "hand.so: " + w.error);
    EXPECT_EQ(code, w.code) << w.error;
    EXPECT_TRUE(DeviceKinds().empty()) << w.error;
    EXPECT_EQ(KernelsOf("testing.axpy"), before) << w.error;
    EXPECT_EQ(Libraries().size(), libraries) << w.error;
  }
}

TEST(DeviceLibrary, WhoseDeviceCannotBeNamedIsRefused) {
  std::vector<Wrong> all;
  for (const char* word : {"to_y", "to:y", "to y", " toy", "Toy", "", "7", "t\xc3\xb6y"}) {
    all.push_back({[word](HandMade& l) { l.device.word = word; },
                   "its device is called '" + std::string(word) + "'" + kWord});
    if (!*word) continue;  // nothing in `runs`
    all.push_back({[word](HandMade& l) { l.device.runs = word; },
                   "its device 'hand' runs kernels of '" + std::string(word).substr(*word == ' ') +
                       "'" + kWord});
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const Wrong& w) { return w.error.find("of 'toy'") != w.error.npos; }),
            all.end());  // " toy" in a list is toy
  all.push_back(
      {[](HandMade& l) { l.device.word = nullptr; }, "its device is called NULL" + kWord});
  all.push_back({[](HandMade& l) { l.device.runs = "cpu,,hand"; },
                 "its device 'hand' runs kernels of ''" + kWord});
  all.push_back({[](HandMade& l) { l.device.word = "cpu"; },
                 "its device 'cpu' has the name of the host. Try another word."});
  all.push_back({[](HandMade& l) { l.device.runs = nullptr; },
                 "its device 'hand' has NULL for `runs`, but must have a text. Try \"\".",
                 ANYOP_NOT_AVAILABLE});
  ExpectRefused(all);
}

TEST(DeviceLibrary, WhoseTensorsLieOnNoDeviceIsRefused) {
  std::vector<Wrong> all;
  for (const int type : {-1, 0, 1, 3, 5, 11, 19}) {
    const bool is_host = type == 1 || type == 3 || type == 11;
    all.push_back({[type](HandMade& l) { l.device.dlpack_type = type; },
                   "its device 'hand' has tensors of DLPack type " + std::to_string(type) +
                       ", but " +
                       (is_host ? "that is memory of the host" : "DLPack has no such type") +
                       ". Try 12, which is an extension."});
  }
  ExpectRefused(all);
}

TEST(DeviceLibrary, ThatCannotRunWhatItClaimsToRunIsRefused) {
  ExpectRefused({
      {[](HandMade& l) { l.device.submit = nullptr; }, kNoSubmit},
      {[](HandMade& l) {
         l.device.submit = nullptr;
         l.device.activate = Anything();
       },
       kNoSubmit},
      {[](HandMade& l) { l.device.size = offsetof(anyop_device, submit); }, kNoSubmit},
      {[](HandMade& l) { l.device.size = offsetof(anyop_device, activate); }, kNoSubmit},
      {[](HandMade& l) {
         l.device.submit = nullptr;
         l.device.runs = "other";
       },
       "its device 'hand' runs kernels of 'other'" + kNoWay},
      {[](HandMade& l) {
         l.device.submit = nullptr;
         l.device.runs = "";
       },
       "its kernel hand_axpy is for device 'hand'" + kNoWay},
  });
}

TEST(DeviceLibrary, WhoseTablesAreNotWholeIsRefused) {
  const auto bytes = [](std::size_t n) { return std::to_string(n); };
  const int code = ANYOP_NOT_AVAILABLE;
  ExpectRefused({
      {[](HandMade& l) { l.info.size = 8; },
       "its anyop_device_info has 8 bytes, but at least " + bytes(sizeof(anyop_device_info)) +
           " are needed." + kAgain,
       code},
      {[](HandMade& l) { l.info.version = 2; },
       "its anyop_device_info is of version 2, but this anyop has version 1. Try a newer anyop.",
       code},
      {[](HandMade& l) { l.info.name = nullptr; },
       "its anyop_device_info has no name, but every library has one.", code},
      {[](HandMade& l) { l.info.kernels = nullptr; },
       "its anyop_device_info tells of 1 kernels, but their list is NULL. Try 0 for n_kernels.",
       code},
      {[](HandMade& l) {
         l.info.device = nullptr;
         l.info.n_kernels = 0;
       },
       "it brings neither a device nor kernels, but a library of a device has one of them.", code},
      {[](HandMade& l) { l.device.size = offsetof(anyop_device, late_error); },
       "its anyop_device has " + bytes(offsetof(anyop_device, late_error)) +
           " bytes, but at least " + bytes(offsetof(anyop_device, activate)) + " are needed." +
           kAgain,
       code},
      {[](HandMade& l) { l.device.size = offsetof(anyop_device, submit) + 4; },
       "its anyop_device has " + bytes(offsetof(anyop_device, submit) + 4) +
           " bytes, but its size must be sizeof, a multiple of 8." + kAgain,
       code},
      {[](HandMade& l) { l.device.version = 0; },
       "its anyop_device is of version 0, but this anyop has version 1." + kAgain, code},
      {[](HandMade& l) { l.device.error_text = nullptr; },
       "its device 'hand' has no function `error_text`, but every device has one. Write it.", code},
      {[](HandMade& l) { l.device.late_error = nullptr; },
       "its device 'hand' has no function `late_error`, but every device has one. Write it.", code},
  });
}

TEST(DeviceLibrary, WithAKernelThatNobodyWouldUseIsRefused) {
  const int code = ANYOP_NOT_AVAILABLE;
  const std::string first = "kernel 0 of its list";
  ExpectRefused({
      {[](HandMade& l) { l.list[0] = nullptr; },
       first + " is NULL, but each of the 1 must be an anyop_device_kernel. Try a smaller "
               "n_kernels.",
       code},
      {[](HandMade& l) { l.entry.size = 16; },
       first + " has 16 bytes, but at least 24 are needed." + kAgain, code},
      {[](HandMade& l) { l.entry.op = nullptr; },
       first + " names no operator, but stands in front of the kernels of one. Try its full name.",
       code},
      {[](HandMade& l) { l.entry.kernel = nullptr; },
       first + " for testing.axpy is without an anyop_kernel, but that is what runs.", code},
      {[](HandMade& l) { l.kernel.size = 16; },
       "the anyop_kernel of " + first + " for testing.axpy has 16 bytes, but at least " +
           std::to_string(offsetof(anyop_kernel, accepts)) + " are needed." + kAgain,
       code},
      {[](HandMade& l) { l.kernel.name = nullptr; },
       first + " for testing.axpy has no name, but its name says which device it is for. Try "
               "'toy_rows'.",
       code},
      {[](HandMade& l) { l.kernel.name = "hand_"; },
       first + " for testing.axpy is called 'hand_'" + kKernelName, code},
      {[](HandMade& l) { l.kernel.name = "hand"; },
       first + " for testing.axpy is called 'hand'" + kKernelName, code},
      {[](HandMade& l) { l.kernel.name = "hand_a\n"; },
       first + " for testing.axpy is called 'hand_a\n'" + kKernelName, code},
      {[](HandMade& l) { l.entry.stops = 7; },
       first + " for testing.axpy has 7 for `stops`, but must have 0 or 1.", code},
      {[](HandMade& l) { l.kernel.run = nullptr; },
       TestingLibrary::Path() + ": kernel hand_axpy of testing.axpy has no function." + kAgain,
       code},
      {[](HandMade& l) { l.kernel.params = "ttt"; },
       "testing.axpy in " + TestingLibrary::Path() +
           ": kernel hand_axpy takes \"ttt\", but the signature needs \"fttt\":\n  " +
           Find("testing.axpy")->contract->text},
      {[](HandMade& l) { l.kernel.name = "handy_axpy"; },
       "its kernel handy_axpy is for device 'handy', but its device 'hand' does not run kernels "
       "of that name. Try 'hand_...' as the kernel's name."},
      {[](HandMade& l) { l.kernel.name = "cpu_axpy"; },
       "its kernel cpu_axpy is for device 'cpu', but loading a device changes no call on the CPU, "
       "where it would be taken first. Try 'hand_...' as the kernel's name."},
      {[](HandMade& l) { l.info.device = nullptr; },
       "its kernel hand_axpy is for device 'hand', but no loaded library has a device that runs "
       "it. Try loading the device's library first."},
      {[](HandMade& l) { l.entry.op = "testing.axpi"; },
       "has a kernel hand_axpy for testing.axpi, but no such operator is loaded. Did you mean "
       "'testing.axpy'? Try loading its library first.",
       code},
  });
}

// What follows leaves a device behind, in this process, so the refusals stand above.

std::int32_t n_hands = 2;

const HandMade& Right() {
  static HandMade library;
  library.device.count = [] { return n_hands; };
  library.device.error_text = [] { return "the hand is gone."; };
  library.device.properties = [](std::int32_t number, anyop_device_properties* to) -> int {
    if (number == 1) return ANYOP_NOT_AVAILABLE;
    to->name = "a hand";
    to->cores = 5;
    return ANYOP_OK;
  };
  return library;
}

// A file of two operators, one the gradient of the other, and a kernel for each; the device is
// hand.
struct WithOperators {
  WithOperators() {
    op[0].signature = "twice(x: f32[n]) -> (y: f32[n])";
    op[0].gradient = "twice_backward";
    op[1].signature = "twice_backward(dy: f32[n]) -> (dx: f32[n]?)";
    for (anyop_op& o : op) o.size = sizeof o;
    info.size = sizeof info;
    info.abi_version = ANYOP_ABI_VERSION;
    info.name = "handmade";
    info.n_ops = 2;
    info.ops = ops;
    hand.kernel.params = "tt";
    backward = hand.kernel;
    backward.name = "hand_backward";
    backward.params = "tT";
    hand.info.device = nullptr;
    hand.info.n_kernels = 2;
    hand.info.kernels = entries;
  }
  void Load() const {
    Register(ReadLibrary(info, "both.so"), ReadDeviceLibrary(hand.info, "both.so"));
  }

  anyop_op op[2] = {};
  const anyop_op* ops[2] = {&op[0], &op[1]};
  anyop_library_info info{};
  HandMade hand;
  anyop_kernel backward{};
  anyop_device_kernel entry[2] = {
      {sizeof(anyop_device_kernel), 0, "handmade.twice", &hand.kernel, nullptr},
      {sizeof(anyop_device_kernel), 0, "handmade.twice_backward", &backward, nullptr}};
  const anyop_device_kernel* entries[2] = {&entry[0], &entry[1]};
};

TEST(DeviceLibrary, ThatBringsItsOwnOperatorsIsLoadedWholeOrNotAtAll) {
  Right().Load();
  static WithOperators both;
  both.entry[1].op = "handmade.gone";
  EXPECT_EQ(
      ErrorOf([&] { both.Load(); }),
      "both.so: has a kernel hand_backward for handmade.gone, but no such operator is loaded. Try "
      "loading its library first.");
  EXPECT_EQ(FindRegistered("handmade.twice"), nullptr);
  EXPECT_FALSE(HasLibrary("handmade"));
  both.entry[1].op = "handmade.twice_backward";
  both.Load();
  EXPECT_EQ(KernelsOf("handmade.twice"), std::vector<std::string>{"hand_axpy"});
  EXPECT_EQ(KernelsOf("handmade.twice_backward"), std::vector<std::string>{"hand_backward"});
  EXPECT_EQ(GradientOf(*Find("handmade.twice"))->op, Find("handmade.twice_backward"));
}

TEST(DeviceLibrary, ThatIsRightIsLoadedOnce) {
  Right().Load();
  Right().Load();
  ASSERT_EQ(DeviceKinds().size(), 1u);
  EXPECT_EQ(DeviceKinds()[0]->runs, (std::vector<std::string>{"hand", "cpu"}));
  const auto kernels = KernelsOf("testing.axpy");
  EXPECT_EQ(kernels[0], "hand_axpy");
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "hand_axpy"), 1);
}

// Two kernels of testing.axpy for the hand of another library.
struct TwoKernels {
  TwoKernels(const char* one, const char* other) {
    hand.kernel.name = one;
    second = hand.kernel;
    second.name = other;
    hand.info.device = nullptr;
    hand.info.n_kernels = 2;
    hand.info.kernels = entries;
  }
  HandMade hand;
  anyop_kernel second{};
  anyop_device_kernel entry = {sizeof entry, 0, "testing.axpy", &second, nullptr};
  const anyop_device_kernel* entries[2] = {&hand.entry, &entry};
};

std::vector<std::string> FirstKernelsOf(const char* op, std::size_t n) {
  std::vector<std::string> names = KernelsOf(op);
  names.resize(n);
  return names;
}

TEST(DeviceLibrary, WithKernelsThatWasBuiltAgainTakesThePlaceOfTheOldOne) {
  Right().Load();
  static const TwoKernels old("hand_a", "hand_b"), made("hand_b", "hand_c"),
      last("hand_d", "hand_e");
  static const TwoKernels other("hand_x", "hand_y");
  using Names = std::vector<std::string>;
  old.hand.Load("kernels.so", 1);
  other.hand.Load("others.so", 2);
  const Operator& held = *Find("testing.axpy");
  EXPECT_EQ(FirstKernelsOf("testing.axpy", 5),
            (Names{"hand_axpy", "hand_a", "hand_b", "hand_x", "hand_y"}));
  made.hand.Load("kernels.so", 3);
  EXPECT_EQ(FirstKernelsOf("testing.axpy", 5),
            (Names{"hand_axpy", "hand_b", "hand_c", "hand_x", "hand_y"}));
  EXPECT_EQ(&Latest(held), Find("testing.axpy"));
  made.hand.Load("kernels.so", 3);  // again, which changes nothing
  EXPECT_EQ(&Latest(held), Find("testing.axpy"));
  last.hand.Load("kernels.so", 4);
  EXPECT_EQ(FirstKernelsOf("testing.axpy", 5),
            (Names{"hand_axpy", "hand_d", "hand_e", "hand_x", "hand_y"}));
  {
    Scope scope;
    scope.policy("testing.axpy=hand_d");
    old.hand.Load("kernels.so", 1);  // the first build was put back
    const Array x = Array::Full({2}, DType::kF32, 1);
    EXPECT_EQ(
        ErrorOf([&] { Array z = Call("testing.axpy", 1.0, x, x); }),
        "testing.axpy: the policy pins its kernel hand_d, which it has no more: a library was "
        "built again without it. Try another policy.");
  }
  EXPECT_EQ(FirstKernelsOf("testing.axpy", 3), (Names{"hand_axpy", "hand_a", "hand_b"}));
}

TEST(DeviceLibrary, WithAKernelOfAKnownNameIsRefused) {
  Right().Load();
  static const TwoKernels first("hand_one", "hand_two"), second("hand_three", "hand_two"),
      twice("hand_four", "hand_four"), own("hand_five", "cpu_f64");
  first.hand.Load("first.so", 11);
  const auto before = KernelsOf("testing.axpy");
  const std::string rest =
      " has one of that name, and calls choose kernels by name. Try another name, or a process of "
      "its own.";
  int code = 0;
  EXPECT_EQ(ErrorOf([] { second.hand.Load("second.so", 12); }, &code),
            "second.so: has a kernel hand_two for testing.axpy, but first.so" + rest);
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
  EXPECT_EQ(ErrorOf([] { twice.hand.Load("twice.so", 13); }),
            "twice.so: has a kernel hand_four for testing.axpy, but twice.so has one of that name, "
            "and calls choose kernels by name. Try another name.");
  EXPECT_EQ(
      ErrorOf([] { own.hand.Load("own.so", 14); }),
      "own.so: its kernel cpu_f64 is for device 'cpu', but loading a device changes no call on "
      "the CPU, where it would be taken first. Try 'hand_...' as the kernel's name.");
  EXPECT_EQ(KernelsOf("testing.axpy"), before);
}

TEST(DeviceLibrary, WithADeviceThatWasBuiltAgainIsRefused) {
  Right().Load("hand.so", 0);
  static const HandMade made;
  EXPECT_EQ(
      ErrorOf([] { made.Load("hand.so", 21); }),
      "hand.so: was built again, but its device 'hand' stays as it was loaded, because memory "
      "and streams of it may be in use. Try a new process. Kernels in a library of their own, "
      "whose `device` is NULL, can be replaced.");
}

TEST(DeviceLibrary, ThatCannotTellItsPropertiesSaysWhyForEachDevice) {
  Right().Load();
  const std::vector<DeviceInfo> all = Devices();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].model, "a hand");
  EXPECT_EQ(all[0].error, "");
  EXPECT_EQ(all[1].device.name(), "hand:1");
  EXPECT_EQ(all[1].library, "hand.so");
  EXPECT_EQ(all[1].model, "");
  EXPECT_EQ(all[1].cores, 0);
  EXPECT_EQ(all[1].error, "hand:1: the hand is gone.");
}

TEST(DeviceLibrary, ThatCannotCountItsDevicesHasNone) {
  Right().Load();
  n_hands = -1;
  EXPECT_TRUE(Devices().empty());
  EXPECT_EQ(ErrorOf([] { Device("hand"); }),
            "hand.so: count() of its device 'hand' gives -1, but must give how many there are. Try "
            "0 where there are none, and let error_text() say why.");
  n_hands = 2;
}

}  // namespace
}  // namespace anyop::device_library_test
