"""The keys and values of published models' config.json, but for some that have no effect on the model."""

_LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", initializer_range=0.02,
              pretraining_tp=1, rms_norm_eps=1e-05, rope_scaling=None, tie_word_embeddings=False, use_cache=True)
_LLAMA_3 = _LLAMA | dict(
    attention_bias=False, attention_dropout=0.0, bos_token_id=128000, eos_token_id=128001, hidden_size=4096,
    intermediate_size=14336, max_position_embeddings=8192, num_attention_heads=32, num_hidden_layers=32,
    num_key_value_heads=8, rope_theta=500000.0, torch_dtype="bfloat16", transformers_version="4.40.0.dev0",
    vocab_size=128256)
_LLAMA_31_ROPE = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192,
                      rope_type="llama3")
_MISTRAL = dict(
    architectures=["MistralForCausalLM"], model_type="mistral", bos_token_id=1, eos_token_id=2, hidden_act="silu",
    hidden_size=4096, initializer_range=0.02, intermediate_size=14336, max_position_embeddings=32768,
    num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-05, rope_theta=10000.0,
    sliding_window=4096, tie_word_embeddings=False, torch_dtype="bfloat16", transformers_version="4.34.0.dev0",
    use_cache=True, vocab_size=32000)
_QWEN2 = dict(
    architectures=["Qwen2ForCausalLM"], model_type="qwen2", attention_dropout=0.0, bos_token_id=151643,
    eos_token_id=151643, hidden_act="silu", initializer_range=0.02, max_position_embeddings=131072,
    rms_norm_eps=1e-06, rope_theta=1000000.0, sliding_window=131072, torch_dtype="bfloat16",
    transformers_version="4.40.1", use_cache=True, use_sliding_window=False)
_QWEN3 = dict(
    architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False, attention_dropout=0.0,
    bos_token_id=151643, eos_token_id=151645, head_dim=128, hidden_act="silu", initializer_range=0.02,
    max_position_embeddings=40960, num_key_value_heads=8, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=1000000,
    sliding_window=None, torch_dtype="bfloat16", transformers_version="4.51.0", use_cache=True,
    use_sliding_window=False, vocab_size=151936)
_GPT2 = dict(
    architectures=["GPT2LMHeadModel"], model_type="gpt2", activation_function="gelu_new", attn_pdrop=0.1,
    bos_token_id=50256, embd_pdrop=0.1, eos_token_id=50256, initializer_range=0.02, layer_norm_epsilon=1e-05,
    n_ctx=1024, n_positions=1024, resid_pdrop=0.1, summary_activation=None, summary_first_dropout=0.1,
    summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True,
    task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}}, vocab_size=50257)
_NEOX = dict(
    architectures=["GPTNeoXForCausalLM"], model_type="gpt_neox", bos_token_id=0, eos_token_id=0, hidden_act="gelu",
    initializer_range=0.02, layer_norm_eps=1e-05, max_position_embeddings=2048, rotary_emb_base=10000,
    rotary_pct=0.25, tie_word_embeddings=False, torch_dtype="float16", transformers_version="4.24.0", use_cache=True,
    use_parallel_residual=True, vocab_size=50304)

PUBLISHED = {
    "Llama-2-7b": _LLAMA | dict(
        bos_token_id=1, eos_token_id=2, hidden_size=4096, intermediate_size=11008, max_position_embeddings=4096,
        num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, torch_dtype="float16",
        transformers_version="4.31.0.dev0", vocab_size=32000),
    "Llama-3-8B": _LLAMA_3,
    "Llama-3.1-8B": _LLAMA_3 | dict(max_position_embeddings=131072, mlp_bias=False, rope_scaling=_LLAMA_31_ROPE),
    "Llama-3.2-1B": _LLAMA_3 | dict(
        head_dim=64, hidden_size=2048, intermediate_size=8192, max_position_embeddings=131072, mlp_bias=False,
        num_hidden_layers=16, rope_scaling=_LLAMA_31_ROPE | dict(factor=32.0), tie_word_embeddings=True),
    "SmolLM2-135M": _LLAMA | dict(
        attention_bias=False, attention_dropout=0.0, bos_token_id=0, eos_token_id=0, hidden_size=576,
        initializer_range=0.041666666666666664, intermediate_size=1536, is_llama_config=True,
        max_position_embeddings=8192, mlp_bias=False, num_attention_heads=9, num_hidden_layers=30,
        num_key_value_heads=3, rope_interleaved=False, rope_theta=100000, tie_word_embeddings=True,
        torch_dtype="bfloat16", transformers_version="4.40.1", vocab_size=49152),
    "Mistral-7B-v0.1": _MISTRAL,
    "Mistral-7B-v0.3": _MISTRAL | dict(attention_dropout=0.0, rope_theta=1000000.0, sliding_window=None,
                                       transformers_version="4.42.0.dev0", vocab_size=32768),
    "Qwen2-0.5B": _QWEN2 | dict(
        hidden_size=896, intermediate_size=4864, max_window_layers=24, num_attention_heads=14, num_hidden_layers=24,
        num_key_value_heads=2, tie_word_embeddings=True, vocab_size=151936),
    "Qwen2.5-7B": _QWEN2 | dict(
        hidden_size=3584, intermediate_size=18944, max_window_layers=28, num_attention_heads=28,
        num_hidden_layers=28, num_key_value_heads=4, tie_word_embeddings=False, use_mrope=False, vocab_size=152064),
    "Qwen3-0.6B": _QWEN3 | dict(
        hidden_size=1024, intermediate_size=3072, max_window_layers=28, num_attention_heads=16, num_hidden_layers=28,
        tie_word_embeddings=True),
    "Qwen3-8B": _QWEN3 | dict(
        hidden_size=4096, intermediate_size=12288, max_window_layers=36, num_attention_heads=32, num_hidden_layers=36,
        tie_word_embeddings=False),
    "gpt2": _GPT2 | dict(n_embd=768, n_head=12, n_layer=12),
    "gpt2-xl": _GPT2 | dict(n_embd=1600, n_head=25, n_layer=48, output_past=True),
    "gpt-j-6b": dict(
        architectures=["GPTJForCausalLM"], model_type="gptj", activation_function="gelu_new", attn_pdrop=0.0,
        bos_token_id=50256, embd_pdrop=0.0, eos_token_id=50256, gradient_checkpointing=False, initializer_range=0.02,
        layer_norm_epsilon=1e-05, n_embd=4096, n_head=16, n_inner=None, n_layer=28, n_positions=2048,
        resid_pdrop=0.0, rotary=True, rotary_dim=64, scale_attn_weights=True, summary_activation=None,
        summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True,
        tie_word_embeddings=False, tokenizer_class="GPT2Tokenizer", transformers_version="4.18.0.dev0",
        use_cache=True, vocab_size=50400),
    "pythia-70m": _NEOX | dict(hidden_size=512, intermediate_size=2048, num_attention_heads=8, num_hidden_layers=6),
    "pythia-1.4b": _NEOX | dict(hidden_size=2048, intermediate_size=8192, num_attention_heads=16,
                                num_hidden_layers=24),
    "pythia-12b": _NEOX | dict(hidden_size=5120, intermediate_size=20480, num_attention_heads=40,
                               num_hidden_layers=36, vocab_size=50688),
    "gpt-neox-20b": _NEOX | dict(
        attention_probs_dropout_prob=0, hidden_act="gelu_fast", hidden_dropout_prob=0, hidden_size=6144,
        intermediate_size=24576, num_attention_heads=64, num_hidden_layers=44, vocab_size=50432),
}
