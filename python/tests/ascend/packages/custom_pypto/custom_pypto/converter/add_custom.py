# SPDX-License-Identifier: Apache-2.0
import torch
import torchair
from torchair._ge_concrete_graph.fx2ge_converter import (
    declare_supported,
    register_fx_node_ge_converter,
)
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor, TensorSpec


@declare_supported([])
@register_fx_node_ge_converter(torch.ops.custom_pypto.add_custom.default)
def convert_add_custom(
    self: Tensor, other: Tensor, *, alpha: float = 1.0, meta_outputs: TensorSpec = None
):
    return torchair.ge.custom_op(
        "AddCustom",
        inputs={"self": self, "other": other},
        attrs={"alpha": attr.Float(alpha)},
        outputs=["out"],
    )


@register_fx_node_ge_converter(torch.ops.custom_pypto.add_custom.out)
def convert_add_custom_out(
    self: Tensor,
    other: Tensor,
    *,
    alpha: float = 1.0,
    out: Tensor = None,
    meta_outputs: TensorSpec = None,
):
    return torchair.ge.custom_op(
        "AddCustom",
        inputs={"self": self, "other": other},
        attrs={"alpha": attr.Float(alpha)},
        outputs=["out"],
    )
