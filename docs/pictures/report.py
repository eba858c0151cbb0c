"""Screenshot report.png of the demo's report: ``python docs/pictures/report.py`` (needs playwright and Chromium)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from palda.cli.commands.demo import demo

WIDTH, HEIGHT = 1200, 1160


def main() -> None:
    """Run the demo in a temporary folder and take a screenshot of its report."""
    chromium = os.environ.get("PALDA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with TemporaryDirectory() as folder, sync_playwright() as running:
        demo(Path(folder), quiet=True)
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = running.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto((Path(folder) / "report.html").as_uri())
        page.screenshot(path=Path(__file__).with_suffix(".png"))
        browser.close()


if __name__ == "__main__":
    main()
