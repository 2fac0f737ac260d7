#!/usr/bin/env bash
# Installs what is missing to build, test and try the project. docs/dependencies.md says what each is for.
# Debian, and root or sudo: through apt-get. Elsewhere: prints the list and goes on, for the packages may be there under other names.
# With arguments: those packages in addition.
set -euo pipefail

case ${1-} in -*) sed -n '2,4p' "$0"; exit 2 ;; esac

packages=(
    cmake ninja-build gcc libc6-dev
    llvm-19-dev zlib1g-dev libminizip-dev libpng-dev libjpeg62-turbo-dev libutf8proc-dev libcjson-dev nettle-dev libprotobuf-c-dev protobuf-c-compiler
    libzmq3-dev
    libcmocka-dev python3 python3-venv graphviz
    dataset-fashion-mnist
    "$@"
)

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "Not a Debian system. Needed, under Debian's names: ${packages[*]}" >&2
    exit 0
fi

missing=()
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=()
elif command -v sudo >/dev/null; then
    as_root=(sudo)
else
    echo "Missing, and neither root nor sudo to install it: ${missing[*]}" >&2
    exit 1
fi
echo "Installing: ${missing[*]}"

# apt ARGUMENTS...: apt-get, once whoever else is installing something has finished. For one of the two locks it waits by itself.
apt() {
    local tries=60
    until said=$("${as_root[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@" 2>&1 >&3); do
        printf '%s\n' "$said" >&2
        [[ $said == *"Could not get lock"* ]] && [ $((tries -= 1)) -gt 0 ] || return 1
        sleep 10
    done 3>&1
}
apt update
apt install -y --no-install-recommends "${missing[@]}"
