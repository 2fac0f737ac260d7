#!/usr/bin/env bash
# An image: a root file system of Debian 12 with dtrun, its plugin for MPI, Open MPI and ZeroMQ, for `docker import` and for what else runs root file
# systems. It is tried by chroot: trainings of one process, of two, and with parameter servers, which have to end with the same bytes. The Dockerfile
# takes the same steps.
#
#   scripts/image.sh [FOLDER]     writes dt-VERSION-image.tar.gz into FOLDER, build-image by default, and prints its size, and that without MPI and ZeroMQ
#
# Needs root, a network, and the right to mount and chroot; without, it says on stderr what it misses and exits with 77.
set -euo pipefail
case ${1-} in -*) sed -n '2,8p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."

folder=${1:-build-image}
version=$(sed -n 's/^#define DT_VERSION "\(.*\)"$/\1/p' abi/version.h)
archive=$folder/dt-$version-image.tar.gz

scripts/install.sh libopenmpi-dev debootstrap
base=$(scripts/debian.sh) || { echo "$base" >&2 && exit 77; }
cmake --preset release >/dev/null
cmake --build build --target dtc dtrun dt_mpi_openmpi >/dev/null

mkdir -p "$folder" build-image
root=$(mktemp -d "$PWD/build-image/root-XXXXXX")
work=$(mktemp -d "$PWD/build-image/work-XXXXXX") # what the trainings read and write, in /mnt there
trap 'rm -rf --one-file-system "$root" "$work"' EXIT
cp -a "$base/." "$root"
rm "$root/complete"

# What is mounted is seen by that process alone, and gone when it ends.
inside() {
    unshare --mount --propagation private bash -euc '
        for folder in proc sys dev; do mount --rbind /$folder "$0/$folder"; done
        mount --bind "$1" "$0/mnt"
        exec chroot "$0" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash -euc "cd /mnt && $2"
    ' "$root" "$work" "$*"
}

# install PACKAGE...: without what only people read, and what apt-get can fetch again.
install() {
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    inside "export DEBIAN_FRONTEND=noninteractive
            apt-get update -q && apt-get install -q -y --no-install-recommends $* && apt-get clean" >build-image/install.log 2>&1 ||
        { tail -n 20 build-image/install.log >&2 && return 1; }
    : >"$root/etc/resolv.conf"
    rm -rf "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info}/*
}

pack() { tar -C "$root" --sort=name --numeric-owner --mtime=@0 -c . | gzip -n >"$1"; }
megabytes() { echo "$(($(stat -c %s "$1") / 1000000)) MB"; }

build/dtc compile examples/perceptron.dt -o "$work/m.dtx"
for file in /usr/share/datasets/fashion-mnist/*.gz; do gunzip -c "$file" >"$work/$(basename "$file" .gz)"; done
train="dtrun train m.dtx --replicas 4 --devices cpu:1x1 --max-steps 20"

install zlib1g libminizip1 libpng16-16 libjpeg62-turbo libutf8proc2 libcjson1 libnettle8 libprotobuf-c1
command install -s -D -t "$root/usr/local/bin" build/dtrun
command install -D -m 644 -t "$root/usr/local/share/dt" LICENSE
inside "$train --checkpoint-dir one"
pack "$folder/without.tar.gz"
without=$(megabytes "$folder/without.tar.gz")
rm "$folder/without.tar.gz"

# mpirun reaches other machines by ssh. The MPI operator of Kubernetes gives each job a key of its own, and machines names that nobody has seen before.
install openmpi-bin openssh-client openssh-server libzmq5
command install -s -D -t "$root/usr/local/lib" build/libdt_mpi_openmpi.so
mkdir -p "$root/run/sshd"
rm -f "$root"/etc/ssh/ssh_host_*
printf 'Host *\n    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n' >"$root/etc/ssh/ssh_config.d/mpi.conf"
printf 'StrictModes no\n' >"$root/etc/ssh/sshd_config.d/mpi.conf"
inside "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader --mca oob_tcp_if_include lo -n 2 $train --checkpoint-dir two"
inside "$train --checkpoint-dir served --local-servers 1 --workers 2 --staleness 0"
for other in two served; do cmp "$work/one/step-20/model.safetensors" "$work/$other/step-20/model.safetensors"; done
pack "$archive"
echo "$archive: $(megabytes "$archive") compressed, $without without MPI and ZeroMQ"
