"""Loads the software device before a Python program on Windows does.

`cuda-sim run` puts the folder of this file into `PYTHONPATH`, and Python imports it when it starts.
Python searches for a library in its own folder and in that of Windows, but not in `PATH`. However,
Windows does not search for a library if the process has loaded one of the same name.
"""

import ctypes
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load():
    """Loads the library, which is in the parent folder. A failure does not end the program."""
    path = os.path.join(os.path.dirname(HERE), "nvcuda.dll")
    try:
        ctypes.CDLL(path)
    except OSError as error:
        print(f"cuda-sim: cannot load {path}: {error}", file=sys.stderr)


def import_next():
    """Imports the module that has the name of this one in another folder, if there is one."""
    folders = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


load()
import_next()
