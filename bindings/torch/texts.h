// SPDX-License-Identifier: Apache-2.0
// The rules and texts of torch's operators, once for the two ways that calls take: this adapter,
// and Python where there is none (python/anyop/torch/_dispatch/python_route.py), which has them as
// _anyop.torch_texts. Nothing of torch is included, as the extension `_anyop` includes none of it.
#pragma once
#include "signature/texts.h"

namespace anyop::torch_texts {

inline constexpr Text kTangent{
    "tangent",
    "{op}: {name} has a tangent, but anyop's operators have no forward-mode derivative. Try "
    "torch.func.vjp."};
inline constexpr Text kWrittenGradient{
    "written_gradient",
    "{op}: {name} requires grad, but this call writes into its arguments, which cannot be "
    "differentiated. Try torch.no_grad() or detach()."};
inline constexpr Text kInference{
    "inference",
    "{op}: {name} is an inference tensor, but is written outside inference mode. Try a clone()."};
inline constexpr Text kDevice{
    "device", "{op}: {name} is on {device}, but must be on cpu. Try {name}.to('cpu')."};
inline constexpr Text kNoMemory{"no_memory",
                                "{op}: {name} has no memory: its storage was resized to nothing."};
inline constexpr Text kLayout{
    "layout", "{op}: {name} is {layout}, but must be a strided tensor. Try {name}.{conversion}."};
// Where no argument shows such a layout.
inline constexpr Text kSomeLayout{
    "some_layout", "{op}: a tensor has a layout that anyop does not read. Try a dense one."};

// Of signature/texts.h's texts about gradients.
inline constexpr Text kAsks{"asks", "requires grad"};
inline constexpr Text kStop{"stop", "{name}.detach()"};
inline constexpr Text kAround{"around",
                              "torch.no_grad() around the call, or detach() its arguments"};

inline constexpr Text kAll[] = {kTangent, kWrittenGradient, kInference, kDevice, kNoMemory,
                                kLayout,  kSomeLayout,      kAsks,      kStop,   kAround};

// A layout that no kernel reads, and the method that makes a strided tensor of it.
inline constexpr Text kQuantized{"quantized", "dequantize()"};
inline constexpr Text kNested{"nested", "to_padded_tensor(0.0)"};
inline constexpr Text kMkldnn{"mkldnn", "to_dense()"};
inline constexpr Text kSparse{"sparse", "to_dense()"};
inline constexpr Text kLayouts[] = {kQuantized, kNested, kMkldnn, kSparse};

// torch's keys of tensors with these layouts.
inline constexpr const char* kWrongLayoutKeys[] = {"SparseCPU", "SparseCsrCPU", "MkldnnCPU",
                                                   "QuantizedCPU", "NestedTensorCPU"};
// torch's keys of devices that may have a library of anyop's.
inline constexpr const char* kDeviceKeys[] = {"CUDA", "PrivateUse1", "XPU"};

}  // namespace anyop::torch_texts
