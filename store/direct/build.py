"""Builds the machine code of direct puts, reads and sends: extension modules, and their manifests.

usage: python -P build.py FOLDER        FOLDER holds the package `mqstore` as it will be installed

setup.py calls it for a wheel, after the loops. It needs Cython, a C compiler and Python's headers.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

__all__ = ["build"]

# By the name of the extension module: its source, and what else it is made of, or takes numbers and fields
# from. A change in any of them makes it stale.
_MODULES = {
    "put_machine_code": (
        "store/direct/direct_put.py",
        "store/checksum/crc32.py",
        "store/clock.py",
        "store/direct/crc32.h",
        "store/direct/crc32.pxd",
        "store/direct/members.pxd",
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
    ),
    "read_machine_code": (
        "store/message/direct_read.py",
        "store/files/mapped_file.py",
        "store/files/mapped_file_queue.py",
        "store/log/log_offsets.py",
        "store/log/log_reader.py",
        "store/message/memory.pxd",
        "store/message/stored_message.py",
        "store/record/properties_format.py",
        "store/record/record_format.py",
        "store/record/sys_flag.py",
    ),
    "search_machine_code": (
        "index/keys/direct_search.py",
        "index/keys/key_index_format.py",
        "index/keys/lmdb_key_index.py",
        "index/keys/run_row.py",
        "index/keys/run_table.py",
        "index/lmdb_files/lmdb_environment.py",
    ),
    "send_machine_code": (
        "client/producer/sends/direct_send.py",
        "client/producer/message/unique_id.py",
        "client/producer/queues/publish_routes.py",
        "client/producer/send_result.py",
        "client/producer/sends/plain_send.py",
        "store/direct/members.pxd",
        "store/message/message.py",
    ),
}
_DIRECTIVES = {"language_level": "3", "binding": False, "embedsignature": False}
# No debugging symbols: they would be ten times as large as the code.
_C_ARGUMENTS = ["-O2", "-g0"]


def build(folder: Path) -> None:
    """Build the extension modules, each beside its source, and write their manifests."""
    for name, sources in _MODULES.items():
        _build_module(folder, name, sources)


def _build_module(folder: Path, name: str, sources: Sequence[str]) -> None:
    import Cython
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    source = folder / "mqstore" / sources[0]
    place = source.parent
    with tempfile.TemporaryDirectory() as temporary:
        extension = Extension(
            ".".join((*place.relative_to(folder).parts, name)),
            [str(source)],
            include_dirs=[str(place)],
            extra_compile_args=_C_ARGUMENTS,
        )
        extensions = cythonize(
            [extension],
            include_path=[str(folder)],
            compiler_directives=_DIRECTIVES | {"annotation_typing": source.name.startswith("direct_")},
            build_dir=temporary,
            quiet=True,
        )
        command = Distribution({"name": "mqstore", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder), temporary
        command.ensure_finalized()
        command.run()
    [file] = place.glob(f"{name}.*.so")
    manifest = {
        "compiler": f"Cython {Cython.__version__}",
        "file": file.name,
        "size_bytes": file.stat().st_size,
        "sources": {each: sha256((folder / "mqstore" / each).read_bytes()).hexdigest() for each in sources},
    }
    (place / f"{name}.json").write_text(json.dumps(manifest, indent=2))


def main() -> None:
    """Called by setup.py."""
    parser = argparse.ArgumentParser(description="Build the machine code of puts, reads and sends.")
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder.resolve())


if __name__ == "__main__":
    main()
