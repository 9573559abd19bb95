# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU platform with anyop's operators behind it. Imported by vLLM, which is there then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from vllm.platforms.cpu import CpuPlatform

import anyop
from anyop.vllm import _absent, _explain, _plugin, _versions
from anyop.vllm._rows import SPECULATION

if TYPE_CHECKING:
    from vllm.config import VllmConfig

PROVIDER = "anyop"
# What `_C.cpu_attention_with_kv_cache` takes.
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CACHE_DTYPES = ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3")


class AnyopCpuPlatform(CpuPlatform):  # type: ignore[misc]
    """Everything that no kernel of ours is for is vLLM's own."""

    @classmethod
    def import_kernels(cls) -> None:
        """`_C`: ours in place of vLLM's, or over it where ANYOP_VLLM is override."""
        from anyop.vllm import _dropin

        if _plugin.mode() == "override":
            super().import_kernels()
        _dropin.load(_release())

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """Called from 0.32 on."""
        from vllm.triton_utils import HAS_TRITON
        from vllm.triton_utils.dispatcher import register_kernels

        super().register_triton_kernel_overrides()
        kernels = _versions.of_version(_release()).KERNELS
        if kernels and not HAS_TRITON:
            register_kernels(kernels)

    @classmethod
    def import_ir_kernels(cls) -> None:
        super().import_ir_kernels()
        from anyop.vllm import _classes

        _classes.register_providers()

    @classmethod
    def get_default_ir_op_priority(cls, vllm_config: VllmConfig) -> Any:
        """Ours first, where there is a provider of ours."""
        from dataclasses import fields

        from vllm.config.kernel import IrOpPriorityConfig
        from vllm.ir.op import IrOp

        cls.import_ir_kernels()
        given = {
            field.name: [PROVIDER, "native"]
            for field in fields(IrOpPriorityConfig)
            if field.name in IrOp.registry and PROVIDER in IrOp.registry[field.name].impls
        }
        return IrOpPriorityConfig.with_default(["native"], **given)

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: VllmConfig) -> None:
        """Layers of ours are on unless the user says otherwise, compiled models included: vLLM
        turns them off there for the sake of Inductor's fusions. A configuration without a model
        is left as it is, since vLLM's own tests of its switches make such ones.
        """
        # Not in check_and_update_config: before that one vLLM appends "none" where models are
        # compiled, and every layer of ours would be off without a word.
        super().apply_config_platform_defaults(vllm_config)
        custom_ops = vllm_config.compilation_config.custom_ops
        if vllm_config.model_config is not None and not {"all", "none"} & set(custom_ops):
            custom_ops.append("all")

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        _versions.check_fit(_versions.of_version(_release()), _release())
        if vllm_config.model_config is not None:
            _check_drafts(vllm_config.speculative_config)
            _check_cache_dtype(vllm_config.cache_config.cache_dtype)
            if getattr(vllm_config.model_config, "use_mla", False):
                attention = vllm_config.attention_config
                attention.backend = _latent_attention(attention.backend)
        super().check_and_update_config(vllm_config)
        _explain.announce(vllm_config)

    @classmethod
    def get_punica_wrapper(cls) -> str:
        return "anyop.vllm._lora.AnyopPunicaWrapper"

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        _check_attention(attn_selector_config)
        if attn_selector_config.use_mla:
            selected_backend = _latent_attention(selected_backend)
        chosen: str = super().get_attn_backend_cls(
            selected_backend, attn_selector_config, num_heads
        )
        return chosen


def _release() -> str:
    from vllm.version import __version__

    return str(__version__).partition("+")[0]


def _check_drafts(config: Any) -> None:
    """Whatever proposes tokens, the same operators take them or leave them."""
    if config is None:
        return
    if absent := sorted(_absent.of(SPECULATION)):
        more = f" and {len(absent) - 1} more operators" if len(absent) > 1 else ""
        raise anyop.NotAvailable(
            f"anyop.vllm: speculative decoding by {config.method} is asked for, but it calls "
            f"_C.{absent[0]}{more}, which anyop has no kernels of. Try without "
            "--speculative-config."
        )


def _check_cache_dtype(dtype: str) -> None:
    if dtype not in CACHE_DTYPES:
        raise anyop.NotAvailable(
            f"anyop.vllm: the cache's dtype is {dtype}, but attention takes "
            f"{', '.join(CACHE_DTYPES)}. Try --kv-cache-dtype auto."
        )


def _latent_attention(asked: Any) -> Any:
    """The backend of latent attention where vLLM has two: 0.32 prefers the one for AMX, whose
    operators are vLLM's own.
    """
    from vllm.v1.attention.backends.registry import AttentionBackendEnum as Backends

    if "AMX_MLA" not in Backends.__members__:
        return asked
    if asked == Backends.AMX_MLA:
        raise anyop.NotAvailable(
            "anyop.vllm: the attention backend AMX_MLA is asked for, but latent attention runs on "
            "CPU_MLA, with AMX or without. Try --attention-backend CPU_MLA."
        )
    return Backends.CPU_MLA


def _check_attention(config: Any) -> None:
    """When a layer is made, rather than in a request."""
    if config.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise anyop.NotAvailable(
            f"anyop.vllm: attention is in {str(config.dtype).removeprefix('torch.')}, but the "
            f"kernels take {names}. Try --dtype bfloat16."
        )
    if config.kv_cache_dtype is not None:
        _check_cache_dtype(config.kv_cache_dtype)
