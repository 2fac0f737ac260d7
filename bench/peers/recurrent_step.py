"""recurrent_step: how long one training step of examples/lstm.dt takes in PyTorch.

torch.nn.LSTM as it is, the same loss and optimizer, batches ready in memory, on as many threads and cores as asked for. A step is timed from call to the
loss being read; the median over steps is what is compared.

    bench/peers/.venv/bin/python bench/peers/recurrent_step.py [--batch 64] [--threads 2] [--steps 50] [--length 28]

Prints one JSON object a line, as cnn_step.py does. Sequences longer than 28 rows are the rows of several images.
"""

import harness
import numpy as np

INPUTS, HIDDEN, CLASSES = 28, 128, 10
LEARNING_RATE = 1e-3


def torch_step(batches, threads, length):
    """(version, step): step(i) trains on batch i and returns its loss as a float."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(INPUTS, HIDDEN, batch_first=True)
            self.dense = torch.nn.Linear(HIDDEN, CLASSES)

        def forward(self, image):
            return self.dense(self.lstm(image)[0][:, -1])

    model, crossentropy = Rows(), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    repeats = -(-length // INPUTS)
    tensors = [(torch.tensor(np.tile(image, (1, repeats, 1))[:, :length]), torch.tensor(label.astype(np.int64))) for image, label in batches]

    def loss_of(image, label):
        return (crossentropy(model(image.float() / 255), label),)

    return torch.__version__, harness.torch_step(loss_of, optimizer, tensors)


def main():
    parser = harness.parser(__doc__, batch=64, threads=2)
    parser.add_argument("--length", type=int, default=28, help="of a sequence (%(default)s)")
    arguments = parser.parse_args()
    harness.hold_to_cores(parser, arguments.threads)
    version, step = torch_step(harness.read_batches(arguments.data, arguments.batch), arguments.threads, arguments.length)
    harness.print_line("torch", version, "lstm", arguments, harness.measure(step, arguments.steps))


if __name__ == "__main__":
    main()
