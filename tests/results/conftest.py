import shutil
from contextlib import contextmanager

import pytest

from tests.rules.conftest import run, sound_result, sound_run

__all__ = ["run", "sound_result", "sound_run"]


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium with Debian's driver; its window is 1280 by 900."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("this machine has no Chromium with its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield started
    started.quit()


@pytest.fixture
def phone(browser):
    """The browser with the screen of a phone."""
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    with emulated(browser, "setDeviceMetricsOverride", metrics, "clearDeviceMetricsOverride", {}):
        yield browser


@pytest.fixture
def paper(browser):
    """The browser as it prints on A4, 19 cm wide within its margins."""
    metrics = {"width": 718, "height": 1047, "deviceScaleFactor": 1, "mobile": False}
    with (
        emulated(browser, "setDeviceMetricsOverride", metrics, "clearDeviceMetricsOverride", {}),
        emulated(browser, "setEmulatedMedia", {"media": "print"}, "setEmulatedMedia", {"media": ""}),
    ):
        yield browser


@contextmanager
def emulated(browser, command, values, undo, undone):
    browser.execute_cdp_cmd(f"Emulation.{command}", values)
    try:
        yield
    finally:
        browser.execute_cdp_cmd(f"Emulation.{undo}", undone)
