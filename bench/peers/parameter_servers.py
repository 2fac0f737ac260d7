"""parameter_servers: how many steps of examples/fashion_cnn.dt a second TensorFlow's ParameterServerStrategy takes, whose coordinator, workers and servers
are processes of this machine that talk over loopback.

The same model, loss and optimizer (Adam, whose slots lie with their variables on the servers). A step is a closure that ClusterCoordinator gives to
whichever worker is free: forward, backward and update of one batch, from the worker's own data set in memory. A worker and a server share each core.
It is timed from the first to the last of the steps, after some that are not.

    bench/peers/.venv/bin/python bench/peers/parameter_servers.py [--threads 2] [--batch 64] [--steps 200]

starts as many workers and as many servers as threads.

Prints one JSON object: {"peer": "tensorflow", "version": "2.21.0", "model": "fashion_cnn", "batch": 64, "workers": 2, "servers": 2, "steps": 200,
"steps_per_second": …, "last_loss": …}
"""
import json
import os
import subprocess
import sys
import time

import harness
from multi_worker import free_ports

N_WARMUP = 40  # each worker traces the function


def hold_to_core(index):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[index % len(cores)]})


def import_tensorflow():
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    return tf


def serve(cluster, job, index):
    """A worker or a server, until it is killed."""
    hold_to_core(index)
    tf = import_tensorflow()
    # With as many threads as it has cores, one, it waits for ever: TensorFlow's guide asks for one more than there are workers.
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=len(cluster["worker"]) + 2)
    tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index, protocol="grpc", config=config).join()


def build(tf, strategy):
    """A closure's function of an iterator over batches, which returns the loss."""
    import cnn_step
    import tensorflow_cnn

    tf.random.set_seed(0)
    with strategy.scope():
        p = tensorflow_cnn.parameters(tf)
        moments = {}
        for n, value in p.items():
            with strategy.extended.colocate_vars_with(value):
                moments[n] = tf.Variable(tf.zeros(value.shape)), tf.Variable(tf.zeros(value.shape))
        count = tf.Variable(0.0)

    @tf.function
    def step(iterator):
        image, label = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tensorflow_cnn.losses(tf, p, image, label))
        gradients = tape.gradient(loss, list(p.values()))
        steps = count.assign_add(1)
        powers = 0.9**steps, 0.999**steps
        for value, (m, v), g in zip(p.values(), moments.values(), gradients):
            with tf.device(value.device):  # where the slots are too, as an optimizer of TensorFlow's has it
                tf.raw_ops.ResourceApplyAdam(var=value.handle, m=m.handle, v=v.handle, beta1_power=powers[0], beta2_power=powers[1], lr=cnn_step.LEARNING_RATE,
                                             beta1=0.9, beta2=0.999, epsilon=1e-7, grad=g)
        return loss

    return step


def coordinate(arguments, cluster):
    tf = import_tensorflow()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    step = build(tf, strategy)
    batches = harness.read_batches(arguments.data, arguments.batch)

    def data_set():
        both = tuple(tf.stack([batch[i] for batch in batches]) for i in (0, 1))
        return tf.data.Dataset.from_tensor_slices(both).repeat().prefetch(2)

    iterator = iter(coordinator.create_per_worker_dataset(data_set))

    for _ in range(N_WARMUP):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()

    start = time.perf_counter()
    for _ in range(arguments.steps):
        last = coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    seconds = time.perf_counter() - start
    print(json.dumps({"peer": "tensorflow", "version": tf.__version__, "model": "fashion_cnn", "batch": arguments.batch, "workers": arguments.threads,
                      "servers": arguments.threads, "steps": arguments.steps, "steps_per_second": round(arguments.steps / seconds, 2),
                      "last_loss": round(float(last.fetch()), 5)}), flush=True)


def main():
    parser = harness.parser(__doc__, batch=64, threads=2)
    parser.set_defaults(steps=200)
    arguments = parser.parse_args()
    role = os.environ.get("PARAMETER_SERVERS_ROLE")
    if role is not None:
        job, index = role.split()
        serve(json.loads(os.environ["PARAMETER_SERVERS_CLUSTER"]), job, int(index))
        return
    harness.hold_to_cores(parser, arguments.threads)
    ports = [f"127.0.0.1:{port}" for port in free_ports(2 * arguments.threads + 1)]
    cluster = {"worker": ports[:arguments.threads], "ps": ports[arguments.threads:-1], "chief": ports[-1:]}
    others = [subprocess.Popen([sys.executable, __file__], stdout=subprocess.DEVNULL, stderr=None,
                               env={**os.environ, "PARAMETER_SERVERS_ROLE": f"{job} {index}", "PARAMETER_SERVERS_CLUSTER": json.dumps(cluster)})
              for job in ("ps", "worker") for index in range(arguments.threads)]
    try:
        coordinate(arguments, cluster)
        sys.stdout.flush()
    finally:
        for one in others:
            one.kill()
            one.wait()
    os._exit(0)  # pylint: disable=protected-access  # the coordinator's threads would wait for workers that are gone


if __name__ == "__main__":
    main()
