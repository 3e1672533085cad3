#!/usr/bin/env bash
# Installs the project with its test extra and runs the tests in one process per core, at most four.
# Usage: bash scripts/test.sh [pytest arguments].
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/environment.sh test ""

.venv/bin/python -m pytest --numprocesses logical --maxprocesses 4 --dist worksteal "$@"
