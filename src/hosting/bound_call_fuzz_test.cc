// SPDX-License-Identifier: Apache-2.0
// Texts that are nearly those of bound calls.
#include "hosting/bound_call.h"
#include "hosting/call_text.h"
#include "platform/testing/fuzz.h"
#include "runtime/testing/testing.h"

namespace anyop::bound_call_fuzz_test {
namespace {

const std::vector<std::string>& Texts() {
  static const std::vector<std::string> texts = {
      "anyop.call/1 testing.scale(x = f32, s = 0.5) -> y in strict, threads = 2",
      "anyop.call/1 testing.axpy(a = -0.1, x = f64, y = f64) -> z in batch_invariant",
      "anyop.call/1 testing.concat(parts = [f32, f32]) -> y",
      "anyop.call/1 testing.extremes(x = f32) -> _, high",
      "anyop.call/1 testing.pick(x = f32, which = 'last') -> y",
      "anyop.call/1 testing.affine(x = f32, s = 1e-05, b = None) -> y",
      R"(anyop.call/1 testing.scale(x = f32, s = 0.5) -> y in policy = "-testing.scale")",
      R"(anyop.call/1 graph("input x: f32[n, 4]\nv1: f32[n, 4] = testing.scale(x, 2.0)\n)"
      R"(output v1 as y\n"))",
      R"(anyop.call/1 graph("input x: f32[n]\ninput s: float\nv2: f32[n] = )"
      R"(testing.scale(x, s)\noutput v2\n", s = 0.5) in threads = 3)",
      R"(anyop.call/1 saved("/no/such/folder", "step", "0f1e2d3c4b5a6978", s = 0.5))"};
  return texts;
}

bool SaysWho(const std::string& error) {
  return error.starts_with("there is no operator '") || error.starts_with("a tensor would be ") ||
         error.find(" is no saved graph: ") != error.npos || error.find(": ") != error.npos;
}

// Inference and gradients, with sizes that are odd, of a text that is accepted.
void Use(const BoundCall& call, fuzz::Random& random) {
  EXPECT_EQ(&FindBoundCall(call.text()), &call);
  std::vector<DLTensor> inputs(call.inputs().size());
  std::vector<std::int64_t> sizes(inputs.size() * 8 + 1);
  for (auto& n : sizes) n = fuzz::OddInteger(random);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = {};
    inputs[i].ndim = int(fuzz::Below(random, 5)) - 1;
    inputs[i].shape = &sizes[8 * i];
  }
  std::vector<ResultShape> shapes(call.results().size());
  fuzz::IsAnswered([&] { call.Infer(inputs, shapes); }, SaysWho);
  std::vector<std::uint8_t> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) wanted.push_back(std::uint8_t(random() & 1));
  fuzz::IsAnswered([&] { call.Gradient(wanted); }, SaysWho);
}

TEST(BoundCallFuzz, ATextIsReadOrRefused) {
  std::vector<std::string> others = fuzz::OddNumbers();
  for (const std::string& text : Texts()) {
    for (std::string& token : fuzz::Tokens(text)) others.push_back(std::move(token));
  }
  for (const char* more : {"graph", "\\x00", "\\n", "\"", "_", "None", "True", "inf", "[", "]"}) {
    others.emplace_back(more);
  }
  fuzz::Tries tries(1);
  int read = 0;
  while (tries.Next()) {
    const std::string text =
        fuzz::Mutated(fuzz::OneOf(tries.random, Texts()), tries.random, others);
    std::string canonical;
    const bool is_read = fuzz::IsAnswered(
        [&] {
          const CallText found = ReadCallText(text);
          canonical = found.op ? TextOfCall(*found.op->op, found.op->call.frame(), found.op->wanted,
                                            found.scope)
                               : ShowCallText(*found.graph, found.scope);
        },
        SaysWho);
    if (!is_read) continue;
    ++read;
    const CallText again = ReadCallText(canonical);
    EXPECT_EQ(again.op
                  ? TextOfCall(*again.op->op, again.op->call.frame(), again.op->wanted, again.scope)
                  : ShowCallText(*again.graph, again.scope),
              canonical);
    if (read > 2000) continue;  // they are kept for the life of the process
    fuzz::IsAnswered([&] { Use(FindBoundCall(text), tries.random); }, SaysWho);
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace anyop::bound_call_fuzz_test
