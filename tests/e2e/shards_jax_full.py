"""A model split over 2 and 4 shards trains as JAX trains it whose `jit` splits the same parameters over four devices (XLA's on the CPU): from the same initial
values, in f32, by plain gradient descent without dropout, ten losses within 1e-5, and weights within 1e-5 of the largest. The rows of the vocabulary, which is
looked up in and scored against, no number of shards divides: JAX has it whole.

Runs itself once more in the environment of bench/peers, where JAX is."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
STEPS, BATCH, LENGTH, WIDTH, HEADS, LAYERS, ROWS, RATE, NEAR = 10, 16, 12, 32, 4, 2, 27, 0.1, 1e-5

PROGRAM = f"""
use nn, losses, optimizers
option shards = 1
mesh model = shards

data train_set = npy("x.npy", "y.npy", "i.npy") | batch({BATCH})

layer attention(x: f32[B, T, C], heads: int) {{
    q, k, v = split(dense(x, units: 3 * C, shard: columns, of: 3), 3, axis: -1)
    head = fn(t) => transpose(reshape(t, [B, T, heads, C // heads]), [0, 2, 1, 3])
    y = scaled_dot_product_attention(head(q), head(k), head(v), causal: true)
    return dense(reshape(transpose(y, [0, 2, 1, 3]), [B, T, C]), units: C, shard: rows)
}}

layer block(x: f32[B, T, C]) {{
    x = x + attention(x, heads: {HEADS})
    return x + dense(tanh(dense(x, units: 4 * C, shard: columns)), units: C, shard: rows)
}}

model Net(x: f32[B, {LENGTH}, {WIDTH}], i: i32[B, {LENGTH}]) {{
    param table: f32[{ROWS}, {WIDTH}] = normal(stddev: 0.3), shard: 0
    x = x + table[i]
    for n in 0..{LAYERS} {{ x = block(x) }}
    return x
}}

step train(x: f32[B, {LENGTH}, {WIDTH}], y: f32[B, {LENGTH}, {WIDTH}], i: i32[B, {LENGTH}]) from train_set {{
    found = Net(x, i)
    loss = mean(square(found - y), axis: [1, 2]) + mean(sparse_categorical_crossentropy(i, found @ Net.table.T), axis: 1)
    minimize(loss, sgd(learning_rate: {RATE}))
    report loss: mean(loss)
}}
"""


def tensors(path):
    """{path: array} of a .safetensors file of f32."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {name: np.frombuffer(data[start:], np.float32)[slice(*(at // 4 for at in one["data_offsets"]))].reshape(one["shape"])
            for name, one in header.items() if name != "__metadata__"}


def train_in_jax(folder):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices("cpu")), ("model",))
    splits = {"attention/dense/kernel": P(None, "model"), "attention/dense/bias": P("model"), "attention/dense_1/kernel": P("model", None),
              "dense/kernel": P(None, "model"), "dense/bias": P("model"), "dense_1/kernel": P("model", None)}

    def split_of(path):
        return splits.get(path.split("/", 2)[-1], P())

    def block(p, name, x):
        b, t, c = x.shape
        q, k, v = jnp.split(x @ p[f"{name}/attention/dense/kernel"] + p[f"{name}/attention/dense/bias"], 3, axis=-1)
        q, k, v = (u.reshape(b, t, HEADS, c // HEADS).transpose(0, 2, 1, 3) for u in (q, k, v))
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), q @ k.transpose(0, 1, 3, 2) / np.sqrt(c // HEADS), -1e9)
        y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(b, t, c)
        x = x + y @ p[f"{name}/attention/dense_1/kernel"] + p[f"{name}/attention/dense_1/bias"]
        h = jnp.tanh(x @ p[f"{name}/dense/kernel"] + p[f"{name}/dense/bias"])
        return x + h @ p[f"{name}/dense_1/kernel"] + p[f"{name}/dense_1/bias"]

    def loss_of(p, x, y, i):
        x = x + p["Net/table"][i]
        for n in range(LAYERS):
            x = block(p, "Net/block" + (f"_{n}" if n else ""), x)
        scores = jax.nn.log_softmax(x @ p["Net/table"].T)
        return jnp.mean(jnp.square(x - y)) - jnp.mean(jnp.take_along_axis(scores, i[:, :, None], axis=2))

    @jax.jit
    def step(p, x, y, i):
        loss, gradients = jax.value_and_grad(loss_of)(p, x, y, i)
        return loss, {name: jax.lax.with_sharding_constraint(p[name] - RATE * g, NamedSharding(mesh, split_of(name))) for name, g in gradients.items()}

    jax.config.update("jax_default_matmul_precision", "highest")
    initial = tensors(folder / "initial.safetensors")
    p = {name: jax.device_put(value, NamedSharding(mesh, split_of(name))) for name, value in initial.items()}
    (x, y, i), losses = (np.load(folder / f"{name}.npy") for name in "xyi"), []
    for n in range(STEPS):
        rows = slice(n * BATCH, (n + 1) * BATCH)
        loss, p = step(p, x[rows], y[rows], i[rows])
        losses.append(float(loss))
    assert len(p["Net/block/dense/kernel"].sharding.device_set) == 4 and p["Net/block/dense/kernel"].addressable_shards[0].data.shape[1] == WIDTH
    np.savez(folder / "jax.npz", losses=losses, **{name: np.asarray(value) for name, value in p.items()})


def main():
    sys.path.insert(0, str(SOURCE / "tests/support"))
    from training import FOLDER, Run, check, compile_program, finish, newest

    folder = FOLDER / "data"
    folder.mkdir()
    noise = np.random.default_rng(3)
    for name in "xy":
        np.save(folder / f"{name}.npy", noise.normal(size=(STEPS * BATCH, LENGTH, WIDTH)).astype(np.float32))
    np.save(folder / "i.npy", noise.integers(0, ROWS, size=(STEPS * BATCH, LENGTH)).astype(np.int32))

    def train(shards, *flags):
        dtx = compile_program(PROGRAM, f"net{shards}", "-D", f"shards={shards}", "--batch", str(BATCH))
        ran = Run("train", dtx, "--data", folder, "--replicas", 1, "--seed", 3, "--log-every", 1, "--checkpoint-dir", FOLDER / f"ck{shards}{len(flags)}", *flags)
        return [event["loss"] for event in ran.events if event["event"] == "step"], newest(FOLDER / f"ck{shards}{len(flags)}") / "model.safetensors"

    still = compile_program(PROGRAM.replace(f"learning_rate: {RATE}", "learning_rate: 0"), "still", "--batch", str(BATCH))
    Run("train", still, "--data", folder, "--replicas", 1, "--seed", 3, "--max-steps", 1, "--checkpoint-dir", FOLDER / "still")
    (folder / "initial.safetensors").write_bytes((newest(FOLDER / "still") / "model.safetensors").read_bytes())
    subprocess.run([SOURCE / "bench/peers/setup.sh"], check=True)
    subprocess.run([SOURCE / "bench/peers/.venv/bin/python", __file__, folder], check=True)
    theirs = np.load(folder / "jax.npz")
    for shards in (1, 2, 4):
        losses, path = train(shards)
        ours = tensors(path)
        most = max(np.abs(value).max() for value in ours.values())
        off = max(np.abs(value - theirs[name]).max() for name, value in ours.items()) / most
        off_losses = max(abs(a - b) / abs(b) for a, b in zip(losses, theirs["losses"], strict=True))
        check(off <= NEAR and off_losses <= NEAR, f"{shards} shards: losses {off_losses}, weights {off} from JAX's")
        print(f"{shards} shards: {STEPS} losses within {off_losses:.1e} of JAX's over four devices, weights within {off:.1e} of the largest", flush=True)
    finish()


if len(sys.argv) > 1:
    train_in_jax(pathlib.Path(sys.argv[1]))
else:
    main()
