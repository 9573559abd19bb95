// SPDX-License-Identifier: Apache-2.0
// The frame of a call whose tensors lie on a device, as those of a frame of the host lie here. What
// is planned lies on the host in both.
#pragma once
#include <deque>
#include <vector>

#include "anyop/runtime.h"
#include "optest/frame.h"

namespace anyop::optest {

class DeviceFrame {
 public:
  // The memory of the host's frame, gaps included, is copied to the device, on its current stream.
  DeviceFrame(const Operator& op, Frame* host, Device device);

  anyop_value* values() { return values_.data(); }
  // Makes memory for the results, like that of the host's frame, which gets them too.
  void AddResults(const Plan& plan, const Arrangement& arrangement);
  // Waits for the stream and puts all memory back where the host's frame has it. Gives what was
  // written before the first or behind the last element of a tensor.
  Defect BringBack() const;

 private:
  // What lies on the device for bytes of the host.
  struct Piece {
    unsigned char* host;
    std::string name;
    anyop::Array memory;    // of bytes, with some before and behind that nothing may write
    std::int64_t at, size;  // of the first byte, and their number
  };
  void Move(int index);
  const DLTensor* Moved(const DLTensor& host, const std::string& name);
  const Piece& PieceOf(const DLTensor& host, const std::string& name);

  const Operator& op_;
  Frame& host_;
  const Device device_;
  std::vector<anyop_value> values_;
  std::deque<Piece> pieces_;
  std::deque<DLTensor> tensors_;
  std::deque<std::vector<const DLTensor*>> lists_;
};

}  // namespace anyop::optest
