#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. The last lines say what took how long, what was skipped, and why, and what failed.
#
#   scripts/test.sh           everything but the tests labelled `full`
#   scripts/test.sh --full    … those too, and unit tests under Valgrind (tests); static analysis (analysis); then the others again under
#                             AddressSanitizer with UndefinedBehaviorSanitizer (address), and, but for those of the compiler alone, under
#                             ThreadSanitizer (threads); the fuzzers for a minute each (fuzzers); and this script and quickstart.sh on a bare
#                             Debian 12 (bare; as root)
#   scripts/test.sh --full address threads    these parts alone
set -euo pipefail
cd "$(dirname "$0")/.."

full=no
usage() { sed -n '2,9p' "$0"; exit 2; }
case "${1-}" in
    "") ;;
    --full) full=yes ;;
    *) usage ;;
esac
parts=" ${*:2} " # that were named
for part in "${@:2}"; do
    case $part in tests | analysis | address | threads | fuzzers | bare) ;; *) usage ;; esac
done

if [ $full = no ]; then
    scripts/install.sh g++ unzip minisign help2man pkg-config libopenmpi-dev openmpi-bin python3-dev
else
    scripts/install.sh g++ unzip minisign help2man pkg-config libopenmpi-dev openmpi-bin libmpich-dev mpich python3-dev libzstd-dev xz-utils binutils debootstrap clang \
        slurmctld slurmd slurm-client munge iproute2 bible-kjv clang-tidy-19 cppcheck valgrind gcc-aarch64-linux-gnu qemu-user
    scripts/install.sh "libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev" # the fuzzers' part of clang
fi

# MPIs look localhost up all the time. A Debian of debootstrap has no file that says it, and a name server may take seconds.
[ -e /etc/hosts ] || [ "$(id -u)" != 0 ] || echo "127.0.0.1 localhost $(uname -n)" >/etc/hosts

# The tests compare with NumPy and read checkpoints with safetensors, and those of the module dt are pytest's: all from PyPI, in an environment of the
# project's own.
python=$PWD/.venv/bin/python
if ! "$python" -c 'import numpy, pytest, safetensors, tqdm' 2>/dev/null; then
    rm -rf .venv
    python3 -m venv .venv
    "$python" -m pip install --quiet --disable-pip-version-check numpy pytest safetensors tqdm
fi
echo "$PWD/build/python" >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dt_build.pth" # `import dt` is that of the build

# What reads and runs ONNX models.
[ $full = no ] || "$python" -c 'import onnx, onnxruntime' 2>/dev/null || "$python" -m pip install --quiet --disable-pip-version-check onnx onnxruntime

# The third family of MPIs that dtrun can run with has no package in Debian 12.
[ $full = no ] || [ -e .venv/bin/mpicc_abi ] || "$python" -m pip install --quiet --disable-pip-version-check 'mpich>=5'

# NVRTC compiles what is generated for GPUs: the system's, a toolkit's, or else PyPI's. Without any its tests are skipped.
if [ -z "${DT_NVRTC-}" ] && ! ldconfig -p | grep -q 'libnvrtc\.so\.1[23]' && ! ls /usr/local/cuda/lib64/libnvrtc.so.1[23] >/dev/null 2>&1; then
    "$python" -m pip install --quiet --disable-pip-version-check nvidia-cuda-nvrtc || echo "no NVRTC: code for GPUs is not compiled"
    DT_NVRTC=$(find "$PWD/.venv" -name 'libnvrtc.so.1[23]' | head -1)
    [ -z "$DT_NVRTC" ] || export DT_NVRTC
fi

times=()   # a line for each stage
results=() # what CTest wrote of each
failed=()

# stage NAME COMMAND...: runs a command and remembers how it ended, and when. 77 is for what this machine cannot do.
# `set -e` does not hold within such a command: each of its steps must be joined to the next by &&.
stage() {
    local name=$1 begin=$SECONDS code=0 outcome=passed why=
    shift
    printf '\n==== %s\n' "$name"
    "$@" || code=$?
    case $code in
    0) ;;
    77) outcome=skipped ;;
    *) outcome=FAILED failed+=("$name") ;;
    esac
    times+=("$(printf '%3d:%02d  %-7s  %s' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)) $outcome "$name$why")")
}

# part NAME STAGE...: a stage of --full, unless other parts were named.
part() { [[ $parts != "  " && $parts != *" $1 "* ]] || stage "${@:2}"; }

# check PRESET CTEST-ARGUMENTS...: builds, and runs tests.
check() {
    local preset=$1 folder=build-$1
    shift
    [ "$preset" != release ] || folder=build
    rm -f "$folder/tests.xml"
    results+=("$folder/tests.xml")
    cmake --preset "$preset" -DDT_PYTHON="$python" >/dev/null &&
        cmake --build "$folder" &&
        ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" --output-junit tests.xml --test-output-size-passed 1000000 "$@"
}

# Both commands of the README, the one that installs less first.
bare() {
    local code=0
    scripts/bare.sh './scripts/quickstart.sh 1 && ./scripts/test.sh' | tee build/bare.log || code=$?
    [ $code -ne 77 ] || why=": $(tail -n 1 build/bare.log)"
    return $code
}

if [ $full = no ]; then
    stage "tests" check release -LE full
else
    # All of the emulation of GPUs is run once, with the sanitizer that sees most in it: ThreadSanitizer would see nothing in code of one thread.
    emulation='^ops\.cuda_.*full$'
    part tests "tests" check release -E "$emulation"
    part analysis "static analysis" scripts/analyze.sh
    part address "tests, address and undefined behaviour" check asan -E '^([^o].*|ops\.([^c].*|c[^u].*))_full$'
    # Nor would it in tests of the compiler alone.
    part threads "tests, threads" check tsan -LE full -E '^(ops|lit)\.|^e2e\.(plan_text|language_grammar|mutated_programs|diagnostics|convolutions|bench_.*)$'
    part fuzzers "fuzzers" check fuzz
    part bare "on a bare Debian" bare
fi

printf '\n'
printf '%s\n' "${times[@]}"
python3 tests/tools/skips.py "${results[@]}" || failed+=("tests that were skipped and should not be")
[ ${#failed[@]} -eq 0 ] || printf 'FAILED: %s\n' "${failed[@]}"
[ ${#failed[@]} -eq 0 ]
