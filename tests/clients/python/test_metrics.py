"""The metrics of the admin port, as prometheus_client and promtool read them. Run by tests/clients/run."""

import os
import subprocess
import unittest
import urllib.request

import redis
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

URL = f"http://127.0.0.1:{os.environ['BROADLOOM_ADMIN_PORT']}/metrics"


def metrics(accept):
    request = urllib.request.Request(URL, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.read().decode()


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        client = redis.Redis(port=int(os.environ["BROADLOOM_PORT"]))
        for number in range(100):
            client.set(f"metrics:{number}", "x" * number)
            client.zadd("metrics:board", {f"member {number}": number})
        try:
            client.execute_command("NO\nSUCH \"command\"\\")
        except redis.ResponseError:
            pass
        client.close()

    def test_both_formats_have_the_same_samples(self):
        names = []
        for accept, families in (
            ("text/plain", prometheus_families),
            ("application/openmetrics-text; version=1.0.0", open_metrics_families),
        ):
            samples = [sample for family in families(metrics(accept)) for sample in family.samples]
            calls = {sample.labels["command"]: sample.value for sample in samples if sample.name == "broadloom_cmdstat_calls_total"}
            self.assertGreaterEqual(calls["zadd"], 100)
            names.append({sample.name for sample in samples})
        self.assertEqual(names[0], names[1])
        self.assertGreater(len(names[0]), 150)

    @unittest.skipUnless(os.environ["BROADLOOM_PROMTOOL"], "no promtool")
    def test_promtool_has_no_remark(self):
        checked = subprocess.run(
            [os.environ["BROADLOOM_PROMTOOL"], "check", "metrics"],
            input=metrics("text/plain"),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
