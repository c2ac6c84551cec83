"""A Jupyter server on loopback and a headless Chromium that opens notebooks in it, for the tests of
what a person sees.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "einalg"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_BROWSER = "needs Chromium: apt-get install chromium, or python -m playwright install chromium (extra `browser`)"
SECONDS = 60.0  # to start
MILLISECONDS = 90_000  # for what a page is waited for
OPEN = """name => {
    const context = window.jupyterapp?.shell.currentWidget?.context;
    return context?.path === name && context.isReady;
}"""
RUN = """async () => {
    const app = window.jupyterapp;
    await app.shell.currentWidget.sessionContext.ready;
    if (app.shell.leftCollapsed === false) await app.commands.execute('application:toggle-left-area');
    app.commands.execute('notebook:run-all-cells').then(() => { window.done = true; });
}"""


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def jupyter(folder: Path) -> Iterator[str]:
    """A server of JupyterLab and Notebook 7 with the notebooks of a folder and settings of its own;
    gives its address.
    """
    at = port()
    settings = {
        f"JUPYTER_{kind}_DIR": str(folder / "settings" / kind.lower())
        for kind in ("CONFIG", "DATA", "RUNTIME")
    }
    ipython = {
        "IPYTHONDIR": str(folder / "settings" / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings" / "lab"),
    }
    environment = {**os.environ, **settings, **ipython, "PYTHONPATH": str(ROOT)}
    options = [
        *(
            "--no-browser",
            "--allow-root",
            f"--ServerApp.port={at}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={TOKEN}",
        ),
        *(
            f"--ServerApp.root_dir={folder}",
            "--LabApp.expose_app_in_browser=True",
            "--JupyterNotebookApp.expose_app_in_browser=True",
        ),
    ]
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "server", *options],
            env=environment,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            address = f"http://127.0.0.1:{at}"
            _wait_for(f"{address}/api?token={TOKEN}", server, log)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the Jupyter server does not answer:\n{log.read_text()[-3000:]}")


@contextmanager
def browser():
    """A headless Chromium: that of the system, else that of playwright; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason=NO_BROWSER)
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with playwright.sync_playwright() as running:
        try:
            started = running.chromium.launch(
                executable_path=found, args=["--no-sandbox"]
            )  # which a container does not allow
        except playwright.Error as error:
            pytest.skip(f"{NO_BROWSER}\n{error}")
        try:
            yield started
        finally:
            started.close()


def opened(browser, address, name, interface="lab", wait=True):
    """The page of a notebook whose cells run; with `wait`, they have. `window.done` says so
    otherwise.
    """
    page = browser.new_page(viewport={"width": 1280, "height": 1500})
    page.set_default_timeout(MILLISECONDS)
    where = {"lab": f"lab/workspaces/{Path(name).stem}/tree", "notebook": "notebooks"}[interface]
    page.goto(f"{address}/{where}/{name}?token={TOKEN}")
    page.wait_for_function(OPEN, arg=name)
    page.evaluate(RUN)
    if wait:
        page.wait_for_function("() => window.done")
    return page
