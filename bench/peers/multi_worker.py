"""multi_worker: how long one training step of examples/fashion_cnn.dt takes in TensorFlow's MultiWorkerMirroredStrategy, or in PyTorch's
DistributedDataParallel over Gloo, whose workers are processes of this machine, a core each, that reduce over loopback.

The same model, loss and optimizer at the same global batch, each worker with its share of it in memory. TensorFlow's step is a tf.function around
strategy.run, PyTorch's is eager, in the layout that is faster on CPUs. It is timed in the first worker from call to the loss being read.

    bench/peers/.venv/bin/python bench/peers/multi_worker.py [--peer tensorflow|torch] [--threads 2] [--batch 128] [--steps 50]

starts as many workers as threads.

Prints the JSON line of cnn_step.py.
"""
import json
import os
import socket
import subprocess
import sys

import harness


def free_ports(n):
    """Of loopback. They are free a moment later too, or the run fails and says so."""
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def share_of(arguments, worker):
    """The worker's rows of each batch."""
    rows = slice(worker * arguments.batch // arguments.threads, (worker + 1) * arguments.batch // arguments.threads)
    return [(image[rows], label[rows]) for image, label in harness.read_batches(arguments.data, arguments.batch)]


def torch_step(arguments, worker):
    """(version, step)"""
    import torch
    from torch import nn

    import cnn_step

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo", rank=worker, world_size=arguments.threads)
    model = nn.Sequential(nn.Conv2d(1, cnn_step.FILTERS[0], cnn_step.KERNEL), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(*cnn_step.FILTERS, cnn_step.KERNEL), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Dropout(cnn_step.DROPOUT), nn.Linear(5 * 5 * cnn_step.FILTERS[1], cnn_step.CLASSES))
    model = nn.parallel.DistributedDataParallel(model.to(memory_format=torch.channels_last))
    optimizer = torch.optim.Adam(model.parameters(), lr=cnn_step.LEARNING_RATE, eps=1e-7, fused=True)
    tensors = [(torch.from_numpy(image.copy()), torch.from_numpy(label.copy()).long()) for image, label in share_of(arguments, worker)]

    def step(i):
        image, label = tensors[i]
        x = (image[:, None].float() / 255).contiguous(memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(model(x), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return torch.__version__, step


def tensorflow_step(arguments, worker):
    """(version, step)"""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras
    import tensorflow as tf

    import cnn_step
    import tensorflow_cnn

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    keras.utils.set_random_seed(0)
    with strategy.scope():
        p = tensorflow_cnn.parameters(tf)
        moments = {n: (tf.Variable(tf.zeros(value.shape)), tf.Variable(tf.zeros(value.shape))) for n, value in p.items()}
        count = tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    def one_replica(image, label):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tensorflow_cnn.losses(tf, p, image, label)) / arguments.batch
        gradients = tape.gradient(loss, list(p.values()))
        gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        count.assign_add(1)
        rate = cnn_step.LEARNING_RATE * tf.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        for value, (m, v), g in zip(p.values(), moments.values(), gradients):
            m.assign_add((g - m) * (1 - 0.9))
            v.assign_add((g * g - v) * (1 - 0.999))
            value.assign_sub(rate * m / (tf.sqrt(v) + 1e-7))
        return loss

    @tf.function
    def train(image, label):
        return strategy.reduce("sum", strategy.run(one_replica, args=(image, label)), axis=None)

    tensors = [(tf.constant(image), tf.constant(label)) for image, label in share_of(arguments, worker)]
    return tf.__version__, lambda i: float(train(*tensors[i]))


def work(arguments, worker):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[worker]})
    version, step = {"tensorflow": tensorflow_step, "torch": torch_step}[arguments.peer](arguments, worker)
    measured = harness.measure(step, arguments.steps)
    if worker == 0:
        harness.print_line(arguments.peer, version, "fashion_cnn", arguments, measured)


def main():
    parser = harness.parser(__doc__, batch=128, threads=2)
    parser.add_argument("--peer", choices=["tensorflow", "torch"], default="tensorflow")
    arguments = parser.parse_args()
    worker = os.environ.get("MULTI_WORKER")
    if worker is not None:
        work(arguments, int(worker))
        return
    addresses = [f"127.0.0.1:{port}" for port in free_ports(arguments.threads)]
    workers = []
    for index in range(arguments.threads):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "MULTI_WORKER": str(index)}
        if arguments.peer == "tensorflow":
            environment["TF_CONFIG"] = json.dumps(config)
        else:
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": addresses[0].split(":")[1], "GLOO_SOCKET_IFNAME": "lo"}
        workers.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env=environment, stdout=None if index == 0 else subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL if index > 0 else None))
    sys.exit(max(one.wait() for one in workers))


if __name__ == "__main__":
    main()
