"""The file system that the address of an archive names, with its options; and how an address is shown.

An address carries options behind a `?`, as pyarrow understands them. Who would rather give them apart, as
pandas and fsspec do, gives `storage_options`: the arguments of the file system's class in pyarrow, or what
s3fs calls them.

    access_key, secret_key, session_token, anonymous, region, scheme, endpoint_override, role_arn, ...
    key, secret, token, anon, endpoint_url       the same, in the words of s3fs and pandas

What may be a secret is never shown. No I/O but that of the file system's own set-up.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from mqstore.tools.archive.archive_errors import ArchiveRefused

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

__all__ = ["file_system_of", "shown_address"]

_CLASSES = {
    "s3": "S3FileSystem",
    "s3a": "S3FileSystem",
    "gs": "GcsFileSystem",
    "gcs": "GcsFileSystem",
    "abfs": "AzureFileSystem",
    "abfss": "AzureFileSystem",
}
_WORDS_OF_S3FS = {"key": "access_key", "secret": "secret_key", "token": "session_token", "anon": "anonymous"}
_FSSPEC = "fsspec+"
# An option of pyarrow's S3, from this release on: small objects are sent with one request, not with three.
_AT_ONCE = "allow_delayed_open"
_AT_ONCE_SINCE = 21


def shown_address(url: str) -> str:
    """The address without what may be a secret.

    >>> shown_address("s3://key:secret@bucket/orders?endpoint_override=http%3A%2F%2F127.0.0.1")
    's3://bucket/orders'
    """
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def file_system_of(
    url: str, shown: str, storage_options: Mapping[str, Any]
) -> "tuple[pa_fs.FileSystem, str]":
    """The file system, and the path within it. Raises ArchiveRefused."""
    import pyarrow as pa
    import pyarrow.fs as pa_fs

    try:
        if storage_options:
            return _with_options(url, dict(storage_options))
        file_system, path = pa_fs.FileSystem.from_uri(_url_for_pyarrow(url))
    except (pa.ArrowException, ValueError, TypeError, ImportError) as error:
        # The message may repeat the address.
        reason = str(error).replace(_url_for_pyarrow(url), shown).replace(url, shown).split("\n", 1)[0]
        raise ArchiveRefused(f"{shown} is no place for an archive: {reason}", value=shown) from None
    return file_system, path


def _url_for_pyarrow(url: str) -> str:
    # S3's other name, which Hadoop gave it.
    url = url.replace("s3a://", "s3://", 1)
    if url.startswith("s3://") and _sends_at_once() and _AT_ONCE not in url:
        url += f"{'&' if '?' in url else '?'}{_AT_ONCE}=true"
    return url


def _sends_at_once() -> bool:
    import pyarrow as pa

    return int(pa.__version__.partition(".")[0]) >= _AT_ONCE_SINCE


def _with_options(url: str, given: dict[str, Any]) -> "tuple[pa_fs.FileSystem, str]":
    """Raises ValueError, TypeError, ImportError."""
    import pyarrow.fs as pa_fs

    parts = urlsplit(url)
    if parts.scheme.startswith(_FSSPEC):
        import fsspec

        files, path = fsspec.url_to_fs(url.removeprefix(_FSSPEC), **given)
        return pa_fs.PyFileSystem(pa_fs.FSSpecHandler(files)), path
    name = _CLASSES.get(parts.scheme)
    if name is None:
        raise ValueError(f"{parts.scheme}:// takes no storage options, only those behind a ?")
    options = dict(parse_qsl(parts.query)) | {_WORDS_OF_S3FS.get(key, key): given[key] for key in given}
    endpoint = options.pop("endpoint_url", None)
    if endpoint is not None:
        scheme, _, options["endpoint_override"] = str(endpoint).rpartition("://")
        options["scheme"] = scheme or "https"
    if parts.username is not None:
        raise ValueError("it has a user in its address and storage options too: give one of them")
    if name == "S3FileSystem" and _sends_at_once():
        options.setdefault(_AT_ONCE, True)
    return getattr(pa_fs, name)(**options), f"{parts.netloc}{parts.path}"
