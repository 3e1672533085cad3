#!/usr/bin/env bash
# Knowledge distillation: a student of at most 1 million parameters learns any model's translations, for greedy search.
#
# The teacher translates text into two translations of each sentence, and the student learns from these (Kim & Rush
# 2016). The teacher is any encoder-decoder that hf-vaswani translate loads: a folder, or a Hub id. The text is a file of
# sentences or pairs, or the folder of a run, for its training text. The student, in $OUT, is compared with the teacher
# in scores, speed and size.
#
#   bash distill.sh outputs/quickstart outputs/quickstart
#   bash distill.sh Helsinki-NLP/opus-mt-de-en train.de --train_source train.de --train_target train.en \
#       --validation_source validation.de --validation_target validation.en --test_source test.de --test_target test.en
#
# Options are keys of the recipe of the student. TRANSLATE="--num_beams 8 --n_best 4 --keep_closest bleu" translates in
# another way, with the options of hf-vaswani translate.
set -eo pipefail
usage="usage: bash distill.sh TEACHER TEXT [--key value ...]"
teacher=${1:?$usage} text=${2:?$usage}
out=${OUT:-outputs/distill}
run=${HF_VASWANI:-hf-vaswani}

mkdir -p "$(dirname "$out")"
# shellcheck disable=SC2086 # options are words
$run translate "$teacher" --input "$text" --pairs "$out.jsonl.gz" ${TRANSLATE:---num_beams 5 --n_best 2}
$run train "${RECIPE:-student}" --output_dir "$out" --text "['$out.jsonl.gz']" --compare_with "$teacher" "${@:3}"
