"""What the site has besides the pages of docs/: pages of the root, lists of pages, sources for the reference.

MkDocs calls the functions by their names. Pages stay where they are, with links that work in a checkout; here
a link to a page of the root leads to its copy in the site, a picture is taken along, and a link to another
file of the checkout becomes its path, for the site has no copy of it. A link to
nothing is left, and fails the build.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = [
    "on_config",
    "on_files",
    "on_page_content",
    "on_page_markdown",
    "on_post_page",
    "on_post_template",
]

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "build" / "reference" / "mqstore"
ROOT_PAGES = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LISTED = {"format": "Format pages", "decisions": "Decisions"}
LAYERS = (
    "store",
    "index",
    "schedule",
    "broker",
    "client",
    "remoting",
    "observability",
    "server",
    "testing",
    "tools",
)
PICTURES = (".png", ".svg")

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_SCROLLS = re.compile(r"<(pre|table)>")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lay out the sources as they are installed, mqstore/store and so on, for the reference."""
    shutil.rmtree(REFERENCE, ignore_errors=True)
    python_only = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.cpp")
    for layer in ("mqstore", *LAYERS):
        target = REFERENCE if layer == "mqstore" else REFERENCE / layer
        shutil.copytree(ROOT / layer, target, ignore=python_only)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages of the root, the lists, and pictures that pages show and docs/ does not hold."""
    for name, target in ROOT_PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / name).read_text("utf-8")))
    for folder, title in LISTED.items():
        content = _list_of(ROOT / "docs" / folder, title)
        files.append(File.generated(config, f"{folder}/index.md", content=content))
    for picture in sorted(set(_pictures(files))):
        files.append(File.generated(config, picture, abs_src_path=str(ROOT / picture)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links where the site has what they name."""
    return _LINK.sub(lambda link: _led(link, page.file.src_uri), markdown)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the keyboard scroll what scrolls sideways; an empty corner of a table is no header."""
    return _SCROLLS.sub(r'<\1 tabindex="0">', html).replace("<th></th>", "<td></td>")


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Name what the theme leaves without a name for those who listen to a page."""
    return _named(output)


def on_post_template(output_content: str, *, template_name: str, config: MkDocsConfig) -> str:
    """Do the same with the page for an address that is not there."""
    return _named(output_content)


def _named(html: str) -> str:
    return html.replace('role="dialog">', 'role="dialog" aria-label="Search">')


def _source_of(uri: str) -> str:
    """Where the text of a page lies, from the root."""
    return next((name for name, target in ROOT_PAGES.items() if target == uri), f"docs/{uri}")


def _led(link: re.Match[str], uri: str) -> str:
    text, target, anchor = link[1], link[2], link[3] or ""
    if ":" in target:
        return link[0]
    named = normpath(str(PurePosixPath(_source_of(uri)).parent / target))
    if not (ROOT / named).exists():
        return link[0]
    if named in ROOT_PAGES:
        inside = ROOT_PAGES[named]
    elif named.removeprefix("docs/") in LISTED:
        inside = named.removeprefix("docs/") + "/index.md"
    elif named.startswith("docs/") and named.endswith(".md"):
        inside = named.removeprefix("docs/")
    elif named.endswith(PICTURES):
        inside = named
    else:
        return text if f"`{named}`" == text else f"{text} (`{named}` in the sources)"
    return f"[{text}]({relpath(inside, str(PurePosixPath(uri).parent))}{anchor})"


def _pictures(files: Files) -> Iterator[str]:
    for file in files.documentation_pages():
        for link in _LINK.finditer(file.content_string):
            named = normpath(str(PurePosixPath(_source_of(file.src_uri)).parent / link[2]))
            if named.endswith(PICTURES) and not named.startswith("docs/") and (ROOT / named).is_file():
                yield named


def _list_of(folder: Path, title: str) -> str:
    lines = [f"# {title}", ""]
    for page in sorted(folder.glob("*.md")):
        first = _TITLE.search(page.read_text("utf-8"))
        lines.append(f"- [{first[1] if first else page.stem}]({page.name})")
    return "\n".join(lines) + "\n"
