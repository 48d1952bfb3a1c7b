#include "launcher/settings/foreign_tables.h"

namespace zero::launcher {

const Translations& not_here() {
  static const Translations table = {
      {"not needed: weights, gradients and optimizer state are always sharded over "
       "ranks; "
       "weights with @shard_over host over those of a host, with 1 not at all",
       "full_shard shard_grad_op sharding_strategy fsdp_sharding_strategy "
       "zero_optimization zero_stage fsdp ddp_backend stage deepspeed deepspeed_config "
       "zero use_distributed_optimizer fsdp_config accelerator_config ddp zero_sharding "
       "use_sharded_state flatten_parameters data_parallel ddp_broadcast_buffers "
       "fsdp_version zero3"},
      {"not needed: every layer is a unit, gathered and released by itself",
       "auto_wrap auto_setup_fsdp auto_wrap_policy fsdp_auto_wrap_policy "
       "fsdp_transformer_layer_cls_to_wrap "
       "transformer_layer_cls_to_wrap bucket_cap_mb ddp_bucket_cap_mb reduce_bucket_size "
       "allgather_bucket_size contiguous_gradients sub_group_size "
       "round_robin_gradients gradient_as_bucket_view"},
      {"not needed: each rank makes its part of the weights in place; a library's own "
       "functions are Options::param_init and post_init",
       "param_init_fn post_param_init_fn"},
      {"not needed: parameters keep the names and shapes of the model",
       "use_orig_params fsdp_use_orig_params"},
      {"not needed: ranks begin with the same weights; a library's model that is filled "
       "on rank 0 alone is Options::source, Source::kRank0",
       "sync_module_states fsdp_sync_module_states"},
      {"not needed: what nothing initialises is an error that names it",
       "validate_params_and_buffers_inited"},
      {"not needed: a library has whole parameters by Engine::full_parameter()",
       "summon_full_params"},
      {"not needed: buffers keep the type that the model gave them", "buffer_dtype"},
      {"not needed: what goes into a unit is cast to its type, and sums are fp32",
       "force_input_to_fp32 clear_autocast_cache"},
      {"not needed: what is outside of units stays gathered while a graph may need it",
       "disable_reshard_on_root"},
      {"here: zero_launch seed, which writes first values; train makes them itself",
       "create_seed_checkpoint"},
      {"not needed: ranks, and whether there are GPUs, are found; see @device and @ranks",
       "plugins strategy accelerator trainer"},
      {"not needed: what the data are is seen from them",
       "dataset_impl required_batch_size_multiple"},
      {"not needed: a checkpoint has full tensors; zero_launch export makes a folder for "
       "Hugging Face of it",
       "stage3_gather_16bit_weights_on_model_save state_dict_type fsdp_state_dict_type "
       "save_only_model hf_save consolidate state_dict_device"},
      {"not here: a model's layers are sharded over all ranks, never split otherwise",
       "tensor_model_parallel_size pipeline_model_parallel_size tensor_parallel_size tp "
       "pp cp pipeline_parallel_size context_parallel_size sequence_parallel "
       "expert_model_parallel_size num_experts"},
      {"not here: offload is to host memory, never to a disk", "nvme_path swap_dir nvme"},
      {"not needed: data is mapped into memory, no process reads it ahead",
       "num_workers dataloader_num_workers dataloader_pin_memory "
       "dataloader_prefetch_factor dataloader_persistent_workers no_mmap mmap cache_dir "
       "overwrite_cache"},
      {"not needed: samples are cut out of one stream of tokens, all of the same length",
       "group_by_length dataloader_drop_last length_column_name "
       "remove_unused_columns label_names pad_token padding pad_to_max_length "
       "skip_invalid_size_inputs_valid_test sample_break_mode"},
      {"not needed: attention is LibTorch's own, the fastest kernel that fits",
       "attn_implementation use_flash_attention_2 flash_attn flash_attention fa flash "
       "use_flash_attn sdpa"},
      {"not here: there is no compiler behind LibTorch (C++); what a step takes is in "
       "`zero_launch bench step`",
       "compile torch_compile torch_compile_backend torch_compile_mode torchdynamo "
       "jit_mode_eval use_kernel jit"},
      {"not here: adapters are LoRA's (@lora), on weights of fp32, bf16 or fp16",
       "qlora use_dora dora"},
      {"not here: weights are fp32, bf16 or fp16, by @dtype",
       "load_in_8bit load_in_4bit quantization quantize bnb_4bit int8 fp8 bits "
       "zero_quantized_weights zero_quantized_gradients cache_type_k cache_type_v ctk "
       "ctv"},
      {"not here: train trains; zero_launch eval, generate and predict do the rest",
       "do_train do_eval do_predict eval_only train_only predict_only test"},
      {"not here: touch OUT/STOP, Ctrl-C or @time_limit stop a run, which saves",
       "early_stopping patience early_stopping_patience stop exit_interval"},
      {"not here: the loss is plain cross entropy",
       "label_smoothing label_smoothing_factor criterion loss loss_function z_loss "
       "neftune_noise_alpha task"},
      {"not here: nothing is downloaded or uploaded; zero_launch export writes a folder",
       "push_to_hub hub_model_id hub_token hub_strategy hf_token token model_revision "
       "revision hub"},
      {"not needed: no code of a model's folder is run", "trust_remote_code"},
      {"not needed: no rank ever holds a full copy of the model", "low_cpu_mem_usage"},
      {"not needed: what is printed goes to stdout, and numbers to OUT/metrics.jsonl",
       "tee redirects log_file"},
      {"not here: tokens are drawn by @sample_temperature, @sample_top_k, @sample_top_p, "
       "@sample_min_p and @sample_repetition_penalty",
       "num_beams repeat_last_n samplers mirostat typical_p presence_penalty "
       "frequency_penalty tfs beam"},
      {"here: generate --chat TEXT and @sample_interactive use the chat template; "
       "/system TEXT, typed there, gives instructions",
       "chat sys system_prompt instruct jinja"},
      {"here: --verbose; @chaos and @trace_comm for the curious; a run always says what "
       "it does",
       "debug log_level log_level_replica verbosity logging_first_step loglevel"},
      {"here: --quiet",
       "no_progress_bar enable_progress_bar disable_tqdm silent log_disable no_log"},
      {"here: NO_COLOR=1 in the environment", "no_color color colour"},
      {"here: zero_launch plan, which says whether it fits; --print-config prints "
       "settings",
       "dry_run dryrun check plan auto_find_batch_size autotuning estimate_memory"},
      {"here: --config FILE, a file in TOML",
       "cfg config_file conf c params_file yaml settings user_dir args"},
      {"here: zero_launch --version", "version"},
      {"not here: open the page with a browser", "open show browser serve view"},
  };
  return table;
}

}  // namespace zero::launcher
