"""Hints for unknown names: the nearest known one, and what other toolkits call recipe keys and command options.

Names of the model's fields are in `configuration_vaswani.py`, next to the fields.
"""

from collections.abc import Mapping

from ..errors import nearest

# Name here → names elsewhere. A foreign name may be on several lines: what counts is the first line whose own names
# exist in the recipe or command where it was used. "key=value" is a key with its value. Alternatives
# have "or" between them.
OTHER_NAMES = {
    # Text
    "train_source and train_target": "train_src train_tgt train_files trainpref train_prefix data_path",
    "validation_source and validation_target": "valid_source valid_target valid_src valid_tgt dev_source dev_target"
    " validpref validation_files eval_source eval_target valid_sets val_source val_target",
    "test_source and test_target": "test_src test_tgt testpref test_files",
    "train": "train_file train_data train_sets train_dataset",
    "validation": "validation_file valid_file eval_file dev_file valid_data eval_dataset dev valid val",
    "test": "test_file test_data test_dataset",
    "dataset": "dataset_name data_set",
    "dataset_config": "dataset_config_name config_name subset",
    "input": "src source source_file src_file input_file inputs",
    "source": "src source_file src_file src_data input input_file",
    "target": "tgt trg tgt_file target_file tgt_data labels reference references ref",
    "train_source": "src src_data source source_file",
    "text": "source src input sentence",
    "reference": "references ref refs target tgt",
    "hypotheses": "hypothesis hyp hyps system systems",
    "train_target": "tgt trg tgt_data target target_file",
    "source_language": "src_lang source_lang src_language lang_src",
    "target_language": "tgt_lang trg_lang target_lang tgt_language lang_tgt",
    "max_length": "max_source_length max_target_length max_src_len max_tgt_len max_seq_len max_seq_length"
    " src_seq_length max_len model_max_length sequence_length",
    "drop_duplicates": "dedup deduplicate",
    "drop_copies": "skip_copies",
    # Tokenizer
    "vocab_size and target_vocab_size": "src_vocab_size tgt_vocab_size source_vocab_size decoder_vocab_size",
    "vocab_size": "vocabulary_size num_tokens bpe_operations num_merges",
    "type": "tokenizer_type model_type bpe bpe_type",
    "joint": "share_vocab shared_vocab joined_dictionary joint_vocab",
    "lowercase": "do_lower_case lower do_lowercase",
    "min_frequency": "min_freq threshold min_count src_words_min_frequency",
    "tokenizer.path": "tokenizer tokenizer_name tokenizer_path tokenizer_file",
    # Optimization
    "output_dir": "output out output_folder save_dir save_model model_dir checkpoint_dir logging_dir",
    "preset": "arch architecture model_arch model_size",
    "start_from": "model_name_or_path model_name pretrained pretrained_model finetune_from_model restore_file"
    " init_from load_model",
    "distill_from": "teacher_model teacher_path teacher_model_name_or_path",
    "distill_weight": "kd_ratio kd_weight alpha_ce distillation_weight",
    "distill_top_k": "kd_top_k distill_topk",
    "seed": "random_seed manual_seed rng_seed",
    "max_tokens or max_sentences": "batch_size per_device_train_batch_size train_batch_size batch bs mini_batch"
    " minibatch_size per_gpu_train_batch_size eval_batch_size per_device_eval_batch_size",
    "max_tokens": "batch_tokens tokens_per_batch batch_words mini_batch_words max_tokens_per_batch",
    "gradient_accumulation_steps": "accumulation_steps accum_count update_freq grad_accum"
    " batch_multiplier optimizer_delay accumulate_grad_batches",
    "max_steps": "max_update train_steps num_steps steps total_steps num_training_steps updates"
    " max_train_steps after_batches iterations num_updates",
    "num_train_epochs": "max_epoch epochs num_epochs n_epochs epoch after_epochs",
    "max_minutes": "max_time timeout time_limit stop_time_hours",
    "learning_rate": "lr initial_learning_rate peak_lr max_lr initial_lr",
    "lr_scheduler_type": "lr_scheduler scheduler decay_method lr_schedule scheduling",
    "warmup_steps": "lr_warmup learning_rate_warmup num_warmup_steps warmup_ratio"
    " learning_rate_warmup_steps",
    "optim": "optimizer optimizer_name optim_method",
    "adam_beta1 and adam_beta2": "betas",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "adam_epsilon": "epsilon eps",
    "weight_decay": "wd l2",
    "max_grad_norm": "clip_norm clip_grad grad_clip gradient_clip gradient_clipping clip_grad_norm gradient_clip_val",
    "ema_decay": "ema exponential_smoothing moving_average_decay",
    "mixed_precision=fp16": "fp16 half half_precision",
    "mixed_precision=bf16": "bf16",
    "mixed_precision": "precision amp dtype use_amp model_dtype autocast",
    "cpu_threads": "threads num_threads cpus",
    "num_proc": "num_workers preprocessing_num_workers dataloader_num_workers",
    # What is kept, logged and measured
    "logging_steps": "logging_strategy log_interval report_every disp_freq log_freq logging_freq",
    "report_to": "log_with logger tensorboard tensorboard_logdir wandb wandb_project",
    "eval_steps": "eval_strategy evaluation_strategy valid_steps validate_interval validation_freq valid_freq"
    " val_every eval_every validate_interval_updates eval_interval checkpoint_interval validation_steps",
    "save_steps": "save_strategy save_checkpoint_steps save_interval save_interval_updates save_freq"
    " checkpointing_steps checkpoint_every",
    "save_total_limit": "keep_checkpoint keep_last_epochs keep_interval_updates keep_last_ckpts"
    " keep_last_n_checkpoints keep_checkpoints",
    "keep_best": "keep_best_checkpoints keep_best_ckpts save_best",
    "average=best": "load_best_model_at_end",
    "average_last": "average_checkpoints avg_checkpoints checkpoint_avg",
    "metric_for_best_model": "best_checkpoint_metric early_stopping_metric checkpoint_metric",
    "early_stopping_patience": "early_stop",
    "guided_alignment": "guided_alignment_weight lambda_align alignment_loss_weight",
    "overwrite": "overwrite_output_dir force_overwrite reset_optimizer from_scratch",
    # Search
    "num_beams": "beam_size beam beams beam_width",
    "length_penalty": "lenpen len_pen alpha beam_alpha normalize length_penalty_alpha lp",
    "max_new_tokens": "max_target_length max_output_length max_generation_length max_length max_decoding_length"
    " max_decode_length max_len max_tokens",
    "max_length_offset": "max_len_b max_output_length max_target_length max_new_tokens",
    "n_best": "nbest num_return_sequences num_hypotheses nbest_size",
    "sample": "temperature sampling do_sample",
    "samples": "mbr_samples num_samples num_candidates",
    "tokenize": "sacrebleu_tokenize bleu_tokenize bleu_tokenizer eval_bleu_detok tok",
    "batch_tokens": "max_tokens tokens_per_batch batch_words",
    "batch_size": "max_sentences per_device_eval_batch_size eval_batch_size minibatch_size bs batch",
    "output": "out output_file out_file output_dir out_dir outfile",
    "alignments": "alignment print_alignment report_align",
    "dtype": "precision fp16 bf16 half",
    "resume": "continue restart",
    "sentences": "sentence_level",
    "confidence": "paired_bs bootstrap confidence_interval",
    "resamples": "bootstrap_trials paired_bs_n num_samples n_resamples",
}  # fmt: skip
# What is not an option here → names of options for it elsewhere.
ADVICE = {
    "it is a script: python scripts/sweep.py SWEEP.yaml": "sweep grid_search grid-search",
    "several runs are now a script; hf-vaswani recipes lists those of this package": "stages",
    "accelerate launch --num_processes N starts several processes": "world_size distributed_world_size num_processes"
    " nproc_per_node num_gpus n_gpu gpu_ranks num_devices local_rank ddp_backend",
    "a GPU is used if there is one; CUDA_VISIBLE_DEVICES selects another, or none": "device devices gpu gpus gpuid"
    " gpu_id cuda no_cuda use_cuda use_gpu cpu use_cpu",
    "the same command resumes a stopped run from its last checkpoint": "resume_from_checkpoint resume_from"
    " auto_resume resume_training",
}  # fmt: skip
# Command → what it is called elsewhere.
OTHER_COMMANDS = {
    "translate": "generate interactive predict inference infer decode fairseq-generate fairseq-interactive",
    "app": "demo gui ui web",
    "serve": "server api rest http deploy",
    "train": "fit finetune fine-tune fairseq-train",
    "evaluate": "eval test validate validation sacrebleu bleu",
    "tokenizer": "preprocess binarize build_vocab build-vocab tokenize fairseq-preprocess",
    "import or export": "convert converter",
    "average": "average_checkpoints average-checkpoints avg",
    "push": "upload publish",
    "pull": "download fetch",
    "corpus": "data dataset",
}


def hint(name: str, known: Mapping[str, str], others: Mapping[str, str] = OTHER_NAMES) -> str | None:
    """What an unknown name may mean: "here it is 'max_steps'", "did you mean 'output'?", or advice; else `None`.

    Args:
        name: with underscores; a section before it is ignored.
        known: possible names → how each is shown.
        others: a table like `OTHER_NAMES`.
    """
    bare = name.rpartition(".")[2]
    for here, elsewhere in others.items():
        joined = " or " if " or " in here else " and "
        words = [word.partition("=") for word in here.split(joined)]
        if bare in elsewhere.split() and all(key in known for key, _, _ in words):
            return "here it is " + joined.join(f"'{known[key]}{equals}{value}'" for key, equals, value in words)
    for advice, elsewhere in ADVICE.items():
        if bare in elsewhere.split():
            return advice
    close = nearest(name, known)
    return f"did you mean '{known[close]}'?" if close else None
