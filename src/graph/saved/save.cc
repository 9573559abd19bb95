// SPDX-License-Identifier: Apache-2.0
#include "graph/saved/save.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "graph/ir/alias.h"
#include "graph/ir/text.h"
#include "graph/saved/files.h"
#include "graph/saved/manifest.h"
#include "graph/saved/safetensors.h"
#include "platform/error.h"
#include "platform/hash_bytes.h"
#include "runtime/memory/overlap.h"
#include "runtime/registry/operator.h"
#include "runtime/run/call.h"

namespace anyop {
namespace {

// A state or constant of one of the graphs.
struct Use {
  int graph;
  const GraphValue* value;
  Extent extent;
  bool is_fixed;  // frozen or a constant: nobody changes it
  bool is_written;
};

bool IsZero(const Array& a) {
  const char* bytes = a.data<char>();
  const std::size_t n = std::size_t(a.bytes());
  // The memory is compared with itself, a byte further on.
  return n > 0 && bytes[0] == 0 && std::memcmp(bytes, bytes + 1, n - 1) == 0;
}

std::uint64_t Hash(const Array& a) { return HashBytes(a.data(), std::size_t(a.bytes())); }

// Sorts the memory of all graphs into tensors.
class Collector {
 public:
  // drops_zeros: of a cache that is still empty, its shape is all that is kept.
  explicit Collector(std::span<const GraphToSave> graphs, bool drops_zeros = true)
      : graphs_(graphs), drops_zeros_(drops_zeros) {
    for (const GraphToSave& g : graphs) {
      manifest_.graphs.push_back({g.name, g.returns_tuple, {}});
      AddOperators(*g.graph);
      AddUses(*g.graph);
    }
    std::stable_sort(uses_.begin(), uses_.end(),
                     [](const Use& a, const Use& b) { return a.extent.begin < b.extent.begin; });
    for (std::size_t begin = 0; begin < uses_.size();) {
      std::size_t end = begin + 1;
      Extent extent = uses_[begin].extent;
      for (; end < uses_.size() && IsTogether(extent, uses_[end].extent); ++end) {
        extent.end = std::max(extent.end, uses_[end].extent.end);
      }
      AddMemory({uses_.begin() + std::ptrdiff_t(begin), uses_.begin() + std::ptrdiff_t(end)},
                extent);
      begin = end;
    }
  }

  Manifest manifest_;
  std::vector<NamedArray> arrays_;

 private:
  // Empty extents meet nothing, but may be the same.
  static bool IsTogether(Extent a, Extent b) {
    return Meet(a, b) || (a.begin == b.begin && a.end == b.end);
  }

  void AddOperators(const Graph& graph) {
    for (const GraphNode& node : graph.nodes) {
      if (!operators_.insert(node.op).second) continue;
      const Contract& contract = *node.op->contract;
      manifest_.operators.push_back({node.op->name, contract.hash, contract.text});
    }
  }

  void AddUses(const Graph& graph) {
    const std::vector<bool> written = WrittenRoots(graph);
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const GraphValue& v = graph.values[i];
      if (v.array.is_none()) continue;
      const bool is_fixed = v.kind == GraphValue::kConstant || v.is_frozen;
      uses_.push_back(
          {int(manifest_.graphs.size()) - 1, &v, ExtentOf(v.array.tensor()), is_fixed, written[i]});
    }
  }

  // A piece of memory, which one or more values see.
  void AddMemory(std::span<const Use> uses, Extent extent) {
    bool is_same = true, is_fixed = true, is_written = false;
    for (const Use& u : uses) {
      const Array &a = u.value->array, &first = uses[0].value->array;
      is_same &= a.data() == first.data() && a.dtype() == first.dtype() &&
                 std::ranges::equal(a.shape(), first.shape()) &&
                 std::ranges::equal(a.strides(), first.strides());
      is_fixed &= u.is_fixed;
      is_written |= u.is_written;
    }
    // Views of memory that nobody changes may be saved apart; others must stay views of one memory.
    if (is_same || is_fixed) {
      for (const Use& u : uses) {
        SavedValue& saved = Saved(u);
        const Use* twin = std::find_if(uses.data(), &u, [&](const Use& o) {
          return is_same || IsSameMemory(o.value->array.tensor(), u.value->array.tensor());
        });
        saved.tensor = twin == &u ? AddTensor(u, is_fixed, is_written) : Saved(*twin).tensor;
      }
      return;
    }
    AddViews(uses, extent);
  }

  SavedValue& Saved(const Use& u) {
    return manifest_.graphs[std::size_t(u.graph)].values[u.value->name];
  }

  std::string FreeName(const Use& u) {
    const std::string& own = u.value->name;
    std::string name = own;
    if (names_.contains(name)) name = graphs_[std::size_t(u.graph)].name + "." + own;
    for (int k = 0; !names_.insert(name).second; ++k) name = own + "." + std::to_string(k);
    return name;
  }

  std::string AddTensor(const Use& u, bool is_fixed, bool is_written) {
    const Array& array = u.value->array;
    if (!array.device().is_host()) {
      Fail(ANYOP_UNSUPPORTED, u.value->name + " is on " + array.device().name() +
                                  ", but a saved graph holds memory of the host. Try the graph "
                                  "with arrays on the CPU.");
    }
    if (drops_zeros_ && is_written && array.is_contiguous() && IsZero(array)) {
      const std::string name = FreeName(u);
      manifest_.zeros[name] = {array.dtype(), {array.shape().begin(), array.shape().end()}};
      return name;
    }
    // Each graph has packed or computed its weights for itself, so that equal ones are likely.
    const bool may_repeat = graphs_.size() > 1 && is_fixed && array.is_contiguous();
    auto& alike = by_hash_[may_repeat ? Hash(array) : 0];
    if (may_repeat) {
      for (const std::size_t k : alike) {
        const Array& other = arrays_[k].array;
        if (other.dtype() == array.dtype() && std::ranges::equal(other.shape(), array.shape()) &&
            std::memcmp(other.data(), array.data(), std::size_t(array.bytes())) == 0) {
          return arrays_[k].name;
        }
      }
      alike.push_back(arrays_.size());
    }
    arrays_.push_back({FreeName(u), array, !is_fixed});
    return arrays_.back().name;
  }

  // Different views of memory that somebody changes: its bytes, and where each view is in them.
  void AddViews(std::span<const Use> uses, Extent extent) {
    const std::string name = FreeName(uses[0]);
    const std::int64_t bytes[] = {std::int64_t(extent.end - extent.begin)};
    arrays_.push_back(
        {name, Array::Wrap(reinterpret_cast<void*>(extent.begin), bytes, DType::kU8), true});
    for (const Use& u : uses) {
      const Array& a = u.value->array;
      Saved(u) = {name,
                  true,
                  a.dtype(),
                  std::int64_t(reinterpret_cast<std::uintptr_t>(a.data()) - extent.begin),
                  {a.shape().begin(), a.shape().end()},
                  {a.strides().begin(), a.strides().end()}};
    }
  }

  std::span<const GraphToSave> graphs_;
  const bool drops_zeros_;
  std::vector<Use> uses_;
  std::set<const Operator*> operators_;
  std::set<std::string> names_;
  std::map<std::uint64_t, std::vector<std::size_t>> by_hash_;
};

// what: the thing that a graph which calls Python cannot be: "saved".
void RefusePython(const Graph& graph, const std::string& name, const std::string& what) {
  for (const GraphNode& node : graph.nodes) {
    if (!CallsPython(*node.op)) continue;
    Fail(ANYOP_INVALID_ARGUMENT,
         name + " cannot be " + what + ": " + ShowNode(graph, node) +
             (node.place.empty() ? "" : ", at " + node.place) +
             ", calls Python, which a saved graph does without. Try operators only.");
  }
}

void CheckGraphs(std::span<const GraphToSave> graphs) {
  if (graphs.empty()) Fail(ANYOP_INVALID_ARGUMENT, "save: there is no graph to save.");
  std::set<std::string> names;
  for (const GraphToSave& g : graphs) {
    if (!IsSavedName(g.name)) {
      Fail(ANYOP_INVALID_ARGUMENT,
           "save: a graph is called '" + g.name +
               "', but a saved one is called by 1 to 100 letters, digits and _-. without a dot in "
               "front. Try another name.");
    }
    if (!names.insert(g.name).second) {
      Fail(ANYOP_INVALID_ARGUMENT, "save: two graphs are called " + g.name + ".");
    }
    RefusePython(*g.graph, g.name, "saved");
  }
}

// The files of a saved graph at `path`, which it is to replace; none where nothing is there. A link
// is refused: it would be replaced itself, or lead to a folder that nobody named.
std::vector<std::string> FilesToReplace(const std::string& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts)) return {};
  const auto refuse = [&](const std::string& what) {
    Fail(ANYOP_INVALID_ARGUMENT,
         path + " is there already and " + what + ". Try another path, or remove it first.");
  };
  if (S_ISLNK(facts.st_mode)) refuse("is a symbolic link");
  std::map<std::string, std::string> own;
  try {
    const std::string file = path + "/" + kManifestFile;
    own = ReadManifest(ReadText(file), file, false).files;
  } catch (const Error&) {
    refuse("is no saved graph");
  }
  std::vector<std::string> files;  // of those that the manifest names, what is really there
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_own = name == kManifestFile || own.contains(name);
    if (!is_own || entry.symlink_status(error).type() != std::filesystem::file_type::regular) {
      refuse("holds '" + name + "', which is not of the graph that was saved there");
    }
    files.push_back(name);
  }
  if (error) refuse("cannot be read: " + error.message());
  return files;
}

// Writes everything but the manifest, and adds digests to it.
void WriteFiles(const std::string& path, std::span<const GraphToSave> graphs,
                const SaveOptions& options, Collector* collected) {
  Manifest& manifest = collected->manifest_;
  const auto write = [&](const std::string& name, const std::string& content) {
    WriteText(path + "/" + name, content);
    manifest.files[name] = DigestOf(HashBytes(content.data(), content.size()));
  };
  for (const GraphToSave& g : graphs) write(TextFile(g.name), Print(*g.graph) + kTextEnd);
  for (const SavedFile& file : options.files) write(file.name, file.content);
  const TensorHashes hashes = WriteTensors(path + "/" + kWeightsFile, std::move(collected->arrays_),
                                           {options.progress, options.progress_data});
  manifest.files[kWeightsFile] = DigestOf(hashes.header);
  for (const auto& [name, hash] : hashes.tensors) manifest.tensors[name] = DigestOf(hash);
}

// The version of anyop that saves.
std::string OwnVersion() {
  for (const LoadedLibrary& l : Libraries()) {
    if (l.name == "anyop") return l.version;
  }
  return "";
}

}  // namespace

DetachedGraph DetachGraph(const Graph& graph, const std::string& name) {
  RefusePython(graph, name, "copied or pickled");
  const GraphToSave alone{"graph", &graph};
  Collector collected({&alone, 1}, false);
  collected.manifest_.anyop = OwnVersion();
  return {ShowManifest(collected.manifest_), Print(graph), std::move(collected.arrays_)};
}

void WriteGraphs(const std::string& path, std::span<const GraphToSave> graphs,
                 const SaveOptions& options) {
  std::string target = path;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  if (target.empty()) Fail(ANYOP_INVALID_ARGUMENT, "save: the path is empty.");
  CheckGraphs(graphs);
  for (const SavedFile& file : options.files) {
    if (IsSavedName(file.name) && file.name != kManifestFile && file.name != kWeightsFile) continue;
    Fail(ANYOP_INVALID_ARGUMENT, "save: a file cannot be called '" + file.name + "'.");
  }
  const std::vector<std::string> replaced = FilesToReplace(target);
  Collector collected(graphs);
  Manifest& manifest = collected.manifest_;
  manifest.metadata = options.metadata;
  manifest.anyop = OwnVersion();
  ShowManifest(manifest);  // its metadata is refused before anything is written
  NewFolder folder(target);
  WriteFiles(folder.path(), graphs, options, &collected);
  WriteText(folder.path() + "/" + kManifestFile, ShowManifest(manifest));
  replaced.empty() ? folder.Commit() : folder.Replace(replaced);
}

}  // namespace anyop
