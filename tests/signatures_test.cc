// SPDX-License-Identifier: Apache-2.0
// Every signature of the operator library that the build made parses, has a schema, and gives
// random calls in every form. ANYOP_TEST_SIGNATURES may name a text file of more (an empty line
// between two operators).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime/registry.h"
#include "signature/expression.h"
#include "signature/generate.h"
#include "signature/symbolic.h"

namespace anyop {
namespace {

const anyop_library_info* Library() {
  void* file = dlopen((LibraryFolder() + "anyop_ops.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!file) ADD_FAILURE() << dlerror();
  const auto entry =
      file ? reinterpret_cast<anyop_library_fn>(dlsym(file, "anyop_library")) : nullptr;
  return entry ? entry() : nullptr;
}

std::vector<std::string> Signatures() {
  std::vector<std::string> all;
  if (const auto* library = Library()) {
    for (std::uint32_t i = 0; i < library->n_ops; ++i) all.push_back(library->ops[i]->signature);
  }
  if (const char* path = std::getenv("ANYOP_TEST_SIGNATURES")) {
    std::ifstream file(path);
    EXPECT_TRUE(file) << path;
    std::stringstream text;
    text << file.rdbuf();
    const std::string s = text.str();
    for (std::size_t at = 0, end; at < s.size(); at = end + 2) {
      end = std::min(s.find("\n\n", at), s.size());
      all.push_back(s.substr(at, end - at));
    }
  }
  return all;
}

TEST(Signatures, AllGiveRandomCallsInEveryForm) {
  const auto all = Signatures();
  if (all.empty()) GTEST_SKIP() << "no operator library was built";
  Random random(1);
  for (const std::string& text : all) {
    const auto c = ParseContract(text);
    for (int form = 0; form < int(c->forms.size()); ++form) {
      GenerateOptions options;
      options.form = form;
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(Generate(*c, random, options)) << c->name << ", form " << form;
      }
    }
  }
}

TEST(Signatures, TheirExpressionsCompile) {
  const auto* library = Library();
  if (!library) GTEST_SKIP() << "no operator library was built";
  for (std::uint32_t i = 0; i < library->n_ops; ++i) {
    const anyop_op& op = *library->ops[i];
    const auto c = ParseContract(op.signature, op.gradient);
    for (const char* text : {op.flops, op.bytes}) {
      if (!*text) continue;
      EXPECT_NO_THROW(CompileExpression(*c, text)) << text;
    }
    for (std::uint64_t k = 0; k < op.n_kernels; ++k) {
      if (!op.kernels[k]) continue;
      EXPECT_NO_THROW(CompileConditions(*c, op.kernels[k]->when)) << op.kernels[k]->when;
      if (*op.kernels[k]->workspace) {
        EXPECT_NO_THROW(CompileExpression(*c, op.kernels[k]->workspace, ThreadsName::kKnown))
            << op.kernels[k]->workspace;
      }
    }
  }
}

// One argument as JSON, as python/anyop/symbolic.py takes it; "shape:dtype" objects for tensors.
std::string ArgumentJson(const anyop_value& v) {
  const auto tensor = [](const DLTensor& t) {
    std::string out =
        "{\"dtype\": \"" + std::string(kDTypeNames[FromDL(t.dtype)]) + "\", \"shape\": [";
    for (int i = 0; i < t.ndim; ++i) out += (i ? ", " : "") + std::to_string(t.shape[i]);
    return out + "]}";
  };
  const auto list = [&](auto item) {
    std::string out = "[";
    for (std::uint32_t i = 0; i < v.count; ++i) out += (i ? ", " : "") + item(i);
    return out + "]";
  };
  switch (v.tag) {
    case ANYOP_BOOL:
      return v.i ? "true" : "false";
    case ANYOP_INT:
      return std::to_string(v.i);
    case ANYOP_FLOAT:
      return std::to_string(v.f);
    case ANYOP_WORD:
      return "\"" + std::string(v.s, v.count) + "\"";
    case ANYOP_DTYPE:
      return "\"" + std::string(kDTypeNames[v.i]) + "\"";
    case ANYOP_TENSOR:
      return tensor(*v.t);
    case ANYOP_TENSORS:
      return list([&](std::uint32_t i) { return tensor(*v.ts[i]); });
    case ANYOP_INTS:
      return list([&](std::uint32_t i) { return std::to_string(v.is[i]); });
    case ANYOP_FLOATS:
      return list([&](std::uint32_t i) { return std::to_string(v.fs[i]); });
    default:
      return "null";
  }
}

// A call, spoiled now and then, and what the checker says of it.
std::string CaseJson(const Contract& c, Random& random) {
  auto g = Generate(c, random);
  if (!g) return "";
  for (int i = 0; i < c.n_params() && random() % 2; ++i) {
    if (g->call[i].tag != ANYOP_TENSOR || g->call[i].t->ndim == 0) continue;
    auto& size = g->call[i].t->shape[random() % std::uint64_t(g->call[i].t->ndim)];
    size += std::int64_t(random() % 3);
    break;
  }
  std::string args, results;
  for (int i = 0; i < c.n_params(); ++i) args += (i ? ", " : "") + ArgumentJson(g->call[i]);
  ResultShape shapes[kMaxResults];
  Bindings b;
  std::string error;
  const int form = Check(c, g->call.frame(), &b, &error);
  const bool ok = form >= 0 && InferResults(c, form, b, g->call.frame(), shapes, &error);
  for (int i = 0; ok && i < c.n_results(); ++i) {
    anyop_value v{};
    DLTensor t{};
    t.dtype = ToDL(shapes[i].dtype), t.ndim = shapes[i].rank, t.shape = shapes[i].shape;
    v.tag = ANYOP_TENSOR, v.t = &t;
    results += (i ? ", " : "") + ArgumentJson(v);
  }
  return "{\"args\": [" + args + "], \"form\": " + std::to_string(ok ? form : -1) +
         ", \"results\": [" + results + "]}";
}

TEST(Signatures, PythonAgreesWithTheChecker) {
  const auto all = Signatures();
  if (all.empty()) GTEST_SKIP() << "no operator library was built";
  if (std::system("python3 -c pass")) GTEST_SKIP() << "no python3";
  const std::string path = testing::TempDir() + "/symbolic_cases.json";
  std::ofstream file(path);
  Random random(2);
  file << "[";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto c = ParseContract(all[i]);
    file << (i ? ",\n" : "") << "{\"contract\": " << ContractJson(*c) << ", \"cases\": [";
    for (int k = 0; k < 20; ++k) file << (k ? ",\n" : "") << CaseJson(*c, random);
    file << "]}";
  }
  file << "]\n";
  file.close();
  const std::string tool = ANYOP_SOURCE_DIR "/python/tests/symbolic_cases.py";
  EXPECT_EQ(std::system(("python3 " + tool + " " + path).c_str()), 0);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace anyop
