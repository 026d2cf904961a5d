#!/bin/sh
# Installs Debian packages as root or through sudo; where that is not possible, says what is missing and fails.
# usage: apt.sh WHAT PACKAGE...   WHAT: what is missing, in words. PACKAGE: a name, or names in order of preference, a|b.
set -eu
what=$1
shift
log=build/setup.log
mkdir -p build

fail() {
    echo "Turnscope needs $what: $1" >&2
    exit 1
}

names=$(echo "$*" | sed 's/[^ ]*|//g')
command -v apt-get >/dev/null ||
    fail "install it with this system's package manager (Debian calls it $names), then run the same command again."
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=sudo
else
    fail "run 'apt-get install $names' as root, then run the same command again."
fi

apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1
}

first_known() {
    for name in $(echo "$1" | tr '|' ' '); do
        if apt-cache show "$name" >/dev/null 2>&1; then
            break
        fi
    done
    echo "$name"
}

echo "Installing $what with apt-get (about a minute)"
apt update || echo "  apt-get update reported errors (they are in $log); going on with the package lists that are here"
packages=
for choice in "$@"; do
    packages="$packages $(first_known "$choice")"
done
# shellcheck disable=SC2086 # one word per package
apt install --yes --no-install-recommends $packages ||
    fail "'apt-get install$packages' failed, and its output is in $log; mend that, then run the same command again."
