# Creates the virtual environment .venv and installs this project into it; does nothing if that is already done.
# Sourced by quickstart.sh and test.sh as `. scripts/environment.sh EXTRA GPU`: EXTRA is an extra of pyproject.toml or
# empty; GPU is "yes" to install PyTorch with its GPU packages.

extra=$1
gpu=$2

# pip leaves compilation to Python (see install), and each process would compile everything again.
unset PYTHONDONTWRITEBYTECODE

fail() {
    echo "error: $*" >&2
    exit 2
}

find_python() {
    [ -n "${PYTHON:-}" ] && set -- "$PYTHON" || set -- python3 python3.13 python3.12 python3.11 python3.10 python
    for name in "$@"; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

install() {
    # The GPU build has the same version number as the CPU build, so pip would not replace it.
    if [ "$gpu" = yes ] && .venv/bin/python -m pip show torch 2>/dev/null | grep -q '^Version: .*+cpu'; then
        .venv/bin/python -m pip uninstall --quiet --yes torch
    fi
    # The pip that comes with Python may be years old, and takes more than twice as long to choose versions.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip 2>/dev/null || true
    # Python compiles what is imported, a fifth of all files; pip would compile all of them.
    # The CPU build of PyTorch is a tenth of the size of the GPU build that PyPI has for Linux.
    if [ "$gpu" != yes ] && [ "$(uname -s)" = Linux ]; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --retries 0 \
            --timeout 15 --index-url https://download.pytorch.org/whl/cpu --constraint constraints.txt torch \
            2>/dev/null ||
            echo "No CPU-only build of PyTorch can be reached; using the one from the package index."
    fi
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt \
        --editable ".${extra:+[$extra]}"
}

if [ ! -x .venv/bin/python ]; then
    python=$(find_python) || fail "Python 3.10 or newer is needed. Install it, or name it: PYTHON=/path/to/python3"
    echo "Creating .venv with $("$python" --version)"
    "$python" -m venv .venv || {
        rm -rf .venv
        fail "$python cannot create a virtual environment. On Debian or Ubuntu: apt install python3-venv"
    }
fi

# An interrupted setup leaves an environment without pip, and some tools create one without it.
.venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null 2>&1 ||
    fail "The environment in .venv is broken. Delete it (rm -r .venv) and run this command again."

stamp=.venv/installed${extra:+-$extra}${gpu:+-gpu}
state="$PWD $(cat pyproject.toml constraints.txt | cksum)"
installed=$(cat "$stamp" 2>/dev/null || true)
# A larger extra includes the smaller ones.
larger=
[ "$gpu" = yes ] || case $extra in "") larger="test dev" ;; test) larger=dev ;; esac
for other in $larger; do
    [ "$installed" = "$state" ] || installed=$(cat ".venv/installed-$other" 2>/dev/null || true)
done
if [ "$installed" != "$state" ]; then
    echo "Installing into .venv; this happens once and takes a few minutes"
    install || fail "The installation failed; the lines above say why. Running this command again resumes it."
    echo "$state" >"$stamp"
fi
