"""What pyproject.toml cannot say: a wheel holds machine code where it can be built.

Of all compiled loops (store/loops/build.py), where numba, Python's headers and compilers for C and C++ are
there: then the package does not need numba. Elsewhere numba is among its dependencies: it compiles the loops
where they run. And of direct puts and reads (store/direct/build.py), where Cython, Python's headers and a
compiler for C are there. Elsewhere all of them are interpreted. An editable install always takes the sources:
`pip install -e '.[jit]'`.
MQSTORE_BUILD_LOOPS=0 and MQSTORE_BUILD_PUT=0 leave one or the other out on every machine.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

# Imported when first needed, so that `import mqstore` stays quick; tests/architecture holds us to it.
DEPENDENCIES = [
    "numpy>=1.26",  # views of queues and segments as arrays
    "lmdb>=1.4",  # the key index
    "isal>=1.7",  # CRC-32 of single records; half a millisecond of each import
    "crcmod-plus>=2.1",  # CRC-32C of the state files
    "msgspec>=0.18",  # Message, JSON, TOML
    "click>=8.2",  # the command `mqstore`, which is there after a plain `pip install mqstore`
    "rich>=13.8",  # its tables and progress bars
    "lz4>=4.3",  # bodies that producers compressed: LZ4 frames, and Zstandard below
    "backports.zstd>=1.0; python_version < '3.14'",  # what Python has from 3.14 on
]
COMPILER = "numba>=0.60"


def can_build_loops() -> bool:
    """Whether numba, Python's headers, and compilers for C and C++ are there, and nobody said no."""
    if os.environ.get("MQSTORE_BUILD_LOOPS") == "0" or importlib.util.find_spec("numba") is None:
        return False
    return compiles_c() and compiles("CXX", "probe.cpp", "#include <atomic>\n")


def can_build_put() -> bool:
    """Whether Cython, Python's headers and a compiler for C are there, and nobody said no."""
    if os.environ.get("MQSTORE_BUILD_PUT") == "0" or importlib.util.find_spec("Cython") is None:
        return False
    return compiles_c()


def compiles_c() -> bool:
    """Whether an extension module can be compiled from C."""
    return compiles("CC", "probe.c", "#include <Python.h>\n")


def compiles(variable: str, name: str, source: str) -> bool:
    """Whether the compiler that is named by an environment variable, or else Python's, takes a source."""
    command = shlex.split(os.environ.get(variable) or sysconfig.get_config_var(variable) or "")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(source)
        arguments = ["-fPIC", f"-I{sysconfig.get_path('include')}", "-c", str(path), "-o", str(path) + ".o"]
        try:
            subprocess.run([*command, *arguments], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


BUILDS_LOOPS = can_build_loops()
BUILDS_PUT = can_build_put()


class BuildWithMachineCode(build_py):
    """Adds the machine code to what a wheel is made of."""

    def run(self) -> None:
        """Copy the sources, then build from the copies."""
        rooms = [room for room, is_built in (("loops", BUILDS_LOOPS), ("direct", BUILDS_PUT)) if is_built]
        if self.editable_mode:
            rooms = []
        if rooms:
            # Kernels of an earlier build that are gone would be built too.
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        for room in rooms:
            folder = Path(self.build_lib).resolve()
            script = folder / "mqstore" / "store" / room / "build.py"
            subprocess.run([sys.executable, "-P", str(script), str(folder)], check=True)


class DistributionWithMachineCode(Distribution):
    """A wheel with machine code is for one kind of machine and one Python."""

    def has_ext_modules(self) -> bool:
        """Whether the wheel's name says so."""
        return BUILDS_LOOPS or BUILDS_PUT


setup(
    distclass=DistributionWithMachineCode,
    cmdclass={"build_py": BuildWithMachineCode},
    install_requires=DEPENDENCIES if BUILDS_LOOPS else [*DEPENDENCIES, COMPILER],
)
