#include "launcher/settings/foreign_tables.h"

namespace zero::launcher {

const Translations& same_here() {
  static const Translations table = {
      // batch and steps
      {"here: @micro_batch, the samples of one pass of a rank, or @global_batch, those "
       "of a step on all ranks together",
       "batch_size batch bs"},
      {"here: @global_batch, the samples of a step on all ranks together; the number of "
       "accumulated passes is global_batch / (micro_batch * ranks)",
       "gradient_accumulation_steps accumulate_grad_batches update_freq train_batch_size "
       "grad_accum total_batch "
       "grad_accum_steps grad_accumulation_steps global_batch_size "
       "total_batch_size tokens_per_batch rampup_batch_size"},
      {"here: @sample_batch, the texts that are made together", "batch_size batch bs"},
      {"here: @micro_batch, the samples of one kernel pass",
       "per_device_train_batch_size train_micro_batch_size_per_gpu micro_batch_size "
       "per_device_eval_batch_size per_gpu_train_batch_size per_gpu_eval_batch_size "
       "max_sentences batch_size batch_size_valid eval_batch_size batch ubatch_size ub b "
       "mbs"},
      {"here: @steps, the number of updates",
       "max_steps max_update max_iters train_iters num_steps num_train_steps iters "
       "iterations total_steps total_num_update num_iterations lr_decay_iters"},
      {"here: @epochs", "num_train_epochs max_epoch max_epochs num_epochs epoch"},
      {"here: @steps, the number of updates; the banner of a run tells how many make an "
       "epoch",
       "train_samples"},
      // optimizer
      {"here: @lr", "learning_rate l max_lr peak_lr base_lr"},
      {"here: @schedule", "lr_scheduler lr_scheduler_type lr_decay_style scheduler"},
      {"here: @schedule with linear, cosine or wsd", "decay_lr lr_scheduler_kwargs"},
      {"here: @warmup_steps",
       "warmup_updates warmup_iters lr_warmup_iters num_warmup_steps warmup_num_steps"},
      {"here: @warmup_steps, a number of steps",
       "warmup warmup_ratio lr_warmup_fraction warmup_fraction lr_warmup_samples"},
      {"here: @betas", "adam_betas"},
      {"here: @betas, both in one", "adam_beta1 adam_beta2 beta1 beta2 beta"},
      {"here: @eps", "adam_eps adam_epsilon epsilon"},
      {"here: @clip",
       "max_grad_norm gradient_clip_val clip_grad_norm_ gradient_clipping clip_grad "
       "grad_clip clip_norm clip_grad_norm "
       "max_norm"},
      {"here: @weight_decay", "wd adam_weight_decay weight_decay_rate"},
      {"here: @min_lr", "lr_end end_learning_rate min_learning_rate final_lr lr_min"},
      {"here: @optimizer", "optim optim_type opt adafactor use_lion use_8bit_adam"},
      {"here: @max_bad_steps", "logging_nan_inf_filter check_for_nan_in_loss_and_grad"},
      // precision
      {"here: @loss_scale_init, of @dtype fp16",
       "loss_scale fp16_init_scale initial_scale_power init_scale initial_loss_scale"},
      {"here: @loss_scale_window", "fp16_scale_window growth_interval"},
      {"not needed: every overflow halves the scale; see @loss_scale_window",
       "hysteresis consecutive_hysteresis fp16_scale_tolerance"},
      {"here: @loss_scale_min", "min_loss_scale threshold_loss_scale"},
      {"here: @dtype with bf16, fp16 or fp32",
       "fp16 bf16 fp32 mixed_precision precision torch_dtype amp half float16 bfloat16 "
       "compute_dtype param_dtype mp_policy fp16_opt_level half_precision_backend "
       "fp16_backend memory_efficient_fp16 memory_efficient_bf16 fp16_full_eval "
       "bf16_full_eval autocast amp_type amp_params"},
      {"here: @unit 'GLOB: dtype=fp32' for some layers",
       "keep_in_fp32_modules keep_batchnorm_fp32 fp32_modules "
       "mixed_precision_ignored_modules"},
      {"here: @eval_fraction, with 0 for no evaluation",
       "disable_validation no_validation skip_eval"},
      {"here: @reduce_dtype",
       "communication_data_type grad_reduce_in_fp32 fp32_reduce_scatter"},
      {"here: @grad_dtype", "grad_accum_dtype main_grads_dtype"},
      // sharding and memory
      {"here: @shard_over with host, or N neighbours that gather weights from each other",
       "shard_factor sharding_factor hybrid hybrid_shard hsdp mics_shard_size no_shard "
       "zero_hpz_partition_size data_parallel_shard_degree dp_shard dp_replicate "
       "data_parallel_replicate_degree sharded_data_parallel_degree "
       "hybrid_shard_degree"},
      {"here: @recompute with unit, which is the default, or every:2",
       "checkpoint_activations gradient_checkpointing activation_checkpointing "
       "recompute_activations gradient_checkpointing_kwargs "
       "fsdp_activation_checkpointing "
       "recompute_granularity recompute_method recompute_num_layers ac_mode ac "
       "selective_ac_option"},
      {"here: @offload with optimizer, or all for weights, too; on the CPU not needed",
       "cpu_offload offload_optimizer offload_param offload_params offload_policy "
       "move_params_to_cpu fsdp_offload_params fsdp_cpu_offload offload_states ngl "
       "enable_cpu_offload "
       "n_gpu_layers gpu_layers max_memory device_map"},
      {"here: @offload_activations, beside @recompute",
       "cpu_checkpointing activation_offloading partition_activations "
       "sm_activation_offloading"},
      {"here: @wrap_min_numel",
       "min_num_params fsdp_min_num_params min_params_to_wrap "
       "stage3_param_persistence_threshold"},
      {"here: @prefetch, the units that are gathered ahead",
       "forward_prefetch backward_prefetch limit_all_gathers fsdp_backward_prefetch "
       "fsdp_forward_prefetch stage3_prefetch_bucket_size stage3_max_live_parameters "
       "overlap_comm overlap_param_gather stage3_max_reuse_distance"},
      {"here: @grad_sums",
       "offload_grads offload_gradients cpu_offload_gradients grad_offload "
       "move_grads_to_cpu"},
      {"here: @pin", "pin_memory cpu_offload_pin_memory mlock"},
      {"here: @reshard_after_forward", "fsdp_reshard_after_forward"},
      {"here: @accumulate", "accumulate_allreduce_grads_in_fp32 fsdp_no_sync no_sync"},
      {"not needed: what nothing used is found; @unused says what a step does to it",
       "find_unused_parameters ddp_find_unused_parameters "
       "zero_allow_untested_optimizer"},
      // ranks and machine
      {"here: @ranks, or mpirun -n RANKS zero_launch ...",
       "nproc_per_node num_gpus world_size distributed_world_size nproc_per_host"},
      {"here: @ranks, processes that share one model",
       "gpus n_gpu devices nproc np num_processes ntasks num_machines tensor_split ts "
       "split_mode sm"},
      {"here: @hosts FILE, one a line; or your own mpirun or srun over several nodes",
       "nnodes num_nodes nodes hostfile include exclude host machine_rank node_rank"},
      {"not needed: mpirun and srun tell a rank where the others are; @ranks starts them",
       "rdzv_backend rdzv_endpoint rdzv_id rdzv_conf rdzv standalone master_addr "
       "master_port main_process_ip main_process_port local_addr port local_rank "
       "distributed_rank distributed_port distributed_init_method rank rank_id "
       "start_method local_ranks_filter role no_python run_path module launcher no_ssh "
       "ssh_port"},
      {"not here: a run that stopped goes on with the same command; see @time_limit",
       "max_restarts monitor_interval auto_resume autoresume requeue"},
      {"here: @hang_timeout", "ddp_timeout nccl_timeout distributed_timeout_minutes"},
      {"not needed: ranks talk by MPI, and GPUs by NCCL where it is there",
       "backend distributed_backend process_group ddp_comm_hook"},
      {"here: @device cpu", "no_cuda use_cpu cpu"},
      {"here: @device", "tpu use_mps_device mps device_id main_gpu mg gpu tpu_num_cores"},
      {"here: @adam_threads for the optimizer, @threads for the model",
       "num_threads omp_num_threads nthreads threads_batch tb t bind_core_list numa "
       "num_cpu_threads_per_process"},
      {"here: @bind", "bind_cores_to_rank cpu_bind bind_to"},
      {"here: @time_limit, as 23:30:00 or 1-12:00:00",
       "max_time walltime timeout exit_duration_in_mins max_hours stop_time_hours"},
      {"here: @deterministic",
       "use_deterministic_algorithms full_determinism deterministic_mode"},
      {"here: @seed", "data_seed random_seed manual_seed s"},
      // model
      {"here: @init_from, a folder of Hugging Face or of zero",
       "model_name_or_path pretrained from_pretrained init_checkpoint model_path m "
       "finetune_from_model checkpoint_in base_model model_name pretrained_model ckpt "
       "ckpt_path checkpoint hf_repo hf_model load_checkpoint use_checkpoint"},
      {"here: @from DIR, or the folder alone behind the verb",
       "m model_path model_name_or_path checkpoint ckpt ckpt_path model_dir "
       "checkpoint_path run_dir dir path folder hf_repo load"},
      {"here: @preset, with a name that zero_launch presets lists",
       "arch model_type config_name model_size"},
      {"here: @model_config KEY=VALUE, for keys without a setting of their own",
       "config_overrides rope_theta rotary_base rope_freq_base rope_scaling rope_scale "
       "norm_eps rms_norm_eps layer_norm_eps normalization init_method_std "
       "initializer_range tie_word_embeddings activation_fn hidden_act swiglu "
       "untie_embeddings_and_output_weights share_decoder_input_output_embed "
       "position_embedding_type sliding_window"},
      {"not here: a family has the biases of its kind; see @model", "bias"},
      {"here: @seq_len",
       "tokens_per_sample max_seq_length max_seq_len seq_length sequence_length "
       "block_size context context_length ctx_len n_positions max_position_embeddings "
       "ctx_size c cutoff_len n_ctx max_source_positions max_target_positions"},
      {"here: @layers", "n_layer num_layers num_hidden_layers decoder_layers depth"},
      {"here: @dim", "n_embd hidden_size d_model decoder_embed_dim embed_dim width"},
      {"here: @heads", "n_head num_heads num_attention_heads decoder_attention_heads"},
      {"here: @kv_heads",
       "num_key_value_heads n_kv_heads num_query_groups group_query_attention"},
      {"here: @ffn_dim",
       "intermediate_size ffn_hidden_size n_inner decoder_ffn_embed_dim d_ff"},
      {"here: @vocab", "vocab_size padded_vocab_size"},
      {"here: @dropout, one rate for all of them",
       "attention_dropout activation_dropout hidden_dropout resid_pdrop embd_pdrop "
       "attn_pdrop"},
      {"here: @loss_chunk, for a loss with less memory",
       "use_liger_kernel chunked_loss fused_cross_entropy cross_entropy_loss_fusion"},
      {"here: @sync_bn, of models of images; a library's own is "
       "Options::sync_batch_norm with zero::BatchNorm2d",
       "sync_bn_type sync_batchnorm sync_batch_norm syncbatchnorm "
       "convert_sync_batchnorm syncbn"},
      {"here: @freeze; a library's own is Options::ignored",
       "ignored_modules ignored_states ignored_params ignored_parameters"},
      {"here: @freeze", "freeze_layers frozen trainable"},
      {"here: @unfreeze_at STEP:GLOB", "unfreeze unfreeze_step gradual_unfreezing"},
      {"here: @group 'GLOB: lr=0.1x weight_decay=0'",
       "param_groups parameter_groups no_weight_decay layer_decay lr_mult"},
      // data
      {"here: @data",
       "dataset train_file train_data data_path dataset_path input_file input_bin i "
       "train_files training_data data_dir train_subset dataset_dir input file f corpus "
       "text"},
      {"here: @sample_prompts, a file of prompts", "input_file input file f"},
      {"here: @sample_interactive", "i interactive_first instruct"},
      {"here: @data with less of it, or fewer @steps",
       "max_train_samples limit_train_batches max_samples"},
      {"here: @data with files on this machine; nothing is downloaded",
       "dataset_name dataset_config_name streaming hub_dataset"},
      {"here: @eval_data",
       "validation_file valid_data val_data eval_file j valid_subset validation_data "
       "input_val_bin test_data eval_dataset"},
      {"here: @eval_data with files of their own; no part of --data is kept back",
       "validation_split_percentage split val_split train_split test_size"},
      {"here: @shuffle", "shuffle_data no_shuffle dataloader_shuffle"},
      {"here: @tokenizer with a folder that has a tokenizer.json",
       "tokenizer_name tokenizer_type tokenizer_path vocab_file merge_file "
       "use_fast_tokenizer tokenizer_model tokenizer_name_or_path tokenizer_file"},
      {"here: @pack",
       "packing sample_packing packed pack_sequences eval_packing neat_packing"},
      {"here: @train_on",
       "train_on_inputs train_on_input assistant_only_loss completion_only_loss "
       "train_on_source train_on_prompt mask_history roles_to_train mask_prompt"},
      {"here: @too_long",
       "truncation truncation_mode truncation_strategy excess_length_strategy "
       "allow_truncation"},
      {"here: a chat_template.jinja in the folder of @tokenizer",
       "chat_template chat_template_path template chat_template_jinja prompt_template"},
      {"here: @text_key", "dataset_text_field text_column json_keys text_field"},
      {"here: @separator", "append_eod eos eod_token end_of_text"},
      {"here: @token_cache", "dataset_cache_dir preprocessed_data_dir tokenized_path"},
      {"here: nothing; all cores are used", "preprocessing_num_workers dataset_num_proc"},
      // output
      {"here: @out",
       "output_dir out_dir save_dir o log_dir output checkpoint_dir run_dir "
       "default_root_dir checkpoint_out results_dir"},
      {"here: @to", "output out_dir output_dir o outfile output_path dest"},
      {"here: @to FILE", "html page"},
      {"here: @fqn", "tensor tensors key keys name names filter param params layer"},
      {"here: @lora, as r=8,alpha=16,dropout=0.05,targets=q_proj+v_proj",
       "lora_r lora_rank lora_alpha lora_dropout use_lora use_peft peft target_modules "
       "lora_target_modules optim_target_modules modules_to_save use_rslora"},
      {"here: @adapter DIR", "adapter_name_or_path lora_path peft_model lora_model_dir"},
      {"here: @replace", "overwrite force f overwrite_output_dir yes y"},
      {"here: @max_shard_size", "shard_size max_file_size"},
      {"not needed: an export is always safetensors", "format safetensors outtype ftype"},
      {"here: @resume never, in a folder without checkpoints; nothing is written over",
       "overwrite_output_dir overwrite force from_scratch fresh restart"},
      {"here: @save_every",
       "save_steps save_interval save_interval_updates checkpoint_interval "
       "checkpoint_every save_freq checkpointing_steps "
       "no_epoch_checkpoints"},
      {"here: @save async, which is the default",
       "async_save save_async async_checkpoint"},
      {"here: @save_every, with 0 and @save_at_end=false for no checkpoint at all",
       "save_strategy no_save disable_checkpointing enable_checkpointing checkpointing "
       "enable_checkpoint skip_save save_checkpoints"},
      {"here: @save_at_end",
       "save_last no_last_checkpoints no_last_checkpoint save_final save_final_model "
       "save_last_checkpoint save_on_exit"},
      {"not needed: a run saves at its end, and by @save_every",
       "always_save_checkpoint no_save_optim save_safetensors save_on_each_node"},
      {"here: @keep_best, by the loss of evaluations",
       "load_best_model_at_end metric_for_best_model greater_is_better save_best "
       "keep_best_checkpoints best_checkpoint_metric save_only_best save_best_only"},
      {"here: @keep",
       "save_total_limit keep_last_epochs keep_interval_updates keep_last_n_checkpoints "
       "max_checkpoints checkpoints_total_limit"},
      {"here: @log_every",
       "logging_steps log_interval steps_per_print print_every logging_strategy "
       "log_every_n_steps"},
      {"here: @eval_every",
       "eval_steps eval_interval eval_strategy evaluation_strategy validate_interval "
       "validate_interval_updates val_interval val_loss_every val_check_interval "
       "check_val_every_n_epoch"},
      {"here: @eval_samples",
       "eval_iters max_eval_samples val_max_steps eval_batches limit_val_batches"},
      {"here: @out, which goes on from its newest checkpoint; @init_from for weights "
       "alone",
       "restore_file"},
      {"here: @resume",
       "resume_from_checkpoint load resume_from resume_path load_dir "
       "load_ckpt continue ignore_data_skip reset_dataloader"},
      {"here: @resume must with @override, which names what may differ",
       "reset_optimizer reset_lr_scheduler no_load_optim no_load_rng override_args "
       "optimizer_overrides"},
      {"here: @metrics with jsonl, csv or tensorboard",
       "report_to logger wandb tensorboard tensorboard_dir logging_dir wandb_log "
       "tensorboard_logdir log_format csv mlflow comet aim"},
      {"not here: a run is named by its folder; see @out and @metrics",
       "wandb_project wandb_run_name run_name project experiment_name wandb_entity name "
       "run_id tags"},
      {"here: @trace steps=3:5, for chrome://tracing; a run's last line says what limits "
       "it",
       "profile profiler use_pytorch_profiler wall_clock_breakdown flops_profiler "
       "profile_steps nsys prof log_throughput include_tokens_per_second"},
      // text
      {"here: @sample, a text that is continued",
       "prompt p start input_text text generate_prompt"},
      {"here: @sample_prompts, a file of prompts", "prompts prompt_file prompts_file"},
      {"here: @eval_per_token", "per_token_loss token_logprobs prompt_logprobs"},
      {"here: @sample_interactive", "interactive conversation cnv repl"},
      {"here: @sample_log_probs", "log_probs logprobs"},
      {"here: @sample_every", "sample_interval generate_every val_sample_every"},
      {"here: @sample_temperature", "temperature temp"},
      {"here: @sample_greedy, which is the opposite", "do_sample"},
      {"here: @sample_greedy", "greedy"},
      {"here: @sample_count", "num_samples num_return_sequences"},
      {"here: @sample_top_k", "top_k"},
      {"here: @sample_top_p", "top_p"},
      {"here: @sample_min_p", "min_p"},
      {"here: @sample_repetition_penalty", "repetition_penalty repeat_penalty"},
      {"here: @sample_stop",
       "stop_token reverse_prompt r stop_sequence stop_word stop_words"},
      {"here: @sample_ignore_eos", "ignore_eos"},
      {"here: eos_token_id of the folder's generation_config.json", "eos eos_token_id"},
      {"here: @sample_tokens",
       "max_new_tokens max_tokens max_length num_tokens n_predict predict length "
       "num_predict gen_len"},
      {"here: @ranks for processes, @sample_tokens for tokens of a text", "n"},
  };
  return table;
}

}  // namespace zero::launcher
