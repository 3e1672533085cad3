#!/usr/bin/env bash
# Little text: a model that also learns from back-translated monolingual text, and at last from the text to trust most.
#
# A recipe's text, in both directions (both_directions: true), trains the first model. In each of ROUNDS rounds, the
# model translates the monolingual texts, and continues on the recipe's text and these pairs, whose sources begin with
# the tag <bt> (Caswell et al. 2019). It then continues on the text of a second recipe, if there is one, TRUSTED: text of
# the kind that is to be translated. Each text is given as FROM:TO=FILE, with the language it is in, and the one into
# which it is translated. The result is the last folder in $OUT.
#
#   bash back_translation.sh all.yaml gn:es=mono.gn es:gn=mono.es --seed 1
#   ROUNDS=3 TRUSTED=news.yaml bash back_translation.sh all.yaml gn:es=mono.gn ay:es=mono.ay
#   TRUSTED=news.yaml bash back_translation.sh all.yaml
#
# Options are recipe keys, for all runs; those of the tokenizer belong into the recipe, as only the first run learns one.
# CONTINUE="--max_steps 3000" has more options of the runs after it. If the sources of the recipe have weights, WEIGHT is
# that of each text. TRANSLATE="--sample 1" translates in another way.
set -eo pipefail
recipe=${1:?usage: bash back_translation.sh RECIPE [FROM:TO=FILE ...] [--key value ...]}
out=${OUT:-outputs/back_translation}
run=${HF_VASWANI:-hf-vaswani}
shift

texts=()
while [[ $# -gt 0 && $1 != --* ]]; do
    [[ $1 == *?:?*=?* ]] || { echo "error: $1 must be FROM:TO=FILE, such as gn:es=mono.gn" >&2; exit 2; }
    texts+=("$1")
    shift
done
keys=("$@")
last=$out/start
# shellcheck disable=SC2086 # options are words
continue_on() {
    $run train "$1" "${keys[@]}" --start_from "$last" --output_dir "$out/$2" "${@:3}" ${CONTINUE:-}
    last=$out/$2
}

$run train "$recipe" "${keys[@]}" --output_dir "$last"
for ((round = 1; round <= (${#texts[@]} ? ${ROUNDS:-2} : 0); round++)); do
    mixture="own: null" number=0
    for text in "${texts[@]}"; do
        file=${text#*=} from=${text%%:*}
        to=${text#*:} to=${to%%=*}
        pairs=$out/round_$round.$((++number)).$to-$from.jsonl.gz
        # shellcheck disable=SC2086 # options are words
        $run translate "$last" --source_language "$from" --target_language "$to" --input "$file" --side target \
            --pairs "$pairs" ${TRANSLATE:---num_beams 4}
        mixture+=", '$pairs': {tag: bt, source_language: $to, target_language: $from${WEIGHT:+, weight: $WEIGHT}}"
    done
    continue_on "$recipe" "round_$round" --text "{$mixture}"
done
[[ -z ${TRUSTED:-} ]] || continue_on "$TRUSTED" trusted
