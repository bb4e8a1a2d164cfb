"""Lets PyTorch load with stand-ins for NVIDIA's libraries, which lack most functions.

Python resolves all functions of an extension module and of its libraries when it loads the module,
unless this flag is set.
"""

import os
import sys

sys.setdlopenflags(os.RTLD_LAZY)
