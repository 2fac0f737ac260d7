#!/usr/bin/env python3
"""Weights of PyTorch (.pt, .pth) and of Keras (.h5, as in model.weights.h5) to .safetensors, and back. Names, shapes and numbers stay.

    convert_weights.py model.pt model.safetensors              names in dictionaries of dictionaries are joined by dots
    convert_weights.py model.weights.h5 model.safetensors      a tensor's name is its path in the file: layers/dense/vars/0
    convert_weights.py model.safetensors model.pt
    convert_weights.py model.safetensors model.weights.h5

Which tensor is which variable of a program, and how its axes lie, a map of names says (docs/weights.md): `dtrun train --init model.safetensors
--map names.txt` loads what this script has read, `dtrun export ck/step-469 --map names.txt -o model.safetensors` makes what it writes.

Needs safetensors and NumPy; for .pt PyTorch, for .h5 h5py, all from PyPI. Of a .pt weights alone are read: no code in it is run.
"""
import os
import pathlib
import sys


class Unusable(Exception):
    """A file that holds no weights, or what the other format cannot hold."""


def pytorch_tensors(value, name, found, others):
    """Collects the tensors of dictionaries by name, and the names of what is none."""
    import torch

    if isinstance(value, dict):
        for key, item in value.items():
            pytorch_tensors(item, f"{name}.{key}" if name else str(key), found, others)
    elif isinstance(value, torch.Tensor):
        found[name] = value.detach().clone().contiguous()  # with memory of its own: two names may share one
    else:
        others.append(name)


def read_pytorch(path):
    import torch

    found, others = {}, []
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each format that PyTorch tries fails in its own way
        raise Unusable(f"PyTorch reads no weights of it ({type(error).__name__}); save them alone, with torch.save(model.state_dict(), …)") from error
    pytorch_tensors(content, "", found, others)
    if others:
        print(f"convert_weights.py: note: {path}: no tensors, left out: {', '.join(others[:10])}{', …' if len(others) > 10 else ''}", file=sys.stderr)
    return found


def pytorch_to_safetensors(source, target):
    from safetensors.torch import save_file

    tensors = read_pytorch(source)
    save_file(tensors, target, metadata={"format": "pt"})
    return tensors


def safetensors_to_pytorch(source, target):
    import torch
    from safetensors.torch import load_file

    tensors = load_file(source)
    torch.save(tensors, target)
    return tensors


def keras_to_safetensors(source, target):
    import h5py
    import numpy
    from safetensors.numpy import save_file

    tensors = {}

    def visit(name, item):
        if not isinstance(item, h5py.Dataset):
            return
        if item.attrs.get("dtype") == "bfloat16":  # two bytes each that HDF5 has no type for: the upper half of an f32
            halves = numpy.frombuffer(item[()].tobytes(), numpy.uint16).astype(numpy.uint32)
            tensors[name] = (halves << 16).view(numpy.float32).reshape(item.shape)
        elif item.dtype.kind in "fiub":
            tensors[name] = numpy.array(item[()], order="C")

    with h5py.File(source, "r") as file:
        file.visititems(visit)
    save_file(tensors, target)
    return tensors


def safetensors_to_keras(source, target):
    import h5py
    from safetensors.numpy import load_file

    tensors = load_file(source)
    with h5py.File(target, "w") as file:
        for name, value in tensors.items():
            if name in file or any(isinstance(file.get(name.rsplit("/", n)[0]), h5py.Dataset) for n in range(1, name.count("/") + 1)):
                raise Unusable(f"{name}: a path in it is a tensor already: in HDF5 folders and tensors have different names")
            file[name] = value
    return tensors


FORMATS = {".pt": "PyTorch", ".pth": "PyTorch", ".h5": "Keras", ".safetensors": "safetensors"}
CONVERSIONS = {
    ("PyTorch", "safetensors"): pytorch_to_safetensors,
    ("safetensors", "PyTorch"): safetensors_to_pytorch,
    ("Keras", "safetensors"): keras_to_safetensors,
    ("safetensors", "Keras"): safetensors_to_keras,
}


UMASK = os.umask(0o022)
os.umask(UMASK)


def convert(source, target):
    """Writes beside the target, then renames: what was there stays until there is something whole. Returns how many tensors there are."""
    conversion = CONVERSIONS.get((FORMATS.get(source.suffix), FORMATS.get(target.suffix)))
    if conversion is None:
        raise Unusable(f"{source.suffix or 'no ending'} to {target.suffix or 'no ending'}: one of .pt, .pth, .h5 to .safetensors, or back")
    unfinished = target.with_name(f".unfinished-{target.name}")
    try:
        tensors = conversion(source, unfinished)
        if not tensors:
            raise Unusable("holds no tensors")
        unfinished.chmod(0o666 & ~UMASK)  # safetensors writes files for their owner alone
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return len(tensors)


def main(arguments):
    if len(arguments) != 2 or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    source, target = map(pathlib.Path, arguments)
    try:
        n = convert(source, target)
    except ImportError as error:
        print(f"convert_weights.py: error: {error}: install it beside safetensors, as in `pip install {error.name}`", file=sys.stderr)
        return 1
    except Exception as error:  # of whichever library reads or writes: a sentence, not a trace
        print(f"convert_weights.py: error: {source}: {error}", file=sys.stderr)
        return 1
    print(f"{target}: {n} tensor{'s' if n > 1 else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
