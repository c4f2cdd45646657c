"""Builds the machine code of the direct put: an extension module beside its source, and its manifest.

usage: python -P build.py FOLDER        FOLDER holds the package `mqstore` as it will be installed

setup.py calls it for a wheel, after the loops. It needs Cython, a C compiler and Python's headers.
"""

import argparse
import json
import tempfile
from hashlib import sha256
from pathlib import Path

__all__ = ["build"]

_MODULE_NAME = "put_machine_code"
_MANIFEST_NAME = "put_machine_code.json"
# What it is made of, or takes numbers and fields from: a change in any of them makes it stale.
_SOURCES = (
    "store/checksum/crc32.py",
    "store/clock.py",
    "store/direct/crc32.h",
    "store/direct/crc32.pxd",
    "store/direct/direct_put.py",
    "store/files/mapped_file.py",
    "store/log/append_gate.py",
    "store/log/log_appender.py",
    "store/log/log_offsets.py",
    "store/message/message.py",
    "store/message/message_encoder.py",
    "store/message/put_result.py",
    "store/message/topic_names.py",
    "store/record/host.py",
    "store/record/properties_format.py",
    "store/record/record_format.py",
    "store/record/record_template.py",
    "store/record/sys_flag.py",
)
_DIRECTIVES = {"language_level": "3", "binding": False, "embedsignature": False}
# No debugging symbols: they would be ten times as large as the code.
_C_ARGUMENTS = ["-O2", "-g0"]


def build(folder: Path) -> None:
    """Build the extension module and write its manifest."""
    import Cython
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    place = folder / "mqstore" / "store" / "direct"
    name = f"mqstore.store.direct.{_MODULE_NAME}"
    with tempfile.TemporaryDirectory() as temporary:
        extension = Extension(
            name,
            [str(place / "direct_put.py")],
            include_dirs=[str(place)],
            extra_compile_args=_C_ARGUMENTS,
        )
        extensions = cythonize(
            [extension],
            include_path=[str(folder)],
            compiler_directives=_DIRECTIVES,
            build_dir=temporary,
            quiet=True,
        )
        command = Distribution({"name": "mqstore", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder), temporary
        command.ensure_finalized()
        command.run()
    [file] = place.glob(f"{_MODULE_NAME}.*.so")
    manifest = {
        "compiler": f"Cython {Cython.__version__}",
        "file": file.name,
        "size_bytes": file.stat().st_size,
        "sources": {
            source: sha256((folder / "mqstore" / source).read_bytes()).hexdigest() for source in _SOURCES
        },
    }
    (place / _MANIFEST_NAME).write_text(json.dumps(manifest, indent=2))


def main() -> None:
    """Called by setup.py."""
    parser = argparse.ArgumentParser(description="Build the machine code of the direct put.")
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder.resolve())


if __name__ == "__main__":
    main()
