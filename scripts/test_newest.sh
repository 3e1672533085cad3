#!/usr/bin/env bash
# Runs the tests with the newest release of every dependency, in an environment of its own, made again each time.
# transformers may be newer than pyproject.toml allows: the range grows once this passes. torch stays as pinned, since
# an open range fetches gigabytes of GPU packages on Linux. Usage: bash scripts/test_newest.sh [pytest arguments].
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf .venv-newest
"${PYTHON:-python3}" -m venv .venv-newest
pip="$PWD/.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --no-compile"
$pip --upgrade pip
torch=$(grep '^torch==' constraints.txt)
$pip --retries 0 --timeout 15 --index-url https://download.pytorch.org/whl/cpu "$torch" 2>/dev/null || $pip "$torch"
$pip --editable ".[test]"
$pip --upgrade transformers
.venv-newest/bin/python -m pip list

.venv-newest/bin/python -m pytest --numprocesses logical --maxprocesses 4 --dist worksteal "$@"
