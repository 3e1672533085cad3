#!/usr/bin/env bash
# Multi30k, English to German: a model of 2.6M parameters that learns from two others, five hours on two CPU cores.
#
# Two models are trained as in multi30k_best.sh, with different random seeds and half the steps on their own
# translations. As an ensemble, they translate the sources of the training text and the sampled ones. The last run, in
# $OUT/distilled, continues the second model on these translations, and also learns the ensemble's distributions over the
# next token, as soft labels (docs/how_to/distillation.md). Options and variables are as in multi30k_best.sh, except
# --seed.
#
#   bash multi30k_distilled.sh
set -eo pipefail
out=${OUT:-outputs/multi30k_distilled}
run=${HF_VASWANI:-hf-vaswani}
keys=("$@")

train() { $run train "${RECIPE:-multi30k_muon}" --output_dir "$out/$1" "${@:2}" "${keys[@]}"; }
translate() { $run translate "$out/$1" --pairs "$out/$2.jsonl.gz" "${@:3}"; }
steps() { awk "BEGIN { print int($1 * ${SCALE:-1} + 0.5) }"; }
# Averaging over a long stretch stands in for a learning rate that falls. With more text, less dropout than before.
continued=(--dropout 0.2 --lr_scheduler_type constant --learning_rate 0.002 --warmup_steps "$(steps 100)"
    --save_steps 100 --save_total_limit 20)

train backward --reversed true --max_steps "$(steps 2000)" --warmup_steps "$(steps 400)"
translate backward sampled --input "$out/backward" --side target --sample 0.8 --n_best 4
sampled=$out/sampled.jsonl.gz

for seed in 1 2; do
    # One vocabulary for all, as an ensemble needs.
    train "forward_$seed" --seed $seed --text "{own: 1, '$sampled': 1}" --tokenizer.path "$out/backward" \
        --max_steps "$(steps 3600)" --warmup_steps "$(steps 600)"
    own=$out/taught_$seed
    translate "forward_$seed" "taught_$seed" --input "$out/backward" --num_beams 5 --n_best 2
    translate "forward_$seed" "taught_sampled_$seed" --input "$sampled" --num_beams 5 --n_best 2
    train "best_$seed" --seed $seed --start_from "$out/forward_$seed" "${continued[@]}" \
        --text "{own: 5, '$sampled': 5, '$own.jsonl.gz': 1, '$out/taught_sampled_$seed.jsonl.gz': 4}" \
        --max_steps "$(steps 2750)" --average_last 15
done

both=(--ensemble "$out/best_2" --num_beams 5 --n_best 2)
translate best_1 taught --input "$out/backward" "${both[@]}"
translate best_1 taught_sampled --input "$sampled" "${both[@]}"
# From the better of the two on the validation set. When reranking, a length penalty below 1 counters the other model's
# preference for long translations.
train distilled --start_from "$out/best_2" --distill_from "$out/best_1,$out/best_2" --distill_top_k 16 \
    --text "{own: 5, '$sampled': 5, '$out/taught.jsonl.gz': 2, '$out/taught_sampled.jsonl.gz': 8}" \
    "${continued[@]}" --max_steps "$(steps 4000)" --average_last 20 --evaluation.mbr bleu --evaluation.samples 64 \
    --rerank_with "$out/backward" --rerank_beams 16 --rerank_length_penalty 0.8
