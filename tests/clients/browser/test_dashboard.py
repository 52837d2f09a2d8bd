"""The dashboard in Chromium: every view, by keyboard too, on a phone, with hostile names, and without other hosts.

Run by tests/clients/run. With BROADLOOM_SCREENSHOTS set to a directory, each view is saved there.
"""

import os
import re
import threading
import time
import unittest
from urllib.parse import urlsplit

import redis
from playwright.sync_api import expect, sync_playwright

PORT = int(os.environ["BROADLOOM_PORT"])
URL = f"http://127.0.0.1:{os.environ['BROADLOOM_ADMIN_PORT']}/"
VIEWS = ("Overview", "Commands", "Memory and keys", "Workers", "Persistence", "Replication", "Links")
expect.set_options(timeout=30_000)
HOSTILE = "<img/src=x/onerror=alert(1)>"


def load(client, stop):
    """Some requests of every kind until `stop` is set."""
    number = 0
    while not stop.is_set():
        with client.pipeline(transaction=False) as pipeline:
            for _ in range(50):
                number += 1
                pipeline.set(f"key:{number % 5000}", "v" * (number % 700), ex=600 if number % 3 else None)
                pipeline.get(f"key:{number * 7 % 9000}")
                pipeline.zadd("board", {f"player {number % 300}": number})
                pipeline.hset(f"session:{number % 100}", mapping={"user": number, "page": "/"})
                pipeline.lpush("queue", number)
                pipeline.ltrim("queue", 0, 500)
            pipeline.execute()
        try:
            client.execute_command("EVAL", f"return redis.error_reply('{HOSTILE} text')", 0)
        except redis.ResponseError:
            pass
        time.sleep(0.01)


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = redis.Redis(port=PORT)
        cls.client.set(HOSTILE, "x" * 1_000_000)
        cls.stop = threading.Event()
        cls.loader = threading.Thread(target=load, args=(cls.client, cls.stop), daemon=True)
        cls.loader.start()
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(
            executable_path=os.environ["BROADLOOM_CHROMIUM"], args=["--no-sandbox", "--disable-gpu"]
        )

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.stop.set()
        cls.loader.join()
        cls.client.close()

    def open(self, **options):
        """A page, whose faults are collected."""
        context = self.browser.new_context(**options)
        self.addCleanup(context.close)
        page = context.new_page()
        self.faults, self.hosts = [], set()
        page.on("console", lambda message: message.type == "error" and self.faults.append(message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.goto(URL)
        expect(page.get_by_text("ready", exact=True).first).to_be_visible()
        return page

    def assert_clean(self):
        self.assertEqual(self.faults, [])
        self.assertEqual(self.hosts, {urlsplit(URL).netloc})

    def show(self, page, view):
        page.get_by_role("tab", name=view).click()
        expect(page.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")

    def screenshot(self, page, name):
        directory = os.environ.get("BROADLOOM_SCREENSHOTS")
        if directory:
            page.wait_for_timeout(3000)
            page.screenshot(path=os.path.join(directory, f"{name}.png"))

    def test_each_view_shows_figures(self):
        page = self.open(viewport={"width": 1200, "height": 900})
        for view in VIEWS:
            self.show(page, view)
            expect(page.get_by_role("tabpanel")).to_have_count(1)
            expect(page.get_by_role("tabpanel")).to_have_text(re.compile(r".{30,}", re.DOTALL))
            self.assertNotIn("undefined", page.inner_text("body"), view)
            self.assertNotIn("NaN", page.inner_text("body"), view)
            self.screenshot(page, view.lower().replace(" ", "-"))
        self.show(page, "Commands")
        expect(page.get_by_role("tabpanel")).to_contain_text("zadd")
        self.show(page, "Overview")
        expect(page.get_by_role("tabpanel").locator("svg").first).to_be_visible()
        self.assert_clean()

    def test_names_from_clients_are_text(self):
        page = self.open()
        self.show(page, "Commands")
        expect(page.get_by_role("tabpanel")).to_contain_text(HOSTILE)
        self.assertEqual(page.locator("img").count(), 0)
        self.assert_clean()

    def test_tabs_work_with_the_keyboard(self):
        page = self.open()
        page.get_by_role("tab", name="Overview").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Commands")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("tab", name="Commands")).to_have_attribute("aria-selected", "true")
        self.assert_clean()

    def test_a_phone_needs_no_scrolling_to_the_side(self):
        page = self.open(viewport={"width": 390, "height": 800}, color_scheme="dark")
        for view in VIEWS:
            self.show(page, view)
            width = page.evaluate("document.documentElement.scrollWidth")
            self.assertLessEqual(width, 390, view)
        self.show(page, "Overview")
        self.screenshot(page, "phone")
        self.assert_clean()

    def test_new_samples_arrive(self):
        page = self.open()
        with page.expect_response(lambda response: response.url.endswith("/api/figures")):
            pass
        self.assertEqual(
            page.evaluate(
                "new Promise(done => { const live = new EventSource('/api/live');"
                " live.onmessage = event => { live.close(); done(JSON.parse(event.data).length) } })"
            ),
            3,
        )
        self.assert_clean()

    def test_the_page_is_small(self):
        page = self.open()
        sizes = page.evaluate(
            "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
            ".filter(entry => !entry.name.includes('/api/')).map(entry => entry.decodedBodySize)"
        )
        self.assertGreater(sum(sizes), 5_000)
        self.assertLess(sum(sizes), 300_000)


if __name__ == "__main__":
    unittest.main()
