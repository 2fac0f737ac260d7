"""recurrent: makes recurrent.safetensors, what Keras 3 computes for recurrent layers: values, gradients, and three updates (layer_updates.py).

    bench/peers/.venv/bin/python tests/golden/recurrent.py       a minute
"""

import layer_updates
from layer_updates import keras

K = keras.layers
MASK = "x[:, :, 0] > 0"  # of the program; layer_updates has the same for Keras


def both(merge_mode, kind, **arguments):
    return lambda **_: K.Bidirectional(kind(**arguments), merge_mode=merge_mode)


CASES = [
    # name, call, Keras's layer, the shape of an example, arguments
    ("simple", "simple_rnn", K.SimpleRNN, (5, 3), dict(units=4)),
    ("simple_sequences", "simple_rnn", K.SimpleRNN, (4, 2), dict(units=3, return_sequences=True, go_backwards=True, activation="relu", use_bias=False)),
    ("lstm", "lstm", K.LSTM, (5, 3), dict(units=4)),
    ("lstm_sequences", "lstm", K.LSTM, (4, 2), dict(units=3, return_sequences=True)),
    ("lstm_backwards", "lstm", K.LSTM, (4, 2), dict(units=3, return_sequences=True, go_backwards=True, use_bias=False)),
    ("lstm_mask", "lstm", K.LSTM, (6, 2), dict(units=3, return_sequences=True, mask=MASK)),
    ("lstm_one", "lstm", K.LSTM, (1, 2), dict(units=2, activation="relu")),
    ("gru", "gru", K.GRU, (5, 3), dict(units=4)),
    ("gru_before", "gru", K.GRU, (5, 3), dict(units=4, reset_after=False)),
    ("gru_sequences", "gru", K.GRU, (4, 2), dict(units=3, return_sequences=True, use_bias=False)),
    ("gru_mask", "gru", K.GRU, (5, 2), dict(units=3, go_backwards=True, mask=MASK)),
    ("both_concat", "bidirectional", both("concat", K.LSTM, units=3, return_sequences=True), (4, 2),
     dict(direction="fn(x, backwards) => lstm(x, units: 3, return_sequences: true, go_backwards: backwards)")),
    ("both_average", "bidirectional", both("ave", K.GRU, units=3), (4, 2),
     dict(direction="fn(x, backwards) => gru(x, units: 3, go_backwards: backwards)", merge="average")),
]  # fmt: skip

if __name__ == "__main__":
    layer_updates.make("recurrent", CASES)
