# SPDX-License-Identifier: Apache-2.0
"""What anyop uses of every supported vLLM: names, and the parameters that are passed to them.

A row is `module:name` and its parameters, in order; None where only the name counts. A row holds
the first parameters alone, since one that vLLM adds behind them does no harm.
"""

from __future__ import annotations

from anyop.vllm import _quantized

Rows = dict[str, "tuple[str, ...] | None"]

PLATFORM = "vllm.platforms.cpu:CpuPlatform."
CALLS = "vllm._custom_ops:"
PUNICA = "vllm.lora.punica_wrapper.punica_cpu:PunicaWrapperCPU."

COMMON: Rows = {
    # The platform, of which ours is a subclass.
    PLATFORM + "import_kernels": (),
    PLATFORM + "import_ir_kernels": (),
    PLATFORM + "get_default_ir_op_priority": ("vllm_config",),
    PLATFORM + "apply_config_platform_defaults": ("vllm_config",),
    PLATFORM + "check_and_update_config": ("vllm_config",),
    PLATFORM + "get_attn_backend_cls": ("selected_backend", "attn_selector_config", "num_heads"),
    "vllm.v1.attention.selector:AttentionSelectorConfig": (
        "head_size", "dtype", "kv_cache_dtype", "block_size", "use_mla",
    ),
    "vllm.v1.attention.backends.cpu_attn:CPUAttentionBackend": None,
    "vllm.v1.worker.cpu_worker:CPUWorker.compile_or_warm_up_model": ("self",),
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner._dummy_run": ("self", "num_tokens"),
    "vllm.v1.worker.gpu_model_runner:GPUModelRunner.maybe_remove_all_loras": (
        "self", "lora_config",
    ),
    PLATFORM + "get_punica_wrapper": (),
    PUNICA + "_apply_shrink": ("self", "y", "x", "w_t_all", "scale"),
    PUNICA + "_apply_expand": (
        "self", "y", "x", "w_t_all", "y_offset", "y_slice_size", "add_inputs",
    ),
    PUNICA + "add_lora_embedding": ("self", "y", "x", "lora_b_stacked", "add_inputs"),
    PUNICA + "add_lora_logits": (
        "self", "y", "x", "lora_a_stacked", "lora_b_stacked", "scale", "buffer",
    ),
    # Layers and IR, which `_classes` replaces.
    "vllm.model_executor.custom_op:CustomOp.register_oot": ("_decorated_op_cls", "name"),
    "vllm.model_executor.custom_op:op_registry": None,
    "vllm.model_executor.custom_op:op_registry_oot": None,
    "vllm.config.kernel:IrOpPriorityConfig.with_default": ("default",),
    "vllm.ir.op:IrOp.register_impl": ("self", "provider", "supported", "supports_args"),
    "vllm.ir.ops:rms_norm": None,
    "vllm.ir.ops:fused_add_rms_norm": None,
    # vLLM's own calls of what `_dropin` defines.
    CALLS + "cpu_attn_get_scheduler_metadata": (
        "num_reqs", "num_heads", "num_kv_heads", "head_dim", "seq_lens", "dtype",
        "query_start_loc", "causal", "sliding_window_size", "isa", "enable_kv_split",
        "dynamic_causal", "kv_cache_dtype",
    ),
    CALLS + "cpu_attn_reshape_and_cache": (
        "key", "value", "key_cache", "value_cache", "slot_mapping", "isa", "k_scale", "v_scale",
        "kv_cache_dtype",
    ),
    CALLS + "cpu_attention_with_kv_cache": (
        "query", "key_cache", "value_cache", "output", "query_start_loc", "seq_lens", "scale",
        "causal", "alibi_slopes", "sliding_window", "block_table", "softcap",
        "scheduler_metadata", "s_aux", "dynamic_causal", "k_scale", "v_scale", "kv_cache_dtype",
    ),
    f"{CALLS}rotary_embedding": (
        "positions", "query", "key", "head_size", "cos_sin_cache", "is_neox", "rope_dim_offset",
        "inverse",
    ),
    CALLS + "convert_weight_packed_scale_zp": (
        "qweight", "qzeros", "scales", "quant_method_4bit",
    ),
    CALLS + "int4_scaled_mm_cpu": ("x", "w", "w_zeros", "w_scales", "bias"),
    CALLS + "create_onednn_scaled_mm": (
        "weight", "weight_scales", "output_type", "dynamic_quant", "use_azp",
        "primitive_cache_size",
    ),
    CALLS + "onednn_scaled_int8_quant": ("input", "scale", "azp", "symmetric"),
    CALLS + "onednn_scaled_mm": (
        "dnnl_handler", "x", "output", "input_scale", "input_zp", "input_zp_adj", "bias",
    ),
    # What `_quantized` replaces.
    _quantized.BYTES + ".process_weights_after_loading": ("self", "layer"),
    _quantized.CPU + ".can_implement": ("c",),
    _quantized.CPU + ".process_weights_after_loading": ("self", "layer"),
    CALLS + "create_onednn_mm": ("weight", "primitive_cache_size"),
    CALLS + "onednn_mm": ("dnnl_handler", "x", "bias"),
    CALLS + "cpu_prepack_moe_weight": ("weight", "isa"),
    CALLS + "mla_decode_kvcache_cpu": (
        "out", "query", "kv_cache", "scale", "block_tables", "seq_lens",
    ),
    "vllm.model_executor.layers.utils:dispatch_cpu_unquantized_gemm": ("layer", "remove_weight"),
    "vllm.utils.cpu_triton_utils:_compute_slot_mapping_kernel_impl": (
        "num_tokens", "max_num_tokens", "query_start_loc", "positions", "block_table",
    ),
}  # fmt: skip
