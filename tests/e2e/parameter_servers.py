"""A synchronous training with parameter servers ends with the bytes of `dtrun train --replicas V`, with any number of servers and workers: dropout, batch
norm, whose statistics cross in mid-step, pairs over the batch, 16-bit values, gradients in several pieces. Any of them goes on from any checkpoint."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import check, finish, Run

for case, replicas, teams in ((layouts.net(), 6, [(1, 1), (2, 2), (1, 4)]), (layouts.pairs(), 6, [(2, 3)]), (layouts.halves(), 6, [(1, 2)]),
                              (layouts.wide(), 6, [(2, 2)])):
    wanted = layouts.train_one(case, replicas)
    for n_servers, n_workers in teams:
        servers.agrees(case, wanted, replicas, n_servers, n_workers)

# What neither servers nor workers take is refused, and not lost.
refused = Run("train", layouts.net().artifact, "--local-servers", 1, "--placement", "central", expect=2).error
check("--placement does not go with --local-servers" in refused, refused)

# In mid-epoch, with other servers and workers each time, and at the end without any.
case = layouts.net()
wanted = layouts.train_one(case, 6)[0]
folder = servers.new_folder()
servers.train(case, 6, 1, 2, folder, "--epochs", 2, "--max-steps", 1)
servers.train(case, 6, 2, 1, folder, "--epochs", 2, "--max-steps", 4, "--resume")
Run("train", case.artifact, *case.flags(6), "--devices", "cpu:1x1", "--seed", 3, "--checkpoint-dir", folder, "--epochs", 2, "--resume")
check(layouts.left_by(folder) == wanted, "teams of servers and workers, one after another, end with other bits than one process")
finish()
