"""Checkpoints that want to run something."""

import os
import pickle
import zipfile

import torch


def zipped(path, pickled, records=(), compression=zipfile.ZIP_STORED):
    """Write a checkpoint in torch's current format with a pickle of our own."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")
        for name, content in records:
            archive.writestr(f"archive/{name}", content)


def legacy(path, pickled):
    """Write a checkpoint in torch's older format with a pickle of our own."""
    system = dict(protocol_version=1001, little_endian=True, type_sizes=dict(short=2, int=4, long=4))
    with open(path, "wb") as file:
        for part in (torch.serialization.MAGIC_NUMBER, 1001, system):
            pickle.dump(part, file, protocol=2)
        file.write(pickled)
        pickle.dump([], file, protocol=2)


TOUCH = b"X\x09\x00\x00\x00touch ran"  # what a command line would be called with

PROGRAMS = {
    "GLOBAL and REDUCE": b"\x80\x02cos\nsystem\n" + TOUCH + b"\x85R.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + TOUCH + b"\x85R.",
    "INST": b"(" + TOUCH + b"ios\nsystem\n.",
    "NEWOBJ": b"\x80\x02csubprocess\nPopen\n(X\x05\x00\x00\x00touchX\x03\x00\x00\x00ranl\x85\x81.",
    "BUILD of a module": b"\x80\x02cargparse\n_sys\nX\x04\x00\x00\x00pathK\x01\x86b.",
    "an attribute of an allowed class": b"\x80\x04\x8c\x08argparse\x8c\x1eNamespace.__init__.__globals__\x93.",
    "eval": b"\x80\x02cbuiltins\neval\nX\x1b\x00\x00\x00__import__('os').mkdir('ran')\x85R.",
    "torch.load itself": b"\x80\x02ctorch\nload\nX\x03\x00\x00\x00ran\x85R.",
}


class Touch:
    def __reduce__(self):
        return os.system, ("touch ran",)
