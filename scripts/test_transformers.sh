#!/usr/bin/env bash
# Runs transformers' own tests of models, configs and generate() on this package's model and, for comparison, on
# MarianMT. Check out the installed release:
#   git clone --depth 1 --branch v5.24.0 https://github.com/huggingface/transformers
# Usage: bash scripts/test_transformers.sh CHECKOUT [pytest arguments].
set -euo pipefail
checkout=$(realpath "${1:?Usage: bash scripts/test_transformers.sh CHECKOUT [pytest arguments]}")
shift
cd "$(dirname "$0")/.."

. scripts/environment.sh test ""

HF_VASWANI_TRANSFORMERS=$checkout .venv/bin/python -m pytest -s -m slow tests/core/test_transformers_tests.py "$@"
