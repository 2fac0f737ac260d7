# The image of scripts/image.sh, by the same steps. Its RUN commands have run on a bare Debian (tests/e2e/image_full.py); no Docker daemon has built it.
#
#   docker build -t dt .
#   docker run --rm -v $PWD:/mnt -w /mnt dt dtrun train m.dtx --data data
FROM debian:12 AS build
WORKDIR /src
COPY . .
RUN scripts/install.sh libopenmpi-dev && rm -rf build && cmake --preset release && cmake --build build --target dtc dtrun dt_mpi_openmpi && \
    strip build/dtrun build/libdt_mpi_openmpi.so

FROM debian:12-slim
# mpirun reaches other machines by ssh. The MPI operator of Kubernetes gives each job a key of its own, and machines names that nobody has seen before.
RUN apt-get update -q && \
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        zlib1g libminizip1 libpng16-16 libjpeg62-turbo libutf8proc2 libcjson1 libnettle8 libprotobuf-c1 openmpi-bin openssh-client openssh-server libzmq5 && \
    rm -rf /var/lib/apt/lists/* && \
    mkdir -p /run/sshd && rm -f /etc/ssh/ssh_host_* && \
    printf 'Host *\n    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n' >/etc/ssh/ssh_config.d/mpi.conf && \
    printf 'StrictModes no\n' >/etc/ssh/sshd_config.d/mpi.conf
COPY --from=build /src/build/dtrun /usr/local/bin/
COPY --from=build /src/build/libdt_mpi_openmpi.so /usr/local/lib/
COPY --from=build /src/LICENSE /usr/local/share/dt/
