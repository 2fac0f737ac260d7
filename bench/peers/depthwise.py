"""depthwise: how long PyTorch takes for a depthwise convolution, 3 x 3 with a border of zeros, or for its backward.

    bench/peers/.venv/bin/python bench/peers/depthwise.py --size 56 --channels 128 --step forward | backward

In both layouts, of which the faster counts. Prints one JSON object a line, as cnn_step.py does.
"""

import harness


def main():
    parser = harness.parser(__doc__, batch=16, threads=1)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--channels", type=int, required=True)
    parser.add_argument("--step", choices=("forward", "backward"), required=True)
    arguments = parser.parse_args()
    harness.hold_to_cores(parser, arguments.threads)
    import torch

    torch.set_num_threads(arguments.threads)
    n, c = arguments.size, arguments.channels
    kernel = torch.randn(c, 1, 3, 3)
    found = []
    for layout in (torch.contiguous_format, torch.channels_last):
        x, g = (torch.randn(arguments.batch, c, n, n).contiguous(memory_format=layout) for _ in range(2))

        def step(i):
            if arguments.step == "forward":
                y = torch.nn.functional.conv2d(x, kernel, padding=1, groups=c)
            else:
                y, _, _ = torch.ops.aten.convolution_backward(g, x, kernel, None, [1, 1], [1, 1], [1, 1], False, [0, 0], c, [True, True, False])
            return y[0, 0, 0, 0].item()

        with torch.no_grad():
            found.append(harness.measure(step, arguments.steps))
    harness.print_line("torch", torch.__version__, f"depthwise {n} x {n} x {c}", arguments, min(found, key=lambda measured: measured["step_ms_low"]))


if __name__ == "__main__":
    main()
