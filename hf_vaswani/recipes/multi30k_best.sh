#!/usr/bin/env bash
# Multi30k, English to German: the best model from about two hours on two CPU cores, 2.6M parameters.
#
# A model from German to English samples four sources for each target of the training text. A model from English to
# German is trained half on the 29,000 pairs and half on these, and translates the sources of both in two ways each. It
# then continues on a third of each: the pairs, those with sampled sources, and its own translations, at a constant
# rate; the result, in $OUT/best, is the mean of the last 3,000 steps.
#
#   bash multi30k_best.sh --seed 1
#
# Options are recipe keys, for all runs. A command that was stopped resumes, and one that is finished changes nothing: to
# resume, run the script again. SCALE=0.01 takes a hundredth of the steps, for a trial. With one process per core:
#
#   export ACCELERATE_USE_CPU=true HF_VASWANI="torchrun --nproc_per_node 2 -m hf_vaswani"
#   bash multi30k_best.sh --cpu_threads 1 --gradient_accumulation_steps 2
#
# For the text of published results, save the recipe (hf-vaswani recipes multi30k_muon > my.yaml), name its files as in
# the recipe multi30k_tiny, add pre_tokenizer: whitespace and word_boundary: after to its tokenizer and tokenize: none to
# its evaluation, and set RECIPE=my.yaml. docs/results.md says what else was tried.
set -eo pipefail
out=${OUT:-outputs/multi30k_best}
run=${HF_VASWANI:-hf-vaswani}
keys=("$@")

train() { $run train "${RECIPE:-multi30k_muon}" --output_dir "$out/$1" "${@:2}" "${keys[@]}"; }
translate() { $run translate "$out/$1" --pairs "$out/$2.jsonl.gz" "${@:3}"; }
steps() { awk "BEGIN { print int($1 * ${SCALE:-1} + 0.5) }"; }

train backward --reversed true --max_steps "$(steps 2000)" --warmup_steps "$(steps 400)"
translate backward sampled --input "$out/backward" --side target --sample 0.8 --n_best 4

sampled=$out/sampled.jsonl.gz
# With the vocabulary of the first model, which models of other seeds may share and so translate together with this one.
train forward --text "{own: 1, '$sampled': 1}" --tokenizer.path "$out/backward" \
    --max_steps "$(steps 3600)" --warmup_steps "$(steps 600)"
translate forward taught --input "$out/backward" --num_beams 5 --n_best 2
translate forward taught_sampled --input "$sampled" --num_beams 5 --n_best 2

# Averaging over a long stretch stands in for a learning rate that falls. With more text, less dropout than before.
train best --start_from "$out/forward" --dropout 0.2 \
    --text "{own: 5, '$sampled': 5, '$out/taught.jsonl.gz': 1, '$out/taught_sampled.jsonl.gz': 4}" \
    --max_steps "$(steps 5500)" --lr_scheduler_type constant --learning_rate 0.002 --warmup_steps "$(steps 100)" \
    --save_steps 100 --save_total_limit 30 --average_last 30 --evaluation.mbr bleu --evaluation.samples 64
