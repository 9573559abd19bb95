// SPDX-License-Identifier: Apache-2.0
// A graph at concrete sizes: plans of all nodes, and where every value lies.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "anyop/value.h"
#include "graph/ir/frame.h"
#include "graph/ir/layout.h"
#include "graph/memory/memory_plan.h"
#include "graph/specialise/region.h"
#include "runtime/run/call.h"

namespace anyop {

class Instance;

// Where a value's memory comes from.
struct MemoryPlace {
  enum Kind : std::uint8_t {
    kNowhere,
    kFixed,
    kArena,
    kInput,
    kOutput,
    kRegion  // block by block, in the memory of a region's threads
  } kind = kNowhere;
  int index = -1;           // of the input or output
  std::int64_t offset = 0;  // in the arena, of the root
};

// A node as it is replayed.
struct PlannedCall {
  enum Mode : std::uint8_t {
    kDirect,   // the kernel, nothing else
    kChecked,  // looks at indices, numbers or data first
    kGeneral   // as any call: copies, compositions
  };
  int node = -1;
  Plan* plan = nullptr;  // with a reference
  Mode mode = kDirect;
  bool has_numbers = false;              // of the call: their conditions are checked
  std::vector<IndexCheck> index_checks;  // those that no earlier node has made
  std::size_t frame = 0, list = 0;       // where its frame and list elements begin
  std::int64_t workspace = -1;           // in the arena; -1: none
  int region = -1;                       // that it is part of; -1: it runs by itself
};

// A number of the call in the frame of a node.
struct NumberPlace {
  std::size_t at;  // in the frames
  int scalar;      // the value; -1: `size`
  const Size* size;
  bool is_float;  // the parameter
};

// A tensor that is copied between memory of the caller and a value.
struct BoundaryCopy {
  int value, index;  // of the input or output
};

// Copies of a graph's constants on the devices where it runs, shared by its specialisations.
class ConstantsOnDevices {
 public:
  ConstantsOnDevices() = default;
  // Waits for all that may still read them.
  ~ConstantsOnDevices();
  ConstantsOnDevices(const ConstantsOnDevices&) = delete;
  ConstantsOnDevices& operator=(const ConstantsOnDevices&) = delete;
  Array On(DLDevice device, const Array& constant);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, const void*>, Array> copies_;  // by place and data
};

struct SpecialiseOptions {
  bool share_memory = true, regions = true;
  std::int64_t block_rows = 0;              // of regions; 0: by cost
  ConstantsOnDevices* constants = nullptr;  // outlives the specialisation
};

class Specialisation {
 public:
  // symbols: the free ones set. Plans are those of the calling thread's scope. Throws what the
  // operators throw, with the place of the node.
  Specialisation(std::shared_ptr<const Graph> graph, std::vector<std::int64_t> symbols,
                 std::span<const anyop_value> inputs, const SpecialiseOptions& options = {});
  ~Specialisation();
  Specialisation(const Specialisation&) = delete;
  Specialisation& operator=(const Specialisation&) = delete;

  std::shared_ptr<const Graph> graph;
  DLDevice device = kHostDevice;            // of inputs, outputs and arena
  const DeviceKind* device_kind = nullptr;  // null: the host
  std::vector<std::int64_t> symbols;
  std::vector<Layout> layouts;             // by value
  std::vector<Array> arrays;               // by value: states, and constants where the graph runs
  std::vector<DLTensor> tensors;           // by value; without data
  std::vector<const DLTensor*> tensor_at;  // by value; null for numbers and what nobody uses
  std::vector<anyop_value> scalars;        // by value, of the first call
  std::vector<MemoryPlace> places;         // by value: that of its root
  std::vector<PlannedCall> calls;
  std::vector<Region> regions;
  std::vector<NumberPlace> numbers;
  std::vector<BoundaryCopy> copies_in, copies_out;
  std::vector<ResultShape> outputs;
  std::size_t frame_values = 0, list_elements = 0;
  std::vector<Lifetime> buffers;
  MemoryPlan memory;
  std::int64_t unshared_bytes = 0;
  double estimated_ns = 0;

  // Guarded by the executable. Each has one owner, but stands in a shared_ptr, which can delete an
  // Instance where that class is not complete.
  std::vector<std::shared_ptr<Instance>> idle;
  std::atomic<std::int64_t> records{0};  // how many replays a recording has met

 private:
  void ReleasePlans();
};

// "...\n  in y = anyop.add(x, z), model.py:31"
std::string InNode(const Graph& graph, int node, const std::string& text);

}  // namespace anyop
