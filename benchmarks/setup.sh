#!/bin/sh
# Creates one venv for each framework, at the exact versions in pins/.
#
#   ./setup.sh VENVS_DIR [NAME ...]
#
# PYTHON            the interpreter to use (default: python3.11)
# SYMFONIC_SOURCE   a checkout, wheel or requirement to install into the venv
#                   "symfonic" (default: the checkout that this file is in)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3.11}
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
venvs=$1
shift
mkdir -p "$venvs"

if [ $# -eq 0 ]; then
    for file in "$here"/pins/*.txt; do
        set -- "$@" "$(basename "$file" .txt)"
    done
fi

for name in "$@"; do
    echo "== $name"
    "$python" -m venv --clear "$venvs/$name"
    pip="$venvs/$name/bin/python -m pip --disable-pip-version-check --quiet install"
    if [ -s "$here/pins/$name.txt" ]; then
        $pip --requirement "$here/pins/$name.txt"
    fi
    if [ "$name" = symfonic ]; then
        $pip "${SYMFONIC_SOURCE:-$here/..}"
    fi
done
