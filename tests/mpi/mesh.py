"""A model in shards and stages trains to the same bytes in any mesh of processes and devices, resumed in another one too. Each pair of a program, a
precision, numbers of replicas, shards, stages, processes, … is in one of the trainings (tests/support/mesh.py)."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mesh
from training import finish

mesh.compare_all(strength=2)
finish()
