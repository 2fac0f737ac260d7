"""V = 4 on 1, 2 and 4 workers and 1 and 2 servers that have rows of tables: the bytes of one process."""
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from ratings import write_ratings
from training import Run, finish, left_by

TABLES = (pathlib.Path(os.environ["DT_SOURCE"]) / "tests/programs/recommend.dt").read_text()
write_ratings(layouts.DATA)
sgd, adam = layouts.Case("sgd", TABLES, 40), layouts.Case("adam", TABLES, 40, "-Dadaptive=true")
wanted = layouts.train_one(sgd, 4)
folder = servers.new_folder()
lazy = Run("train", adam.artifact, *adam.flags(4), "--devices", "cpu:1x1", "--seed", 3, "--epochs", 2, "--checkpoint-dir", folder, "--lazy-rows")
for n_servers in (1, 2):
    for n_workers in (1, 2, 4):
        servers.agrees(sgd, wanted, 4, n_servers, n_workers, "--rows")
        servers.agrees(adam, (left_by(folder), layouts.said(lazy.events)), 4, n_servers, n_workers, "--lazy-rows")
finish()
