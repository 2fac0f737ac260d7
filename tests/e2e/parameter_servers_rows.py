"""Tables by rows on parameter servers: servers have their shares of the rows, workers take those that a step names. With sgd the bytes are those of one process
that has all of each table, with --lazy-rows those of one that is lazy alone; any of them goes on from any checkpoint. What does not fit is said."""
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from ratings import write_ratings
from training import FOLDER, Run, check, finish, left_by

SOURCE = pathlib.Path(os.environ["DT_SOURCE"], "tests/programs/recommend.dt").read_text()
REPLICAS = 5
users = write_ratings(layouts.DATA)
sgd, adam = layouts.Case("sgd", SOURCE, 40), layouts.Case("adam", SOURCE, 40, "-Dadaptive=true")


def train_one(case, folder, *flags):
    return Run("train", case.artifact, *case.flags(REPLICAS), "--devices", "cpu:1x1", "--seed", 3, "--epochs", 2, "--checkpoint-dir", folder, *flags)


wanted = layouts.train_one(sgd, REPLICAS)
for n_servers, n_workers in ((2, 2), (1, 3), (3, 1)):
    servers.agrees(sgd, wanted, REPLICAS, n_servers, n_workers, "--rows")
folder = servers.new_folder()
lazy = train_one(adam, folder, "--lazy-rows")
servers.agrees(adam, (left_by(folder), layouts.said(lazy.events)), REPLICAS, 2, 3, "--lazy-rows")

# In mid-epoch, with other servers and workers each time, and at the end by one process with all of each table.
folder = servers.new_folder()
servers.train(sgd, REPLICAS, 1, 2, folder, "--epochs", 2, "--rows", "--max-steps", 1)
servers.train(sgd, REPLICAS, 3, 1, folder, "--epochs", 2, "--rows", "--max-steps", 4, "--resume")
train_one(sgd, folder, "--resume")
check(left_by(folder) == wanted[0], "teams of servers and workers that take rows, one after another, end with other bytes than one process")

# From weights, of which each server takes its rows.
weights, folder, one = left_by(folder), servers.new_folder(), servers.new_folder()
start = ["--init", FOLDER / "weights.safetensors"]
start[1].write_bytes(weights[1])
servers.train(sgd, REPLICAS, 2, 2, folder, "--epochs", 2, "--rows", *start)
train_one(sgd, one, *start)
check(left_by(folder) == left_by(one) != weights, "servers that take rows begin with other weights than one process")

# Tables of several pieces of a checkpoint, which server 0 never has all of.
large = layouts.Case("large", SOURCE, 40, "-Ditems=450000")
servers.agrees(large, layouts.train_one(large, REPLICAS), REPLICAS, 2, 1, "--rows")


def refused(case, why, *flags):
    run = Run("train", case.artifact, *case.flags(REPLICAS), "--staleness", 0, "--local-servers", 2, "--workers", 2, *flags, expect=1, seconds=60)
    check(why in run.error, f"{flags}: wanted {why}\n{run.error}")


refused(adam, "with rows alone the bits are others, which `dtrun train --lazy-rows` accepts", "--rows")
refused(layouts.Case("none", SOURCE, 40, "-O", "no-rows"), "no row forms", "--rows")
np.save(layouts.DATA / "user.npy", np.where(np.arange(90) == 70, 500, users))
refused(sgd, "index 500 is not within 0 to 499", "--rows", "--devices", "cpu:1x1")
looked_up = layouts.Case("looked_up", SOURCE.replace("embedding(user,", "embedding(iota([500], dtype: i32)[user],"), 40)
refused(looked_up, "index 500 is not within 0 to 499;", "--rows", "--devices", "cpu:1x1")  # counted once
finish()
