"""V = 4 on 1, 2 and 4 workers and 1 and 2 servers: a convolutional network and a small resnet, each with the bytes of `dtrun train --replicas 4`."""
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import finish

cnn = layouts.Case("cnn", (pathlib.Path(os.environ["DT_SOURCE"]) / "examples/fashion_cnn.dt").read_text(), 24)
for case in (cnn, layouts.resnet()):
    case.predicts = False
    wanted = layouts.train_one(case, 4)
    for n_servers in (1, 2):
        for n_workers in (1, 2, 4):
            servers.agrees(case, wanted, 4, n_servers, n_workers)
finish()
