// SPDX-License-Identifier: Apache-2.0
// A saved language model as a loop over tokens. Everything that is particular to a model is data in
// the metadata of its folder:
//
//   {"decoder": {"prefill": "step", "decode": "step",     // graphs; may be one
//                "inputs": {"ids": "tokens", "where": "positions", "ends": "starts",
//                           "length": "lengths"},         // what each input is given
//                "token": "out",                          // the output that is the next token
//                "chunk": 512, "max_tokens": 2048, "end_ids": [2]}}
//
// Inputs are i32 or i64. For t new tokens after s others: tokens [t], positions [t] = s .. s+t-1,
// starts [2] = 0, t, and lengths [1] = s+t.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "anyop/graph.h"

namespace anyop {

class Decoder {
 public:
  // Throws Error, also where the folder holds something else.
  explicit Decoder(const std::string& path, const LoadOptions& options = {});

  // Appends tokens to the sequence; returns the next one, which is not appended.
  std::int64_t Append(std::span<const std::int64_t> tokens);
  bool IsEnd(std::int64_t token) const;
  std::int64_t max_tokens() const { return max_tokens_; }

 private:
  enum Role { kTokens, kPositions, kStarts, kLengths };
  struct Step {
    CompiledGraph graph;
    std::vector<Role> roles;  // by input
    std::size_t token = 0;    // by output
    std::vector<Array> inputs;
    std::vector<Argument> arguments;  // of `inputs`
    std::int64_t tokens = -1;         // that `inputs` are for
  };

  std::int64_t Run(Step* step, std::span<const std::int64_t> tokens);

  Step prefill_, decode_;
  std::int64_t chunk_ = 1, max_tokens_ = 0, length_ = 0;
  std::vector<std::int64_t> end_ids_;
};

}  // namespace anyop
