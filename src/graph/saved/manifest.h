// SPDX-License-Identifier: Apache-2.0
// What a folder of saved graphs holds: the file manifest.json.
//
//   {"digest": "0f1e2d3c4b5a6978",
//    "format": "anyop graphs", "version": 2, "anyop": "0.1.0",
//    "operators": {"anyop.add": {"hash": "4b…", "signature": "add(x: T[..."}},
//    "graphs": [{"name": "step", "returns": "tensor", "values": {"w": "w", "cache": "cache",
//                "left": {"memory": "memory", "offset": 64, "dtype": "f32", "shape": [2, 8],
//                         "strides": [16, 1]}}}],
//    "zeros": {"cache": {"dtype": "bf16", "shape": [128, 16]}},
//    "files": {"step.anyop": "13…", "tokenizer.json": "a0…", "weights.safetensors": "77…"},
//    "tensors": {"w": "5c…", "memory": "e9…"},
//    "metadata": {...}}
//
// The text of graph "step" is in step.anyop, tensors that are not zeros in weights.safetensors.
// Digests are HashBytes (platform/hash_bytes.h) in 16 hexadecimal digits: of a file's bytes, of a
// tensor's; weights.safetensors stands for what precedes its tensors. The first one is that of the
// manifest's own text behind the comma that follows it. Version 1 had none.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "anyop/dtype.h"

namespace anyop {

inline constexpr int kSavedVersion = 2;
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kWeightsFile = "weights.safetensors";
inline std::string TextFile(const std::string& graph) { return graph + ".anyop"; }
inline constexpr const char* kTextEnd = "end\n";  // behind the text: what is cut off lacks it

// Where a state or constant of a graph lies.
struct SavedValue {
  std::string tensor;
  bool is_view = false;  // of the bytes of `tensor`, as what follows says
  DType dtype = DType::kU8;
  std::int64_t offset = 0;  // in bytes
  std::vector<std::int64_t> shape, strides;
};

struct SavedGraph {
  std::string name;
  bool returns_tuple = false;  // where it has one output
  std::map<std::string, SavedValue> values;
};

struct SavedOperator {
  std::string name, hash, signature;
};

struct SavedZeros {
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
};

struct Manifest {
  std::string anyop;  // the version that saved it
  std::vector<SavedOperator> operators;
  std::vector<SavedGraph> graphs;
  std::map<std::string, SavedZeros> zeros;
  std::map<std::string, std::string> files, tensors;  // their digests
  std::string metadata = "{}";                        // a JSON value
};

// Letters, digits and _-. with no dot in front: it is a file's name too.
bool IsSavedName(const std::string& name);

std::string ShowManifest(const Manifest& manifest);
// path: in messages; verify: whether the digest of the text must be right. Throws InvalidArgument
// where the text is damaged, NotAvailable where it is of another version.
Manifest ReadManifest(const std::string& text, const std::string& path, bool verify);

}  // namespace anyop
