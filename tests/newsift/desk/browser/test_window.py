import pytest
from playwright.sync_api import Browser

from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.place import DeskProcess

WRONG = {
    "connect-src": "fetch('http://elsewhere.example/')",
    "another host": "open('http://elsewhere.example/')",
    "trusted-types": "document.body.innerHTML = '<b>x</b>'",
    "style-src": "document.body.setAttribute('style', 'color: red')",
    "error: thrown": "setTimeout(() => { throw new Error('thrown') })",
    "console: said": "console.error('said')",
    "dialog: seen": "alert('seen')",
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_forbidden_action_of_a_page_fails_the_test(
    browser: Browser, desk: DeskProcess, fault: str
) -> None:
    window = Window(browser, desk.address)
    page = window.open()
    page.evaluate(f"async () => {{ try {{ await ({WRONG[fault]}) }} catch {{}} }}")
    page.wait_for_timeout(100)
    with pytest.raises(AssertionError) as caught:
        window.close()
    assert fault in str(caught.value)
