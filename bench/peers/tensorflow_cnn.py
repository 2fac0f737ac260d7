"""tensorflow_cnn: the CNN in operations of TensorFlow, for strategies that place its variables themselves."""

import cnn_step


def parameters(tf):
    """{name: variable}, made as Keras makes them; within the scope of a strategy they are its own."""
    shapes = {"k1": (3, 3, 1, cnn_step.FILTERS[0]), "b1": (cnn_step.FILTERS[0],), "k2": (3, 3, *cnn_step.FILTERS), "b2": (cnn_step.FILTERS[1],),
              "kernel": (5 * 5 * cnn_step.FILTERS[1], cnn_step.CLASSES), "bias": (cnn_step.CLASSES,)}  # fmt: skip
    glorot = tf.initializers.GlorotUniform(seed=0)
    return {n: tf.Variable(glorot(s) if len(s) > 1 else tf.zeros(s)) for n, s in shapes.items()}


def losses(tf, p, image, label):
    """Of each example, with dropout."""
    x = tf.cast(image, tf.float32)[..., tf.newaxis] / 255
    x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, p["k1"], 1, "VALID") + p["b1"]), 2, 2, "VALID")
    x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, p["k2"], 1, "VALID") + p["b2"]), 2, 2, "VALID")
    x = tf.nn.dropout(tf.reshape(x, (-1, 5 * 5 * cnn_step.FILTERS[1])), cnn_step.DROPOUT)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(label, tf.int32), x @ p["kernel"] + p["bias"])
