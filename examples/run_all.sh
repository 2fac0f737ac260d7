#!/usr/bin/env bash
# Trains every example that trains on its data, and prints a table: program, target, reached, time.
#
#   examples/run_all.sh                     all of them, to their targets: a quarter of an hour on two free cores, of which resnet takes six minutes
#   examples/run_all.sh --quick             a few steps of each, without targets
#   examples/run_all.sh [--quick] gan gpt   these alone
#
# Data, artifacts, logs and checkpoints lie in build/examples, or the folder that DT_EXAMPLES names; data that is there is not made again. Fashion-MNIST
# is Debian's package dataset-fashion-mnist, or in the folder that DT_DATA names. dtc and dtrun are those of PATH, or of the build beside this folder.
set -uo pipefail
programs="perceptron fashion_cnn lstm gru resnet mobilenet vit infonce mixup own_parts gan image_folder gpt bert_mlm"
quick=no
case ${1-} in
    --quick) quick=yes; shift ;;
    -*) sed -n '2,9p' "$0"; exit 2 ;;
esac
for name; do
    [[ " $programs " == *" $name "* ]] || { echo "run_all.sh: there is no example $name; there are: $programs" >&2; exit 2; }
done
wanted=" ${*:-$programs} "
examples=$(cd "$(dirname "$0")" && pwd)
work=${DT_EXAMPLES:-$examples/../build/examples}
fashion=${DT_DATA:-/usr/share/datasets/fashion-mnist}
devices=cpu:$(($(nproc) > 1 ? 2 : 1))
for folder in build bin; do
    [ ! -x "$examples/../$folder/dtrun" ] || PATH=$PATH:$(cd "$examples/../$folder" && pwd)
done
command -v dtc dtrun >/dev/null || { echo "run_all.sh: there is neither build/dtc nor one in PATH: cmake --preset release && cmake --build build" >&2; exit 1; }
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 1
missed=0

# make_data FILE COMMAND...: runs a command that writes FILE, unless it is there.
make_data() {
    [ -e "$1" ] || "${@:2}" >&2
}

# reported LOG STEP.REPORT: what the last whole epoch of the step reported.
reported() {
    sed -n "s/^{\"event\":\"epoch\".*\"step\":\"${2%.*}\".*\"${2#*.}\":\([^,}]*\).*/\1/p" "$1" | tail -n 1
}

line() { printf '%-14s %-32s %-10s %6s\n' "$@"; }

# fail NAME TARGET SINCE: what has gone wrong is at the end of the log.
fail() {
    line "$1" "$2" failed "$(minutes "$3")"
    tail -n 3 "$work/$1.log" >&2
    missed=1
}

minutes() { printf '%d:%02d' $(((SECONDS - $1) / 60)) $(((SECONDS - $1) % 60)); }

# show NAME COMMAND...: what the trained program makes, after its line; nothing where steps are few.
show() {
    [ $quick = yes ] || "${@:2}" 2>>"$work/$1.log" | sed 's/^/    /'
}

# example NAME FOLDER STEP.REPORT COMPARISON NUMBER COMPILE TRAIN: COMPILE and TRAIN are options, split at blanks. Returns whether it was trained.
example() {
    local name=$1 folder=$2 report=$3 comparison=$4 number=$5 begin=$SECONDS reached target="$3 $4 $5"
    local log=$work/$name.log artifact=$work/$name.dtx
    local -a options=(--data "$folder" --replicas 2 --devices "$devices" --log-format json --checkpoint-dir "$work/$name-checkpoints")
    rm -rf "$work/$name-checkpoints"
    if [ $quick = yes ]; then target=- report=train.${report#*.} options+=(--max-steps 3); fi
    # shellcheck disable=SC2086
    if ! dtc compile "$examples/$name.dt" -o "$artifact" $6 >"$log" 2>&1 || ! dtrun train "$artifact" "${options[@]}" $7 >>"$log" 2>&1; then
        fail "$name" "$target" $begin
        return 1
    fi
    reached=$(reported "$log" "$report")
    line "$name" "$target" "$(printf '%.4f' "${reached:-nan}")" "$(minutes $begin)"
    [ $quick = yes ] || awk "BEGIN { exit !(\"$reached\" != \"\" && $reached $comparison $number) }" || missed=1
}

is_wanted() { [[ $wanted == *" $1 "* ]]; }

line program target reached time
if is_wanted perceptron; then example perceptron "$fashion" evaluate.accuracy '>=' 0.865 '' '--epochs 10'; fi
if is_wanted fashion_cnn; then example fashion_cnn "$fashion" evaluate.accuracy '>=' 0.885 '' '--epochs 5'; fi
if is_wanted lstm; then example lstm "$fashion" evaluate.accuracy '>=' 0.85 '' '--epochs 5'; fi
if is_wanted gru; then example gru "$fashion" evaluate.accuracy '>=' 0.84 '' '--epochs 5'; fi
if is_wanted resnet; then example resnet "$fashion" evaluate.accuracy '>=' 0.90 '' '--epochs 3'; fi
if is_wanted mobilenet; then example mobilenet "$fashion" evaluate.accuracy '>=' 0.78 '' '--epochs 1'; fi
if is_wanted vit; then example vit "$fashion" evaluate.accuracy '>=' 0.83 '' '--epochs 5'; fi
if is_wanted infonce; then example infonce "$fashion" evaluate.found '>=' 0.85 '' '--epochs 3'; fi
if is_wanted mixup; then example mixup "$fashion" evaluate.accuracy '>=' 0.84 '' '--epochs 2'; fi
if is_wanted own_parts; then # what least squares leaves of this loss
    make_data "$work/diabetes/numbers.csv" "$examples/diabetes.py" "$work/diabetes"
    example own_parts "$work/diabetes" train.loss '<=' 0.2413 '' '--epochs 200'
fi
if is_wanted gan; then # 2 log 2: what a discriminator reaches that knows nothing
    example gan "$fashion" train.d_loss '<=' 1.386 '' '--epochs 3' &&
        show gan dtrun predict "$work/gan.dtx" --step sample --png "$work/gan-samples" --checkpoint-dir "$work/gan-checkpoints"
fi
if is_wanted image_folder; then
    make_data "$work/images/test" "$examples/image_folder.py" "$work/images" "$fashion"
    example image_folder "$work/images" evaluate.accuracy '>=' 0.88 '' '--epochs 5'
fi
if is_wanted gpt; then
    make_data "$work/kjv/train.txt" "$examples/kjv.py" "$work/kjv"
    example gpt "$work/kjv" evaluate.bits_per_byte '<=' 3.4 '' '--epochs 1' &&
        show gpt dtrun generate "$work/gpt.dtx" --prompt 'In the' --seed 1 --length 200 --checkpoint-dir "$work/gpt-checkpoints"
fi
if is_wanted bert_mlm; then
    make_data "$work/kjv/vocab.txt" "$examples/kjv.py" "$work/kjv"
    example bert_mlm "$work/kjv" evaluate.loss '<=' 6.0 '-D context=128 -D predictions=20' '--epochs 3'
fi
exit $missed
