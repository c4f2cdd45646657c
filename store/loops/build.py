"""Builds the machine code of all loops: an extension module for each kind of processor, and their manifest.

usage: python -P build.py FOLDER        FOLDER holds the package `mqstore` as it will be installed

setup.py calls it for a wheel. The sources are those that numba compiles elsewhere. Here numba's ahead-of-time
compiler makes an extension module of them, which needs numpy and no numba. It needs numba itself and a C
compiler. Each kind of processor has a process of its own, because numba fixes its target when it is imported.
"""

import argparse
import functools
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple
from unittest import mock

__all__ = ["build"]


class _Target(NamedTuple):
    """A kind of processor.

    name, llvm_features: as LLVM names it, and what crc32_kernels.py asks for. features: what a processor must
    have to run the code, by Linux's names.
    """

    module: str
    machine: str
    name: str
    llvm_features: tuple[str, ...]
    features: tuple[str, ...]


# The levels of x86-64 are those of its ABI (gitlab.com/x86-psABIs/x86-64-ABI).
_V3: Final = ("abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "pclmulqdq")
_V4: Final = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "vpclmulqdq")
# The best one of a machine first.
_TARGETS: Final = (
    _Target("x86_64_v4", "x86_64", "x86-64-v4", ("+avx512f", "+pclmul", "+vpclmulqdq"), _V4),
    _Target("x86_64_v3_wide", "x86_64", "x86-64-v3", ("+pclmul", "+vpclmulqdq"), (*_V3, "vpclmulqdq")),
    _Target("x86_64_v3", "x86_64", "x86-64-v3", ("+pclmul",), _V3),
    _Target("x86_64_v1", "x86_64", "x86-64", (), ()),
    _Target("aarch64", "aarch64", "generic", (), ()),
)


def build(folder: Path) -> None:
    """Build for each kind of this machine's processors, and write the manifest.

    Raises CalledProcessError if one of them cannot be built, ValueError on a machine of another kind.
    """
    targets = [target for target in _TARGETS if target.machine == platform.machine()]
    if not targets:
        raise ValueError(f"no machine code for {platform.machine()}: numba compiles the loops there")
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(os.cpu_count()) as processes:
        run = functools.partial(_run, folder, Path(cache))
        [sources, *_] = processes.map(run, targets)
    _write_manifest(folder, targets, sources)


def _run(folder: Path, cache: Path, target: _Target) -> list[str]:
    """Build one in a process of its own; the sources that went into it."""
    # What is there already leads to numba and numpy: pip builds in an environment that it names there.
    places = (str(folder), os.environ.get("PYTHONPATH", ""))
    settings = {
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        "MQSTORE_LOOPS": "compile",
        "NUMBA_CACHE_DIR": str(cache / target.module),
        "NUMBA_CPU_NAME": target.name,
        "NUMBA_CPU_FEATURES": ",".join(target.llvm_features),
    }
    command = [sys.executable, "-P", __file__, str(folder), "--only", target.module]
    done = subprocess.run(command, env=os.environ | settings, check=True, stdout=subprocess.PIPE)
    sources: list[str] = json.loads(done.stdout)
    return sources


def _write_manifest(folder: Path, targets: list[_Target], sources: list[str]) -> None:
    _stand_in_for_package(folder)
    import msgspec
    import numba

    from mqstore.store.loops.machine_code import MANIFEST_NAME, Manifest, Variant, digest_of

    def variant_of(target: _Target) -> Variant:
        [file] = _place(folder).glob(f"{target.module}.*")
        return Variant(target.module, file.name, file.stat().st_size, target.machine, target.features)

    manifest = Manifest(
        compiler=f"numba {numba.__version__}",
        sources={name: digest_of(folder / "mqstore" / name) for name in sources},
        variants=tuple(map(variant_of, targets)),
    )
    encoded = msgspec.json.format(msgspec.json.encode(manifest))
    (_place(folder) / MANIFEST_NAME).write_bytes(encoded)


def _place(folder: Path) -> Path:
    return folder / "mqstore" / "store" / "loops"


def _stand_in_for_package(folder: Path) -> None:
    """Let modules below `mqstore` be imported without its own, which imports most of the others."""
    package = ModuleType("mqstore")
    package.__path__ = [str(folder / "mqstore")]
    sys.modules["mqstore"] = package


# -- in a process for one kind of processor ---------------------------------------------------------------


def _build_one(folder: Path, target: _Target) -> list[str]:
    """Build one extension module; the sources that went into it, by their paths in the package."""
    _stand_in_for_package(folder)
    for kernels in _kernels(folder):
        importlib.import_module(kernels)
    from numba.pycc import CC

    from mqstore.store.loops.just_in_time import entries, type_of_kind
    from mqstore.store.loops.machine_code import symbol_of

    machine_code = CC(target.module, source_module=sys.modules[__name__])
    machine_code.output_dir = str(_place(folder))
    machine_code.target_cpu = target.name
    for entry in entries:
        kinds = tuple(map(type_of_kind, entry.kinds))
        machine_code.export(symbol_of(entry.function), kinds)(entry.function)
    holding_gil = {entry.function for entry in entries if entry.holds_gil}
    with _features_of(target), _gil_released_but_by(holding_gil):
        machine_code.compile()
    return sorted(_loaded_sources(folder))


def _kernels(folder: Path) -> Iterator[str]:
    """The modules that hold loops."""
    for path in sorted(folder.glob("mqstore/**/*_kernels.py")):
        yield ".".join(path.relative_to(folder).with_suffix("").parts)


def _loaded_sources(folder: Path) -> Iterator[str]:
    """What the loops were made of: kernels, and the modules that their constants come from."""
    # By their names there: Cython, which setuptools imports, leaves things that are no modules.
    for name, module in list(sys.modules.items()):
        source = getattr(module, "__file__", None)
        if name.startswith("mqstore.") and source is not None:
            yield Path(source).relative_to(folder / "mqstore").as_posix()


def _features_of(target: _Target) -> Any:
    """numba's ahead-of-time compiler knows processors by name only; this adds features."""
    from numba.core.codegen import AOTCPUCodegen

    features = ",".join(target.llvm_features)
    return mock.patch.object(AOTCPUCodegen, "_customize_tm_features", return_value=features)


def _gil_released_but_by(holding_gil: set[Any]) -> Any:
    """numba's ahead-of-time compiler lets all functions hold the GIL; these alone shall."""
    from numba.pycc import compiler

    compile_extra = compiler.compile_extra

    def compile_releasing(
        typing: Any, context: Any, function: Any, kinds: Any, result: Any, flags: Any, **rest: Any
    ) -> Any:
        flags = flags.copy()
        flags.release_gil = function not in holding_gil
        return compile_extra(typing, context, function, kinds, result, flags, **rest)

    return mock.patch.object(compiler, "compile_extra", compile_releasing)


def main() -> None:
    """Called by setup.py, and by itself for one kind of processor."""
    parser = argparse.ArgumentParser(description="Build the machine code of all loops.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="the module of one kind of processor")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if arguments.only is None:
        build(folder)
        return
    [target] = [target for target in _TARGETS if target.module == arguments.only]
    sys.stdout.write(json.dumps(_build_one(folder, target)))


if __name__ == "__main__":
    main()
