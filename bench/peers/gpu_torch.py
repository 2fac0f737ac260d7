"""gpu_torch: PyTorch's training of examples/fashion_cnn.dt and perceptron.dt on a GPU: see gpu_harness.py for what is asked and answered.

The model compiled by torch.compile in the mode that makes CUDA graphs, cuDNN's algorithms the fastest of those tried, the optimizer fused; images with
their channels last, or first. All data lie in the GPU's memory before the clock runs, shuffled there; no loss is read within an epoch.
"""
import gpu_harness as harness
import torch

DEVICE = torch.device("cuda")
torch.backends.cudnn.benchmark = True


def model_of(name):
    nn = torch.nn
    if name == "perceptron":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(nn.Conv2d(1, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Dropout(0.5), nn.Linear(3200, 10))


class Training:
    def __init__(self, data, name, batch, precision, memory_format):
        self.images, self.labels, self.test_images, self.test_labels = (torch.from_numpy(array.copy()).to(DEVICE) for array in data)
        self.labels, self.test_labels = self.labels.long(), self.test_labels.long()
        self.batch, self.precision, self.memory_format = batch, precision, memory_format
        self.model = model_of(name).to(DEVICE, memory_format=memory_format)
        parameters = self.model.parameters()
        self.optimizer = (torch.optim.SGD(parameters, lr=0.1, fused=True) if name == "perceptron"
                          else torch.optim.Adam(parameters, lr=1e-3, eps=1e-7, fused=True, capturable=True))
        self.loss = torch.compile(self.loss_of, mode="reduce-overhead")
        self.logits = torch.compile(self.logits_of)
        begin = [parameter.detach().clone() for parameter in self.model.parameters()]
        for _ in range(2):  # what changes between training and evaluating is compiled too
            self.epoch(warm_up=True)
            self.accuracy()
        self.forget(begin)

    def forget(self, begin):
        """What the warm-up has learnt: all is as it was, in the same memory, for the graphs hold its addresses. An optimizer begins with zeros."""
        with torch.no_grad():
            for parameter, value in zip(self.model.parameters(), begin):
                parameter.copy_(value)
            for slots in self.optimizer.state.values():
                for slot in slots.values():
                    if slot is not None:
                        slot.zero_()

    def logits_of(self, image):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            return self.model((image.unsqueeze(1).float() / 255).contiguous(memory_format=self.memory_format)).float()

    def loss_of(self, image, label):
        logits = self.logits_of(image)
        return torch.nn.functional.cross_entropy(logits, label), (logits.argmax(1) == label).float().mean()

    def epoch(self, warm_up=False):
        """Whole batches; returns how many images that were, when they are done."""
        self.model.train()
        order = torch.randperm(len(self.images), device=DEVICE)
        n = harness.n_steps(len(order), self.batch, warm_up)
        total = torch.zeros((), device=DEVICE)
        for i in range(n):
            chosen = order[i * self.batch:(i + 1) * self.batch]
            torch.compiler.cudagraph_mark_step_begin()
            loss, _ = self.loss(self.images[chosen], self.labels[chosen])
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            total += loss.detach()
        torch.cuda.synchronize()
        return n * self.batch

    def accuracy(self):
        self.model.eval()
        with torch.no_grad():
            parts = [slice(i, i + 1000) for i in range(0, len(self.test_images), 1000)]
            hits = [(self.logits(self.test_images[part]).argmax(1) == self.test_labels[part]).float().mean() for part in parts]
            return float(torch.stack(hits).mean())


def make(data, name, batch, precision):
    torch.compiler.reset()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    formats = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}
    if name == "perceptron":
        formats = {"a call a step": torch.contiguous_format}
    return {way: Training(data, name, batch, precision, memory_format) for way, memory_format in formats.items()}


harness.serve("torch", torch.__version__, make)
