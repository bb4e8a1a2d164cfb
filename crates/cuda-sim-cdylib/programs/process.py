"""Processes on the software device."""

import os
import subprocess

import sanitizer


class Process:
    """A process that has ended, with its output."""

    def __init__(self, options, suite, command, cwd=None, env=(), limit=None):
        """Runs `command` with the driver library and the NVRTC of the suite."""
        path = [str(options.driver)]
        if getattr(suite, "companion", False):
            path += [str(options.companion)]
        path += [f"{options.nvrtc}/{suite.nvrtc}/lib"] if hasattr(suite, "nvrtc") else []
        simulated = {"LD_LIBRARY_PATH": os.pathsep.join(path), "CUDA_SIM": suite.device}
        if options.sanitizer:
            simulated |= sanitizer.environment(options, suite)
        inherited = {name: value for name, value in os.environ.items() if name != "CUDA_SIM_LOG"}
        limit = limit or suite.limit
        try:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=cwd,
                env={**inherited, **simulated, **dict(env)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit,
            )
            self.status, output = f"exit status {done.returncode}", done.stdout
            self.succeeded = done.returncode == 0
        except subprocess.TimeoutExpired as expired:
            self.status, output = f"it took longer than {limit} s", expired.stdout or b""
            self.succeeded = False
        lines = output.decode(errors="replace").splitlines()
        # With CUDA_SIM_LOG=calls, each call is a line.
        self.calls = sum("cuda-sim: cu" in line for line in lines)
        self.lines = [line for line in lines if line and "cuda-sim: cu" not in line]

    def end(self, lines=30):
        return "\n".join([self.status, *self.lines[-lines:]])
