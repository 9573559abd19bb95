// SPDX-License-Identifier: Apache-2.0
#include "graph/saved/load.h"
#include "graph/builder/parse_graph.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "graph/ir/text.h"
#include "graph/saved/files.h"
#include "graph/saved/manifest.h"
#include "graph/saved/safetensors.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "platform/hash_bytes.h"
#include "platform/pages.h"
#include "runtime/registry/operator.h"
#include "runtime/registry/registry.h"

namespace anyop {
namespace {

// Zeros in fresh pages: the system makes a page when it is touched, so that an empty cache takes
// neither time nor memory.
Array Zeros(const SavedZeros& zeros, const std::string& what) {
  bool fits = zeros.shape.size() <= std::size_t(Array::kMaxRank);
  for (const std::int64_t n : zeros.shape) {
    fits = fits && n >= 0;
  }
  const std::int64_t bytes = fits ? TensorBytes(Bytes(zeros.dtype), zeros.shape) : 0;
  fits = fits && bytes != kTooManyBytes;
  if (!fits) Fail(ANYOP_INVALID_ARGUMENT, what + " has a shape that no tensor has.");
  const std::uint64_t page_bytes = PageBytes(std::uint64_t(std::max<std::int64_t>(bytes, 1)));
  void* memory = bytes > kMostBytes ? nullptr : MapPages(page_bytes);
  if (!memory) {
    Fail(ANYOP_OUT_OF_MEMORY, what + ": no memory for " + std::to_string(bytes) + " bytes.");
  }
  std::shared_ptr<void> owner(memory, [page_bytes](void* p) { UnmapPages(p, page_bytes); });
  return Array::Wrap(memory, zeros.shape, zeros.dtype, {}, std::move(owner));
}

// Makes the graphs of a manifest.
class GraphReader {
 public:
  GraphReader(const std::string& what, const Manifest& manifest, SavedMemory memory)
      : path_(what), manifest_(manifest), memory_(std::move(memory)) {}

  void CheckOperators() const {
    for (const SavedOperator& saved : manifest_.operators) {
      LoadBuiltIn();
      const Operator* op = FindRegistered(saved.name);
      if (!op) {
        const std::string library = saved.name.substr(0, saved.name.find('.'));
        Fail(ANYOP_NOT_AVAILABLE,
             path_ + " calls " + saved.name + ", which is not loaded. " +
                 (HasLibrary(library) ? "The library " + library + " here is another version."
                                      : "Load the library " + library + " first."));
      }
      if (op->contract->hash == saved.hash) continue;
      Fail(ANYOP_INVALID_ARGUMENT, path_ + " calls " + saved.name +
                                       ", whose signature has changed since it was saved.\n"
                                       "  saved:  " +
                                       saved.signature + "\n  loaded: " + op->contract->text +
                                       "\nSave the graph again.");
    }
  }

  // place: of the text, in messages.
  Graph Read(const SavedGraph& saved, const std::string& text, const std::string& place) const {
    try {
      return ParseGraph(text, [&](const std::string& name) { return Data(saved, name); });
    } catch (const Error& e) {
      Fail(e.code, place + ": " + e.what());
    }
  }

 private:
  Array Data(const SavedGraph& graph, const std::string& name) const {
    const auto found = graph.values.find(name);
    if (found == graph.values.end()) {
      Fail(ANYOP_INVALID_ARGUMENT, name + " is missing in " + kManifestFile + ".");
    }
    const SavedValue& value = found->second;
    const Array memory = memory_(name, value.tensor);
    return value.is_view ? ViewIn(memory, value, name) : memory;
  }

  const std::string& path_;
  const Manifest& manifest_;
  const SavedMemory memory_;
};

class Loader {
 public:
  Loader(const std::string& path, const LoadOptions& options)
      : path_(path), verify_(options.verify) {
    struct stat facts {};
    const std::string file = path + "/" + kManifestFile;
    if (stat(file.c_str(), &facts)) {
      Fail(ANYOP_NOT_AVAILABLE,
           path + " is no saved graph: there is no " + file + ". Try the path it was saved to.");
    }
    manifest_ = ReadManifest(ReadText(file), file, verify_);
  }

  LoadedGraphs Load(const std::vector<SavedGraph>& graphs) {
    std::map<std::string, Array> used;  // by a graph
    const auto memory = [&](const std::string& name, const std::string& tensor) {
      return used[tensor] = Tensor(name, tensor);
    };
    const GraphReader reader(path_, manifest_, memory);
    reader.CheckOperators();
    weights_.emplace(path_ + "/" + kWeightsFile);
    if (verify_) CheckFiles();
    LoadedGraphs loaded;
    for (const SavedGraph& g : graphs) {
      used.clear();
      loaded.graphs.push_back({g.name, Read(reader, g), g.returns_tuple, {}});
      for (const auto& [tensor, array] : used) loaded.graphs.back().memory.push_back(array);
    }
    // Last, when all graphs have said which tensors they write.
    weights_->MakeWritable(writable_);
    loaded.metadata = manifest_.metadata;
    return loaded;
  }

  const std::vector<SavedGraph>& graphs() const { return manifest_.graphs; }

 private:
  void CheckFiles() const {
    for (const auto& [name, digest] : manifest_.files) {
      if (!IsSavedName(name)) {
        Fail(ANYOP_INVALID_ARGUMENT, path_ + ": a file cannot be called '" + name + "'.");
      }
      if (name == kWeightsFile) continue;
      const MappedFile file(path_ + "/" + name);
      CheckDigest(path_ + "/" + name, HashBytes(file.data(), file.bytes()), manifest_.files, name);
    }
    const std::string weights = path_ + "/" + kWeightsFile;
    CheckDigest("the header of " + weights, weights_->HashOfHeader(), manifest_.files,
                kWeightsFile);
  }
  static void CheckDigest(const std::string& what, std::uint64_t hash,
                          const std::map<std::string, std::string>& digests,
                          const std::string& name) {
    const auto saved = digests.find(name);
    if (saved != digests.end() && saved->second == DigestOf(hash)) return;
    const bool is_known = saved != digests.end();
    Fail(ANYOP_INVALID_ARGUMENT,
         what + " has changed since it was saved: its digest is " + DigestOf(hash) + ", but " +
             (is_known ? "was " + saved->second : "none was saved") +
             ". Copy or save the graph again, or load it without verifying.");
  }

  Graph Read(const GraphReader& reader, const SavedGraph& saved) {
    const std::string file = path_ + "/" + TextFile(saved.name);
    std::string text = ReadText(file);
    if (!text.ends_with(std::string("\n") + kTextEnd)) {
      Fail(ANYOP_INVALID_ARGUMENT,
           file +
               " does not end with a line 'end': the rest of it is missing. Copy or save the "
               "graph again.");
    }
    text.resize(text.size() - std::strlen(kTextEnd));
    Graph graph = reader.Read(saved, text, file);
    for (const GraphValue& v : graph.values) {
      if (v.kind != GraphValue::kState || v.is_frozen) continue;
      const std::string& tensor = saved.values.at(v.name).tensor;
      if (weights_->Has(tensor)) writable_.push_back(tensor);
    }
    return graph;
  }

  Array Tensor(const std::string& name, const std::string& tensor) {
    if (const auto known = zeros_.find(tensor); known != zeros_.end()) return known->second;
    if (const auto z = manifest_.zeros.find(tensor); z != manifest_.zeros.end()) {
      return zeros_[tensor] = Zeros(z->second, tensor);
    }
    if (!weights_->Has(tensor)) {
      Fail(ANYOP_INVALID_ARGUMENT, name + " is the tensor " + tensor + ", which " + kWeightsFile +
                                       " lacks." + DidYouMean(tensor, weights_->names()));
    }
    if (verify_ && verified_.insert(tensor).second) {
      CheckDigest("the tensor " + tensor + " of " + path_ + "/" + kWeightsFile,
                  weights_->HashOf(tensor), manifest_.tensors, tensor);
    }
    return weights_->Get(tensor);
  }

  const std::string& path_;
  const bool verify_;
  Manifest manifest_;
  std::optional<TensorFile> weights_;
  std::map<std::string, Array> zeros_;
  std::vector<std::string> writable_;
  std::set<std::string> verified_;  // tensors
};

}  // namespace

Array ViewIn(const Array& memory, const SavedValue& v, const std::string& name) {
  const std::int64_t size = Bytes(v.dtype), all = memory.bytes();
  bool fits = v.shape.size() <= std::size_t(Array::kMaxRank) &&
              v.strides.size() == v.shape.size() && v.offset >= 0 && v.offset % size == 0;
  std::int64_t low = v.offset, high = 0;  // both ends: strides may be negative
  fits = fits && !__builtin_add_overflow(v.offset, size, &high);
  for (std::size_t d = 0; fits && d < v.shape.size(); ++d) {
    std::int64_t reach = 0;
    fits = v.shape[d] > 0 && !__builtin_mul_overflow(v.shape[d] - 1, v.strides[d], &reach) &&
           !__builtin_mul_overflow(reach, size, &reach) &&
           !__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
  }
  if (!fits || low < 0 || high > all) {
    Fail(ANYOP_INVALID_ARGUMENT,
         name + " lies outside of its memory of " + std::to_string(all) + " bytes.");
  }
  // The view keeps the memory alive that it is part of.
  auto owner = std::make_shared<Array>(memory);
  return Array::Wrap(memory.data<char>() + v.offset, v.shape, v.dtype, v.strides, std::move(owner));
}

Graph AttachGraph(const std::string& what, const std::string& manifest, const std::string& text,
                  const SavedMemory& memory) {
  const Manifest read = ReadManifest(manifest, what, true);
  const GraphReader reader(what, read, memory);
  reader.CheckOperators();
  return reader.Read(read.graphs.at(0), text, what);
}

LoadedGraphs ReadGraphs(const std::string& path, const LoadOptions& options) {
  Loader loader(path, options);
  return loader.Load(loader.graphs());
}

LoadedGraphs ReadGraph(const std::string& path, const std::string& name,
                       const LoadOptions& options) {
  Loader loader(path, options);
  const std::vector<SavedGraph>& all = loader.graphs();
  if (name.empty() && all.size() == 1) return loader.Load(all);
  std::string names;
  for (const SavedGraph& g : all) {
    if (g.name == name) return loader.Load({g});
    names += (names.empty() ? "" : ", ") + g.name;
  }
  Fail(ANYOP_NOT_AVAILABLE,
       path + ": there is " + (name.empty() ? "more than one graph" : "no graph '" + name + "'") +
           ", but " + (names.empty() ? "none" : names) + ". Try one of these.");
}

}  // namespace anyop
