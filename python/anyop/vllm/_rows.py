# SPDX-License-Identifier: Apache-2.0
"""The names of vLLM's extension `_C` that anyop has, by vLLM's own schemas.

What the extension has beyond this table (quantized weights, state-space models, speculative
decoding, shared memory between processes) stays undefined where vLLM asks whether it exists. Where
it does not ask, the name is there and raises.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One name.

    schema: vLLM's. operators: those of anyop that compute it. Which of vLLM's arguments they take
    follows from the two signatures (bindings/vllm/map.h). constants: what parameters of the
    operator get that no argument of vLLM's is; of a row without an operator, what it returns.
    function: bindings/vllm has a function of the row's name, which makes the call. first, end:
    versions of vLLM that have this schema, the last excluded. group: names that share memory or
    handles whose meaning a library alone knows, so that all of them are taken over from it, or
    none.
    """

    schema: str
    operators: tuple[str, ...] = ()
    constants: str = ""
    function: bool = False
    first: str = "0.27.1"
    end: str = ""
    group: str = ""

    @property
    def name(self) -> str:
        return self.schema[: self.schema.index("(")]


def _function(
    schema: str, *operators: str, first: str = "0.27.1", end: str = "", group: str = ""
) -> Row:
    return Row(schema, operators, function=True, first=first, end=end, group=group)


def _activation(name: str, operator: str, constants: str = "") -> Row:
    return Row(f"{name}(Tensor! out, Tensor input) -> ()", (operator,), constants)


ROWS = (
    Row("init_cpu_memory_env(SymInt[] node_ids) -> ()"),
    # Attention. Keys and values of all tokens in caches [blocks, heads, block size, head size].
    Row("cpu_attn_has_isa(str isa) -> bool", constants="return = False"),
    _function(
        "get_scheduler_metadata(int num_req, int num_heads_q, int num_heads_kv, int head_dim, "
        "Tensor seq_lens, ScalarType dtype, Tensor query_start_loc, bool casual, int window_size, "
        "str isa_hint, bool enable_kv_split, Tensor? dynamic_causal, "
        'str kv_cache_dtype="auto") -> Tensor',
        "paged_attention",
        group="attention",
    ),
    _function(
        "cpu_attn_reshape_and_cache(Tensor key, Tensor value, Tensor(a2!) key_cache, "
        "Tensor(a3!) value_cache, Tensor slot_mapping, str isa, float k_scale=1.0, "
        'float v_scale=1.0, str kv_cache_dtype="auto") -> ()',
        "reshape_and_cache",
        group="attention",
    ),
    _function(
        "cpu_attention_with_kv_cache(Tensor query, Tensor key_cache, Tensor value_cache, "
        "Tensor(a3!) output, Tensor query_start_loc, Tensor seq_lens, float scale, bool causal, "
        "Tensor? alibi_slopes, SymInt sliding_window_size, Tensor block_table, float softcap, "
        "Tensor scheduler_metadata, Tensor? s_aux, Tensor? dynamic_causal, float k_scale=1.0, "
        'float v_scale=1.0, str kv_cache_dtype="auto") -> ()',
        "paged_attention",
        group="attention",
    ),
    _function(
        "compute_slot_mapping_kernel_impl(Tensor query_start_loc, Tensor positions, "
        "Tensor block_table, Tensor(a3!) slot_mapping, SymInt block_size) -> ()",
        "compute_slot_mapping",
    ),
    _function(
        "mla_decode_kvcache(Tensor! out, Tensor query, Tensor kv_cache, float scale, "
        "Tensor block_tables, Tensor seq_lens) -> ()",
        "mla_decode",
    ),
    _function(
        "rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, "
        "Tensor cos_sin_cache, bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()",
        "rotary_embedding",
    ),
    # Dense layers. A handle stands for a packed weight until it is released.
    _function(
        "create_onednn_mm_handler(Tensor b, int primitive_cache_size) -> int",
        "pack_weight",
        group="handles",
    ),
    _function(
        "onednn_mm(Tensor! c, Tensor a, Tensor? bias, Tensor handler_tensor) -> ()",
        "linear_packed",
        group="handles",
    ),
    _function("release_dnnl_matmul_handler(int handler) -> ()", group="handles"),
    # The same of bytes (W8A8), whose inputs have one scale or one for each row.
    _function(
        "create_onednn_scaled_mm_handler(Tensor b, Tensor b_scales, ScalarType output_type, "
        "bool dynamic_act_quant, bool use_azp, int primitive_cache_size) -> int",
        "pack_weight_int8",
        "sum_weight_int8",
        group="handles",
    ),
    _function(
        "onednn_scaled_mm(Tensor! c, Tensor a, Tensor a_scales, Tensor? azp, Tensor? azp_adj, "
        "Tensor? bias, Tensor handler_tensor) -> ()",
        "linear_int8_quantized_packed",
        group="handles",
    ),
    _function(
        "static_scaled_int8_quant(Tensor! out, Tensor input, Tensor scale, Tensor? azp) -> ()",
        "quantize_int8",
    ),
    _function(
        "dynamic_scaled_int8_quant(Tensor! out, Tensor input, Tensor! scale, Tensor!? azp) -> ()",
        "quantize_int8_dynamic",
    ),
    Row("is_onednn_acl_supported() -> bool", constants="return = False"),
    # The same without a handle, which vLLM takes for small layers where a machine has AMX.
    _function(
        "convert_weight_packed(Tensor! weight) -> Tensor",
        "pack_weight",
        "pack_weight_int8",
        group="packed",
    ),
    _function(
        "weight_packed_linear(Tensor(a0!) mat1, Tensor(a1!) mat2, Tensor(a2!)? bias, bool is_vnni) "
        "-> Tensor",
        "linear_packed",
        end="0.29.0",
        group="packed",
    ),
    _function(
        "weight_packed_linear(Tensor(a0!) out, Tensor(a1) mat1, Tensor(a2) mat2, Tensor(a3)? bias, "
        "bool is_vnni) -> ()",
        "linear_packed",
        first="0.29.0",
        group="packed",
    ),
    _function(
        "int8_scaled_mm_with_quant(Tensor mat1, Tensor mat2, Tensor scales2, Tensor? bias, "
        "ScalarType out_dtype, bool is_vnni) -> Tensor",
        "linear_int8_packed",
        "linear_int8",
        group="packed",
    ),
    # Weights of 4 bits: AWQ, GPTQ and what compressed-tensors packs.
    _function(
        "cpu_gemm_wna16(Tensor input, Tensor q_weight, Tensor(a2!) output, Tensor scales, "
        "Tensor? zeros, Tensor? g_idx, Tensor? bias, SymInt pack_factor, str isa_hint) -> ()",
        "linear_u4_packed",
        end="0.30.0",
    ),
    _function(
        "cpu_gemm_wna16(Tensor input, Tensor q_weight, Tensor(a2!) output, Tensor scales, "
        "Tensor? zeros, Tensor? bias, SymInt pack_factor, str isa_hint) -> ()",
        "linear_u4_packed",
        first="0.30.0",
    ),
    # The same with bytes for inputs, which vLLM takes for bf16 where a machine has AMX.
    _function(
        "convert_weight_packed_scale_zp(Tensor weight, Tensor qzeros, Tensor scales, "
        "int quant_method_4bit) -> (Tensor, Tensor, Tensor)",
        "rows_u4",
        "zeros_u4",
        "pack_u4",
        "pack_groups_u4",
        group="bytes and 4 bits",
    ),
    _function(
        "int4_scaled_mm_cpu(Tensor(a0!) x, Tensor(a1!) w, Tensor(a2!) w_zeros, "
        "Tensor(a3!) w_scales, Tensor? bias) -> Tensor",
        "linear_u4_packed",
        group="bytes and 4 bits",
    ),
    # Activations and norms. vLLM 0.27 calls no activation on x86, but looks the names up when it
    # makes layers.
    _activation("silu_and_mul", "silu_and_mul"),
    _activation("gelu_and_mul", "gelu_and_mul"),
    _activation("gelu_tanh_and_mul", "gelu_and_mul", "approximate = 'tanh'"),
    _activation("gelu_tanh", "gelu", "kind = 'tanh'"),
    _activation("gelu_new", "gelu", "kind = 'tanh'"),
    _activation("gelu_fast", "gelu", "kind = 'tanh'"),
    _activation("gelu_quick", "gelu", "kind = 'quick'"),
    Row(
        "rms_norm(Tensor! out, Tensor input, Tensor? weight, float epsilon) -> ()",
        ("rms_norm",),
    ),
    Row(
        "fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()",
        ("add_rms_norm",),
    ),
    # Mixtures of experts.
    _function(
        "prepack_moe_weight(Tensor weight, Tensor(a1!) packed_weight, str isa) -> ()",
        "pack_weight",
        group="experts",
    ),
    _function(
        "cpu_fused_moe(Tensor(a0!) output, Tensor input, Tensor w13, Tensor w2, Tensor? w13_bias, "
        "Tensor? w2_bias, Tensor topk_weights, Tensor topk_id, bool skip_weighted, str act, "
        "str isa) -> ()",
        "fused_moe_packed",
        "fused_moe",
        group="experts",
    ),
    # Tokens.
    Row(
        "greedy_argmax(Tensor logits) -> Tensor",
        ("argmax",),
        first="0.32.0",
    ),
    _function(
        "fused_gumbel_argmax(Tensor logits, Tensor seeds) -> Tensor", "argmax", first="0.32.0"
    ),
)

SPECULATION = "speculative decoding"

# Names that vLLM calls without asking, by what it calls them for; "from" a version where older ones
# ask.
UNSUPPORTED = {
    "quantized weights": (
        "convert_scale_packed",
        "dynamic_per_token_scaled_fp8_quant",
        "dynamic_scaled_fp8_quant",
        "float8_linear_prepack_cpu",
        "fused_experts_cpu from 0.30.0",
        "prepack_moe_weight_int8",
        "quantize_fp8e4m3_vec",
    ),
    "state-space models and gated delta nets": (
        "causal_conv1d_fwd_cpu",
        "causal_conv1d_update_cpu",
        "causal_conv1d_update_cpu_vec",
        "chunk_gated_delta_rule_cpu",
        "fused_gdn_gating_cpu",
        "fused_sigmoid_gating_delta_rule_update_cpu",
        "fused_sigmoid_gating_delta_rule_update_spec_cpu",
        "mamba_chunk_scan_fwd_cpu",
        "selective_state_update_cpu",
    ),
    SPECULATION: (
        "copy_and_expand_eagle_inputs_kernel_impl",
        "eagle_prepare_inputs_padded_kernel_impl",
        "eagle_prepare_next_token_padded_kernel_impl",
        "eagle_step_slot_mapping_metadata_kernel_impl",
        "expand_kernel_impl",
        "rejection_greedy_sample_kernel_impl",
        "rejection_random_sample_kernel_impl",
        "sample_recovered_tokens_kernel_impl",
    ),
    "latent attention with AMX": (
        "bmm_cpu",
        "concat_and_cache_mla_cpu",
        "decode_attention_cpu",
        "extend_attention_cpu",
    ),
    "DeepSeek-V4": (
        "compress_norm_rope_store_cpu",
        "compress_norm_rope_store_indexer_cpu",
        "flash_mla_with_kvcache_cpu",
        "fused_indexer_q_rope_quant_cpu",
        "save_partial_states_cpu",
        "topk_transform_512_cpu",
    ),
}
