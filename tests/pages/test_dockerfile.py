"""The image that docs/serve.md points to: its command serves, and ends as a container is stopped.

No image is built: a machine that runs the tests need not have Docker. The command is the file's, with another
directory and another port.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

from mqstore.client import RemoteBroker
from support.pages import free_port

DOCKERFILE = Path(__file__).parents[2] / "examples" / "serve.Dockerfile"


def test_the_command_of_the_image_serves_until_it_is_stopped(tmp_path: Path) -> None:
    lines = dict(line.split(" ", 1) for line in DOCKERFILE.read_text().splitlines())
    program, *arguments = json.loads(lines["ENTRYPOINT"])
    port = lines["EXPOSE"]
    assert (program, lines["VOLUME"], f"127.0.0.1:{port}" in arguments) == ("mqstore", "/data", True)
    free = str(free_port())
    places = {"/data": str(tmp_path / "data"), f"127.0.0.1:{port}": f"127.0.0.1:{free}"}
    command = [Path(sys.executable).with_name(program), *(places.get(each, each) for each in arguments)]
    with subprocess.Popen([*command, "--port", free], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            assert places[f"127.0.0.1:{port}"] in running.stderr.readline()
            with RemoteBroker(places[f"127.0.0.1:{port}"]) as broker:
                assert broker.name
        finally:
            running.send_signal(signal.Signals[lines["STOPSIGNAL"]])
    assert running.returncode == 0
