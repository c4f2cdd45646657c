"""What all commands share: version, help, exit codes, and errors in one line or one object.

Run through Click's runner, so exactly as from a shell but for the process.
"""

import gc
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import click
import msgspec
import pytest

from mqstore import __version__
from mqstore.message_store import MessageStore
from mqstore.tools.cli import app as entry_point
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.command_table import app
from mqstore.tools.cli.parameter_types import ShellPath
from support.command_line import ORDER_CONFIG, run
from support.sources import ROOT

COMMANDS = (
    *("demo", "put", "ingest", "get", "tail", "query", "export", "topics", "stats", "dump"),
    *("verify", "repair", "rebuild", "top"),
    *("topics create", "topics update", "groups create", "groups update"),
)


def test_version() -> None:
    """`mqstore --version` names the installed version, and where the compiled loops come from."""
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"mqstore {__version__}, loops ")


def test_the_version_is_that_of_the_package() -> None:
    """What `--version` prints is read from the code, and what pip shows from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["version"] == __version__


@pytest.mark.parametrize("words", [("topics",), ("dlq", "list")])
def test_a_command_has_its_garbage_collected(orders: Path, words: tuple[str, ...]) -> None:
    """The entry point turns the collector off for the start; a command, also one of a group, has it on."""
    gc.disable()
    try:
        assert run(*words, orders).exit_code == 0
        assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


def test_help_lists_every_command_and_the_exit_codes() -> None:
    """The first page names the commands and what the process answers."""
    result = run("--help")
    assert all(command in result.stdout for command in COMMANDS)
    assert "3 store locked" in " ".join(result.stdout.split())


@pytest.mark.parametrize("words", [(), ("dlq",)])
def test_without_a_command_the_help_is_shown(words: tuple[str, ...]) -> None:
    """On standard output, and with the exit code of wrong usage."""
    result = run(*words)
    assert (result.exit_code, result.stderr) == (2, "")
    assert result.stdout == run(*words, "--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_and_an_example(command: str) -> None:
    """--json everywhere, and an example in each help text."""
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert "Example: mqstore" in result.stdout


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("topicList", "topics"),
        ("deleteTopic", "topics"),
        ("consumerProgress", "offsets"),
        ("resetOffsetByTime", "offsets"),
        ("queryMsgById", "query"),
        ("queryMsgByKey", "query"),
        ("queryMsgByOffset", "query"),
        ("deleteSubGroup", "groups"),
        ("updateTopic", "topics update"),
        ("updateTopicPerm", "topics update"),
        ("updateSubGroup", "groups update"),
    ],
)
def test_mqadmins_names_are_the_same_commands(alias: str, name: str) -> None:
    """Known, and left out of the first page."""
    shown = run(*name.split(), "--help").stdout
    assert run(alias, "--help").stdout.replace(alias, name).split() == shown.split()
    assert alias not in run("--help").stdout


@pytest.mark.parametrize("command", [("get", "orders"), ("tail", "orders"), ("topics",), ("stats",)])
def test_no_store_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A path without a store: exit code 1, one line that names it, and nothing created."""
    name, *topic = command
    result = run(name, tmp_path / "missing", *topic)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "missing holds no store" in result.stderr
    assert not (tmp_path / "missing").exists()


def test_an_error_is_an_object_with_json(tmp_path: Path) -> None:
    """With --json the error names its kind, its sentence and the exit code."""
    result = run("stats", tmp_path / "missing", "--json")
    error = msgspec.json.decode(result.stderr, type=dict[str, object])
    assert (error["error"], error["exitCode"], result.exit_code) == ("StoreNotFound", 1, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("putt",), "did you mean 'put'"),
        (("get", "data", "orders", "--cuont", "1"), "--cuont"),
        (("get",), "STORE"),
        (("query", "data"), "give one of --key, --id and --offset"),
        (("--wrong", "get"), "--wrong"),
    ],
)
def test_wrong_usage_is_an_object_with_json(words: tuple[str, ...], told: str) -> None:
    """As any other error; without --json it is Click's lines."""
    result = run(*words, "--json")
    error = msgspec.json.decode(result.stderr, type=dict[str, object])
    assert (error["error"], error["exitCode"], result.exit_code) == ("UsageError", 2, 2)
    assert told in str(error["message"])
    assert run(*words).stderr.startswith("Usage: ")


def test_what_stands_behind_two_hyphens_is_no_option() -> None:
    """A body may be --json."""
    assert run("put", "data", "orders", "--wrong", "--", "--json").stderr.startswith("Usage: ")


@pytest.mark.parametrize(("name", "near"), [("putt", "'put'"), ("topicLst", "'topicList'"), ("xyz", "")])
def test_an_unknown_command_is_answered_with_the_nearest(name: str, near: str) -> None:
    """Where there is one."""
    result = run(name)
    hint = f": did you mean {near}?" if near else ""
    assert (result.exit_code, result.stderr.endswith(f"there is no command {name!r}{hint}\n")) == (2, True)


def test_a_locked_store_answers_3(orders: Path) -> None:
    """Writing beside a writer is refused, reading is not."""
    with MessageStore.open(orders, ORDER_CONFIG):
        locked = run("put", orders, "orders", "x")
        assert (locked.exit_code, locked.stderr.count("\n")) == (3, 1)
        assert "has the store open already" in locked.stderr
        assert run("get", orders, "orders").exit_code == 0


def test_a_damaged_state_file_answers_4(orders: Path) -> None:
    """A topics.json that is garbage, and a .bak that is, too: corruption, and both stay as they are."""
    for name in ("topics.json", "topics.json.bak"):
        (orders / "config" / name).write_bytes(b"garbage")
    result = run("put", orders, "orders", "x")
    assert result.exit_code == 4
    assert "topics.json" in result.stderr
    assert (orders / "config" / "topics.json").read_bytes() == b"garbage"


def test_segments_of_different_sizes_answer_4(orders: Path) -> None:
    """A segment that was cut is damage."""
    (orders / "commitlog" / f"{131_072:020}").write_bytes(bytes(1000))
    result = run("get", orders, "orders")
    assert result.exit_code == 4
    assert "1000" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("get",),
        ("get", "STORE", "orders", "--count", "0"),
        ("get", "STORE", "orders", "--offset", "1", "--time", "0"),
        ("get", "STORE", "orders", "--time", "yesterday"),
        ("query", "STORE"),
        ("query", "STORE", "--key", "o-1"),
        ("query", "STORE", "--id", "zz"),
        ("query", "STORE", "--offset", "0", "--begin", "0"),
        ("query", "STORE", "--offset", "0", "--count", "1"),
        ("put", "STORE", "no spaces allowed", "x"),
        ("put", "STORE", "orders", "x", "--property", "novalue"),
        ("put", "STORE", "orders", "x", "--key", "a", "--property", "KEYS=b"),
        ("put", "STORE", "orders", "x", "--tag", "a", "--property", "TAGS=b"),
        ("put", "STORE", "orders", "x", "--delay-level", "1", "--property", "DELAY=2"),
        ("put", "STORE", "orders", "x", "--delay-level", "-1"),
        ("put", "STORE", "orders", "x", "--queue", "-1"),
        ("put", "STORE", "orders", "x", "-o", "max_mesage_size=5"),
        ("put", "STORE", "orders", "x", "-o", "novalue"),
        ("put", "STORE", "orders", "x", "-o", "max_message_size=many"),
        ("put", "STORE", "orders", "x", "-o", "mapped_file_size_commit_log=1000000"),
        ("put", "STORE", "orders", "x", "-o", "message_delay_level=soon"),
        ("dump", "STORE"),
        ("ingest", "STORE", "file.xyz", "--topic", "orders"),
        ("export", "STORE"),
        ("export", "STORE", "--out", "orders.xyz"),
        ("export", "STORE", "--out", "orders.csv", "--columns", "queueOffset"),
        ("export", "STORE", "--out", "orders.csv", "--compression", "snappy"),
        ("export", "STORE", "--out", "orders.csv", "--begin", "yesterday"),
        ("export", "STORE", "--out", "orders.csv", "--topic", "orders", "--all"),
        ("export", "STORE", "--out", "orders.parquet", "--base64"),
        ("export", "STORE", "--out", "no_such_folder/orders.csv"),
    ],
    ids=" ".join,
)
def test_wrong_usage_answers_2_and_changes_nothing(orders: Path, arguments: tuple[str, ...]) -> None:
    """Wrong names, options and settings are told apart from problems, and nothing is stored."""
    before = run("topics", orders, "--json").stdout
    result = run(*(orders if argument == "STORE" else argument for argument in arguments))
    assert result.exit_code == 2, result.stderr
    assert run("topics", orders, "--json").stdout == before


def test_an_unknown_setting_is_answered_with_the_nearest(orders: Path) -> None:
    """A misspelt key names the one that was meant."""
    result = run("put", orders, "orders", "x", "-o", "max_mesage_size=5")
    assert "did you mean 'max_message_size'?" in result.stderr


def test_a_command_does_not_wait_for_the_others() -> None:
    """Nothing of the other commands is imported: neither their modules, nor the tools behind them."""
    program = (
        "import sys; from mqstore.tools.cli.command_table import app; import click; "
        "app.get_command(click.Context(app), 'serve'); print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = ended.stdout.split()
    assert "mqstore.tools.cli.serving.serve" in loaded
    others = ("messages", "maintenance", "dead_letters", "spark", "ui")
    tools = ("mqstore.verify", "mqstore.tools.export", "mqstore.tools.spark", "mqstore.tools.archive")
    wanted = tuple(f"mqstore.tools.cli.{other}" for other in others) + tools
    assert not [name for name in loaded if name.startswith(wanted)]


def test_main_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Click the entry point ends in a sentence, not in a traceback."""
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "mqstore.tools.cli.command_table", raising=False)
    try:
        with pytest.raises(SystemExit) as ended:
            entry_point.main()
    finally:
        gc.enable()
    # Text is written to standard error, and the process ends with 1.
    assert "pip install click" in str(ended.value.code)


def all_commands(group: click.Group = app) -> Iterator[tuple[str, click.Command]]:
    """Each command with its name, those of groups too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", of_group) for each, of_group in all_commands(command))
        else:
            yield name, command


def test_every_command_is_one_of_ours() -> None:
    """So its help has arguments and examples, and it has its garbage collected."""
    found = dict(all_commands())
    assert len(found) > 40
    assert not [name for name, command in found.items() if not isinstance(command, Command)]


def test_an_example_is_in_one_line() -> None:
    """So that it can be copied, also where it is longer than the terminal is wide."""
    example = "  Example: mqstore dlq resend data billing --all --from-topic orders --apply"
    shown = run("dlq", "resend", "--help", env={"COLUMNS": "40"}).stdout.splitlines()
    assert example in shown


def test_the_help_has_the_arguments() -> None:
    """With a sentence about each; brackets say that one may be left out."""
    shown = run("put", "--help").stdout
    assert "  STORE   Directory of the store, written by mqstore or by RocketMQ.\n" in shown
    assert "  [BODY]  The body; - for standard input" in shown


def path_parameters() -> Iterator[tuple[str, click.Parameter]]:
    """(command and parameter, the parameter) of all that give a path."""
    for name, command in all_commands():
        assert command.callback is not None
        kinds = get_type_hints(command.callback)
        for parameter in command.params:
            if "Path" in str(kinds.get(parameter.name or "")) or isinstance(parameter.type, click.Path):
                yield f"{name} {parameter.name}", parameter


def test_every_path_knows_the_home_directory() -> None:
    """A shell expands ~ in `data` and not in --config=~/x or 'quoted': all paths go through one rule."""
    found = dict(path_parameters())
    assert len(found) > 60
    assert not [name for name, parameter in found.items() if not isinstance(parameter.type, ShellPath)]


def test_a_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As argument and as option; without a home, the command is wrongly called."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "small.toml").write_text("mapped_file_size_consume_queue = 2000")
    assert run("put", "~/data", "orders", "x", "--config=~/small.toml").exit_code == 0
    assert (tmp_path / "data" / "commitlog").is_dir()
    missing = run("put", "~/data", "orders", "x", "--config=~/none.toml")
    assert missing.exit_code == 2
    refused = run("stats", "~nobody-has-this-name/data")
    told = " ".join(refused.stderr.split())
    assert (refused.exit_code, "begins in a home directory" in told) == (2, True)
