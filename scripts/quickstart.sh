#!/usr/bin/env bash
# From a fresh clone to a trained translator: installs, trains on the built-in corpus, and shows translations of unseen
# sentences with their BLEU. Usage: bash scripts/quickstart.sh [--gpu] [--key value …], with any recipe keys.
set -euo pipefail
cd "$(dirname "$0")/.."

gpu=
if [ "${1:-}" = --gpu ]; then
    gpu=yes
    shift
fi
. scripts/environment.sh "" "$gpu"

.venv/bin/python scripts/train.py scripts/recipes/quickstart.yaml "$@"
echo
echo "Start Python with .venv/bin/python, or activate the environment with: source .venv/bin/activate"
