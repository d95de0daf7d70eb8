"""A real browser for the tests: Chromium without a window, the messages of its console, and axe's checks."""

import importlib.util
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"]
FLAGS += ["disable-component-update", "disable-sync"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browser(folder, width=1280, height=900):
    """A browser with an empty profile in ``folder``."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    chromedriver = shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        pytest.skip("no browser or no driver: apt-get install -y chromium chromium-driver")
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    options.add_argument(f"--window-size={width},{height}")
    options.add_experimental_option("prefs", {"download.default_directory": str(folder / "downloads")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = binary
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    driver.set_script_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()


def until(what, seconds=30):
    """Wait until a function returns something true, and return that."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


def console(driver):
    """What the page has complained of since last asked."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]


def media(driver, **features):
    """Set media features, such as ``prefers_color_scheme="dark"``."""
    wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})


def phone(driver, width=390, height=844):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": True}
    )


def violations(driver):
    """What axe finds at fault, one line each: rule, impact and the first places."""
    package = Path(importlib.util.find_spec("axe_playwright_python").origin).parent  # it carries axe itself
    driver.execute_script((package / "axe.min.js").read_text(encoding="utf-8"))
    found = driver.execute_async_script("axe.run(document).then(arguments[0], (e) => arguments[0](String(e)))")
    assert isinstance(found, dict), found
    return [f"{v['id']} ({v['impact']}): {[n['html'][:160] for n in v['nodes'][:3]]}" for v in found["violations"]]
