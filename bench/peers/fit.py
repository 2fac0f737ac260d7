"""fit: how many steps a second Keras trains on arrays: the networks of examples/perceptron.dt and examples/fashion_cnn.dt by `model.fit`, on TensorFlow,
in the second of two epochs over the first rows of Fashion-MNIST. The process is held to as many cores as it has threads.

    bench/peers/.venv/bin/python bench/peers/fit.py [--model perceptron|cnn] [--batch 32] [--threads 1] [--steps 500]

Prints {"peer": "keras", "version": …, "steps_per_second": …}.
"""

import json
import os
import time

import harness


def layers(keras, model):
    if model == "perceptron":
        return [keras.layers.Flatten(), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
    import cnn_step

    convolution = [keras.layers.Reshape((28, 28, 1))]
    for filters in cnn_step.FILTERS:
        convolution += [keras.layers.Conv2D(filters, cnn_step.KERNEL, activation="relu"), keras.layers.MaxPooling2D(2)]
    return [*convolution, keras.layers.Flatten(), keras.layers.Dropout(cnn_step.DROPOUT), keras.layers.Dense(10)]


def main():
    parser = harness.parser(__doc__, batch=32, threads=1)
    parser.add_argument("--model", choices=("perceptron", "cnn"), default="perceptron")
    arguments = parser.parse_args()
    harness.hold_to_cores(parser, arguments.threads)
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras
    import tensorflow

    tensorflow.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    image, label = (array[: arguments.batch * arguments.steps] for array in harness.read_training_set(arguments.data))
    model = keras.Sequential([keras.Input((28, 28)), keras.layers.Rescaling(1 / 255), *layers(keras, arguments.model)])
    optimizer = keras.optimizers.SGD(0.1) if arguments.model == "perceptron" else keras.optimizers.Adam(1e-3)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    began = []
    watch = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: began.append(time.perf_counter()))
    model.fit(image, label, batch_size=arguments.batch, epochs=2, shuffle=True, verbose=0, callbacks=[watch])
    steps = (len(image) + arguments.batch - 1) // arguments.batch
    print(json.dumps({"peer": "keras", "version": keras.__version__, "steps_per_second": steps / (time.perf_counter() - began[1])}))


if __name__ == "__main__":
    main()
