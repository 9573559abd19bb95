// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/library.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "runtime/registry/registry.h"
#include "runtime/testing/testing.h"

namespace anyop::library_test {
namespace {

int DoNothing(const anyop_context*, const anyop_value*) { return ANYOP_OK; }

anyop_kernel KernelWith(const char* params) {
  anyop_kernel k{};
  k.size = sizeof k;
  k.name = "cpu_f32";
  k.run = &DoNothing;
  k.params = params;
  return k;
}

// A library of one operator, made by hand as an older or foreign compiler would.
struct HandMade {
  explicit HandMade(const char* signature, const char* params = "tt") : kernel(KernelWith(params)) {
    op.size = sizeof op;
    op.signature = signature;
    op.n_kernels = 1;
    op.kernels = kernels;
    info.size = sizeof info;
    info.abi_version = ANYOP_ABI_VERSION;
    info.name = "handmade";
    info.version = "1";
    info.n_ops = 1;
    info.ops = ops;
  }
  anyop_kernel kernel;
  const anyop_kernel* kernels[1] = {&kernel};
  anyop_op op{};
  const anyop_op* ops[1] = {&op};
  anyop_library_info info{};
};

std::string RegisterError(const HandMade& library, const char* file, int* code = nullptr) {
  return ErrorOf([&] { Register(ReadLibrary(library.info, file)); }, code);
}

// Hands the operator's kernels over as the build does for ANYOP_KERNEL, with one left out.
TEST(Library, HasTheKernelsThatTheBuildLists) {
  HandMade library("built(x: f32[n]) -> (y: f32[n])");
  const anyop_kernel* kernels[] = {nullptr, &library.kernel};
  const anyop_kernel_list list{2, kernels};
  const char* names = "built_avx512,built_portable";
  library.op.n_kernels = 0;
  library.op.kernels = nullptr;
  library.info.kernels = &list;
  library.info.kernel_lists = &names;
  const NewLibrary read = ReadLibrary(library.info, "a.so");
  const auto& found = read.operators.at(0)->kernels;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "cpu_avx512");
  EXPECT_EQ(found[0].data.run, nullptr);
  EXPECT_EQ(found[1].name, "cpu_f32");
  const anyop_kernel_list lost{2, nullptr};
  library.info.kernels = &lost;
  EXPECT_EQ(
      RegisterError(library, "a.so"),
      "a.so: the list of kernels of handmade.built is missing. Build it again with this version "
      "of anyop.");
}

// A table that ends before `kernels`, as older builds made it, has none there.
TEST(Library, ReadsTheTablesOfOlderBuilds) {
  HandMade library("older(x: f32[n]) -> (y: f32[n])");
  library.op.n_kernels = 0;
  const anyop_kernel_list never{1, nullptr};
  library.info.kernels = &never;
  library.info.size = offsetof(anyop_library_info, kernels);
  EXPECT_TRUE(ReadLibrary(library.info, "a.so").operators.at(0)->kernels.empty());
}

TEST(Library, LoadingAgainDoesNothing) {
  const std::size_t before = Operators().size();
  Load(TestingLibrary::Path());
  EXPECT_EQ(Operators().size(), before);
}

TEST(Library, AMissingFileIsNotAvailable) {
  int code = 0;
  EXPECT_EQ(ErrorOf([] { Load("/nowhere/ops.so"); }, &code),
            "/nowhere/ops.so: there is no such file, or it cannot be read.");
  EXPECT_EQ(code, ANYOP_NOT_AVAILABLE);
}

TEST(Library, AFileOfAnotherKindIsNotAvailable) {
  const std::string path = LibraryFolder() + "../tests/no_library.so";
  std::ofstream(path) << "plain text";
  int code = 0;
  EXPECT_NE(ErrorOf([&] { Load(path); }, &code).find("cannot be loaded"), std::string::npos);
  EXPECT_EQ(code, ANYOP_NOT_AVAILABLE);
#ifdef __x86_64__
  const std::string other = "/lib/x86_64-linux-gnu/libm.so.6";
#else
  const std::string other = "/lib/aarch64-linux-gnu/libm.so.6";
#endif
  if (std::ifstream(other)) {
    EXPECT_EQ(ErrorOf([&] { Load(other); }, &code),
              other +
                  ": is no operator library, because it does not export "
                  "anyop_library (nor anyop_device_library).");
  }
}

// Reading one of them may never end.
TEST(Library, WhatIsNoRegularFileIsNotRead) {
  const std::string pipe = LibraryFolder() + "../tests/pipe." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf([&] { Load(pipe); }),
            pipe + ": it is no regular file, but must be a library of operators.");
  EXPECT_EQ(ErrorOf([&] { LoadReferences(pipe); }),
            pipe + ": it is no regular file, but must be a library of operators.");
  unlink(pipe.c_str());
  EXPECT_EQ(ErrorOf([] { Load("/dev/zero"); }),
            "/dev/zero: it is no regular file, but must be a library of operators.");
  EXPECT_EQ(ErrorOf([] { Load("/"); }), "/: it is a folder, but must be a library of operators.");
}

TEST(Library, ANewerBoundaryIsRefusedWithBothVersions) {
  HandMade library("newer(x: f32[n]) -> (y: f32[n])");
  library.info.abi_version = 7;
  int code = 0;
  EXPECT_EQ(ErrorOf([&] { CheckInfo(&library.info, "new.so"); }, &code),
            "new.so: was built for boundary version 7, but this anyop has version 1. Try a newer "
            "anyop, or build the library with this one's headers.");
  EXPECT_EQ(code, ANYOP_NOT_AVAILABLE);
}

TEST(Library, AnOlderOneLoadsWithoutTheFieldsThatItLacks) {
  HandMade library("older(x: f32[n]) -> (y: f32[n])");
  library.op.size = offsetof(anyop_op, check);
  library.op.check = &DoNothing;  // beyond its size: not read
  library.kernel.size = offsetof(anyop_kernel, accepts);
  library.kernel.probe = reinterpret_cast<const char*>(1);
  library.kernel.data = &library;
  EXPECT_EQ(RegisterError(library, "old.so"), "");
  const Operator& op = *Find("handmade.older");
  EXPECT_EQ(op.data->check, nullptr);
  EXPECT_STREQ(op.kernels[0].data.probe, "");
  EXPECT_EQ(op.kernels[0].data.data, nullptr);
  library.op.size = 8;
  EXPECT_EQ(RegisterError(library, "old.so"),
            "old.so: an operator's table is too short. Build it again with this version of anyop.");
}

TEST(Library, ASizeThatEndsWithinAPointerEndsBeforeIt) {
  HandMade library("cut(x: f32[n]) -> (y: f32[n])");
  library.kernel.size = offsetof(anyop_kernel, data) + 4;
  library.kernel.data = &library;
  EXPECT_EQ(RegisterError(library, "cut.so"), "");
  EXPECT_EQ(Find("handmade.cut")->kernels[0].data.data, nullptr);
}

TEST(Library, TablesWithHolesAreRefused) {
  const std::string again = ". Build it again with this version of anyop.";
  const auto error = [](auto&& change) {
    HandMade library("holes(x: f32[n]) -> (y: f32[n])");
    change(library);
    int code = 0;
    const std::string text = RegisterError(library, "a.so", &code);
    EXPECT_EQ(code, ANYOP_NOT_AVAILABLE) << text;
    return text;
  };
  EXPECT_EQ(error([](HandMade& l) { l.info.ops = nullptr; }),
            "a.so: the table of its operators is missing" + again);
  EXPECT_EQ(error([](HandMade& l) { l.ops[0] = nullptr; }),
            "a.so: the table of operator 0 is missing" + again);
  EXPECT_EQ(error([](HandMade& l) { l.op.kernels = nullptr; }),
            "a.so: the list of kernels of handmade.holes is missing" + again);
  EXPECT_EQ(error([](HandMade& l) { l.kernel.run = nullptr; }),
            "a.so: kernel cpu_f32 of handmade.holes has no function" + again);
  static const anyop_reference whole{sizeof whole, 0, "holes", &DoNothing, "tt"};
  static anyop_reference without_run = whole;
  without_run.run = nullptr;
  for (const anyop_reference* r : {static_cast<const anyop_reference*>(nullptr),
                                   static_cast<const anyop_reference*>(&without_run)}) {
    EXPECT_EQ(error([&](HandMade& l) {
                l.info.n_references = 1;
                l.info.references = &r;
              }),
              "a.so: the table of reference 0 is not whole" + again);
  }
  EXPECT_EQ(FindRegistered("handmade.holes"), nullptr);
}

TEST(Library, AFileThatIsCutOffIsNotAvailable) {
  std::ifstream file(TestingLibrary::Path(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const std::string path = LibraryFolder() + "../tests/cut_off.so";
  for (const double part : {0.0005, 0.001, 0.01, 0.1, 0.5, 0.9, 0.9999}) {
    const std::string bytes = whole.substr(0, std::size_t(double(whole.size()) * part));
    std::ofstream(path, std::ios::binary) << bytes;
    int code = 0;
    const std::string text = ErrorOf([&] { Load(path); }, &code);
    EXPECT_EQ(text.find(path + ": has " + std::to_string(bytes.size()) +
                        " bytes, but its header tells of "),
              0u)
        << text;
    EXPECT_EQ(code, ANYOP_NOT_AVAILABLE);
  }
}

TEST(Library, WhatThePolicyContradictsIsNotRegistered) {
  SetProcessPolicy("handmade_policy.held=cpu_other");
  static HandMade held("held(x: f32[n]) -> (y: f32[n])");
  held.info.name = "handmade_policy";
  EXPECT_EQ(ErrorOf([] { Define(held.info, "policy"); }),
            "policy 'handmade_policy.held=cpu_other': handmade_policy.held has no kernel "
            "'cpu_other', only cpu_f32.");
  EXPECT_EQ(FindRegistered("handmade_policy.held"), nullptr);
  EXPECT_FALSE(HasLibrary("handmade_policy"));
  SetProcessPolicy("");
  Define(held.info, "policy");
  EXPECT_NE(FindRegistered("handmade_policy.held"), nullptr);
}

TEST(Library, AKernelGetsItsOwnData) {
  static const float factors[] = {2, 3};
  const anyop_run multiply = [](const anyop_context* c, const anyop_value* frame) -> int {
    const float factor = *static_cast<const float*>(c->data);
    static_cast<float*>(frame[1].t->data)[0] = static_cast<float*>(frame[0].t->data)[0] * factor;
    return ANYOP_OK;
  };
  HandMade twice("times_two(x: f32[1]) -> (y: f32[1])"),
      thrice("times_three(x: f32[1]) -> (y: f32[1])");
  twice.kernel.data = &factors[0];
  thrice.kernel.data = &factors[1];
  for (HandMade* library : {&twice, &thrice}) {
    library->kernel.run = multiply;
    EXPECT_EQ(RegisterError(*library, "data.so"), "");
  }
  EXPECT_EQ(Values(Call("handmade.times_two", Floats({1}, {5}))), std::vector<float>{10});
  EXPECT_EQ(Values(Call("handmade.times_three", Floats({1}, {5}))), std::vector<float>{15});
}

TEST(Library, OperatorsInMemoryAreRegisteredOneByOne) {
  static HandMade first("one(x: f32[n]) -> (y: f32[n])"), second("one(x: f32[n]) -> (y: f32[n])");
  second.info.name = "handmade_too";
  Define(first.info, "memory");
  Define(second.info, "memory");
  EXPECT_EQ(Find("handmade_too.one")->file, "memory");
  int listed = 0;
  for (const LoadedLibrary& l : Libraries()) listed += l.file == "memory";
  EXPECT_EQ(listed, 2);
}

TEST(Library, AnotherContractOfTheSameNameNamesBothFiles) {
  const HandMade first("twice(x: f32[n]) -> (y: f32[n])");
  const HandMade second("twice(x: f64[n]) -> (y: f64[n])");
  EXPECT_EQ(RegisterError(first, "a.so"), "");
  EXPECT_EQ(RegisterError(first, "copy.so"), "");
  int code = 0;
  EXPECT_EQ(RegisterError(second, "b.so", &code),
            "handmade.twice of b.so is\n  twice(x: f64[n]) -> (y: f64[n])\nbut a.so has already "
            "registered\n  twice(x: f32[n]) -> (y: f32[n])");
  EXPECT_EQ(code, ANYOP_INVALID_ARGUMENT);
}

TEST(Library, AKernelMustFitTheSignature) {
  const HandMade library("misfit(x: f32[n], n_rows: int) -> (y: f32[n])", "tt");
  EXPECT_EQ(
      RegisterError(library, "a.so"),
      "handmade.misfit in a.so: kernel cpu_f32 takes \"tt\", but the signature needs \"tit\":\n"
      "  misfit(x: f32[n], n_rows: int) -> (y: f32[n])");
}

TEST(Library, AChecksParametersMustFitTheSignature) {
  HandMade library("unchecked(x: f32[n]) -> (y: f32[n])");
  const std::string rest =
      " takes \"tt\", but the signature needs \"t\":\n  unchecked(x: f32[n]) -> (y: f32[n])";
  library.op.check_params = "tt";
  EXPECT_EQ(RegisterError(library, "a.so"), "handmade.unchecked in a.so: the check" + rest);
  library.op.check_params = "t";
  library.op.check_data_params = "tt";
  EXPECT_EQ(RegisterError(library, "a.so"), "handmade.unchecked in a.so: the check of data" + rest);
  library.op.check_params = library.op.check_data_params = "S";  // of an optional one
  EXPECT_NE(RegisterError(library, "a.so").find("takes \"S\", but the signature needs \"t\""),
            std::string::npos);
}

TEST(Library, ABadSignatureNamesTheFile) {
  const HandMade bad("bad(x: f32[n) -> (y: f32[n])");
  EXPECT_EQ(RegisterError(bad, "a.so").substr(0, 6), "a.so: ");
}

TEST(Library, ABadExpressionNamesFileKernelAndField) {
  const auto first_line = [](const HandMade& library) {
    const std::string text = RegisterError(library, "a.so");
    return text.substr(0, text.find(','));
  };
  HandMade when("when(x: f32[n]) -> (y: f32[n])");
  when.kernel.when = "m % 2 == 0 and";
  when.kernel.name = "cpu_f32";
  EXPECT_EQ(first_line(when), "a.so: .when of kernel cpu_f32: an expression of when");
  HandMade workspace("workspace(x: f32[n]) -> (y: f32[n])");
  workspace.kernel.workspace = "4 * m";
  workspace.kernel.name = "cpu_f32";
  EXPECT_EQ(first_line(workspace),
            "a.so: .workspace of kernel cpu_f32: an expression of workspace");
  HandMade flops("flops(x: f32[n]) -> (y: f32[n])");
  flops.op.flops = "2 *";
  EXPECT_EQ(first_line(flops), "a.so: .flops: an expression of flops");
  HandMade means("means(x: f32[n]) -> (y: f32[n])");
  means.op.means = "y = scale(x";
  EXPECT_EQ(first_line(means), "a.so: .means: a composition of means");
  HandMade prepack("prepack(x: f32[n]) -> (y: f32[n])");
  prepack.op.prepack = "y = scale(x";
  EXPECT_EQ(first_line(prepack), "a.so: .prepack: a composition of prepack");
  prepack.op.prepack = "y = scale(x) if m == 1";
  EXPECT_EQ(first_line(prepack), "a.so: .prepack: an expression of prepack");
  prepack.op.prepack = "y = scale(x) if ; y = scale(x)";
  EXPECT_EQ(first_line(prepack), "a.so: .prepack: a composition of prepack");
  means.op.means = "y = scale(x) if n == 1";  // a graph could not find it
  EXPECT_EQ(first_line(means), "a.so: .means: a composition of means");
}

TEST(Info, ShowsContractAndKernels) {
  const Operator& op = *Find("testing.axpy");
  const std::string text = InfoText(op);
  EXPECT_NE(text.find("cpu_wide_f32, when T == f32, d % 16 == 0\n"), text.npos) << text;
  EXPECT_NE(text.find("not built for this machine"), text.npos);
  EXPECT_EQ(InfoJson(op).substr(0, 45), "{\"name\": \"testing.axpy\", \"library\": \"testing\"");
}

TEST(GenerateHeader, HasATypedFunctionPerOperator) {
  const std::string header = GenerateHeader();
  EXPECT_NE(header.find("inline Array axpy(double a, const Array& x, const Array& y) {\n"),
            header.npos);
  EXPECT_NE(header.find("inline Array pick(const Array& x, std::string_view which = \"first\") {"),
            header.npos);
  EXPECT_NE(header.find("inline void scatter("), header.npos);
  const std::string path = LibraryFolder() + "../tests/generated_ops.h";
  std::ofstream(path) << header;
  const std::string command = "c++ -std=c++20 -fsyntax-only -I" + std::string(ANYOP_SOURCE_DIR) +
                              "/include -include " + path + " -x c++ /dev/null";
  if (std::system("c++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no compiler";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(GenerateHeader, WritesNumbersInListsExactly) {
  static HandMade weighed("weighed(x: f32[n], by: float[] = [1e-9, 2]) -> (y: f32[n])", "tgt");
  weighed.info.name = "handmade_header";
  Define(weighed.info, "header");
  EXPECT_NE(GenerateHeader().find("std::vector<double>{1e-09,2.0,}"), std::string::npos);
}

}  // namespace
}  // namespace anyop::library_test
