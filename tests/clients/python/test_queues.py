"""Job queues and locks with several workers: Celery, RQ, and the locks of pottery (Redlock) and redis-py. Each job ends, and runs
once. Run by tests/clients/run.
"""

import os
import subprocess
import sys
import threading
import time
import unittest

import redis
import rq
from pottery import Redlock

import queue_tasks

HERE = os.path.dirname(os.path.abspath(__file__))
JOB_COUNT = 200


def once(count):
    return {str(number).encode(): b"1" for number in range(count)}


def run_in_threads(count, body):
    failures = []

    def guarded(number):
        try:
            body(number)
        except Exception as failure:  # shown by the caller
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Queues(unittest.TestCase):
    def setUp(self):
        self.r = redis.Redis.from_url(f"{queue_tasks.URL}/0")
        self.addCleanup(self.r.close)
        self.r.flushall()

    def start(self, *command):
        environment = dict(os.environ, PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1")
        process = subprocess.Popen([sys.executable, *command], env=environment, cwd=HERE)

        def end():
            process.terminate()
            process.wait(30)

        self.addCleanup(end)
        return process

    def test_celery(self):
        for number in (1, 2):
            self.start("-m", "celery", "--quiet", "-A", "queue_tasks", "worker", "--concurrency", "3", "--loglevel", "ERROR",
                       "--hostname", f"worker{number}@broadloom", "--without-mingle", "--without-gossip")
        squares = [queue_tasks.square.delay(number) for number in range(JOB_COUNT)]
        retries = [queue_tasks.second_try.delay(number) for number in range(20)]
        sums = queue_tasks.celery.chord(
            [queue_tasks.square.s(number) for number in range(JOB_COUNT, JOB_COUNT + 30)], queue_tasks.total.s())()
        self.assertEqual([result.get(timeout=60) for result in squares], [n * n for n in range(JOB_COUNT)])
        self.assertEqual([result.get(timeout=60) for result in retries], list(range(20)))
        self.assertEqual(sums.get(timeout=60), sum(n * n for n in range(JOB_COUNT, JOB_COUNT + 30)))
        self.assertEqual(self.r.hgetall("celery"), once(JOB_COUNT + 30))
        self.assertEqual(self.r.hgetall("celery-retries"), {key: b"2" for key in once(20)})
        self.assertEqual(self.r.hgetall("celery-total"), {b"30": b"1"})

    def test_rq(self):
        connection = redis.Redis.from_url(f"{queue_tasks.URL}/3")
        self.addCleanup(connection.close)
        queue = rq.Queue("jobs", connection=connection)
        jobs = [queue.enqueue(queue_tasks.rq_square, number) for number in range(JOB_COUNT // 2)]
        retries = [queue.enqueue(queue_tasks.rq_second_try, n, retry=rq.Retry(max=1)) for n in range(10)]
        for name in ("rq.worker.SimpleWorker", "rq.worker.SimpleWorker", "rq.worker.Worker"):
            self.start("-m", "rq.cli", "worker", "--logging_level", "CRITICAL", "--url", f"{queue_tasks.URL}/3", "--worker-class", name, "jobs")
        deadline = time.monotonic() + 60
        unfinished = [*jobs, *retries]
        while unfinished and time.monotonic() < deadline:
            unfinished = [job for job in unfinished if not job.get_status(refresh=True).value == "finished"]
            time.sleep(0.05)
        self.assertEqual([(job.func_name, job.args, job.get_status()) for job in unfinished], [])
        self.assertEqual([job.return_value() for job in jobs], [n * n for n in range(JOB_COUNT // 2)])
        self.assertEqual(self.r.hgetall("rq"), once(JOB_COUNT // 2))
        self.assertEqual(self.r.hgetall("rq-retries"), {key: b"2" for key in once(10)})

    def test_redlock(self):
        self.r.set("counter", 0)

        def add(_):
            masters = {redis.Redis.from_url(f"{queue_tasks.URL}/{db}") for db in (4, 5, 6)}
            for _ in range(10):
                with Redlock(key="counter", masters=masters, auto_release_time=30):
                    # Not atomic without the lock.
                    self.r.set("counter", int(self.r.get("counter")) + 1)
            for master in masters:
                master.close()

        run_in_threads(6, add)
        self.assertEqual(self.r.get("counter"), b"60")

    def test_lock_of_the_client(self):
        self.r.set("counter", 0)

        def add(_):
            for _ in range(20):
                with self.r.lock("lock", timeout=30, sleep=0.001) as lock:
                    self.r.set("counter", int(self.r.get("counter")) + 1)
                    lock.reacquire()

        run_in_threads(6, add)
        self.assertEqual(self.r.get("counter"), b"120")
        self.assertFalse(self.r.exists("lock"))

    def test_scripts_of_the_client(self):
        move = self.r.register_script(
            "local job = redis.call('RPOP', KEYS[1]) if job then redis.call('HINCRBY', ARGV[1], job, 1) end return job")
        self.r.lpush("jobs", *range(JOB_COUNT))

        def work(_):
            while move(keys=["jobs"], args=["undeclared"]) is not None:
                pass

        run_in_threads(6, work)
        self.assertEqual(self.r.hgetall("undeclared"), once(JOB_COUNT))
        pipeline = self.r.pipeline(transaction=True)
        self.r.lpush("jobs", 1, 2)
        move(keys=["jobs"], args=["undeclared"], client=pipeline)
        pipeline.llen("jobs")
        self.assertEqual(pipeline.execute(), [b"1", 1])


if __name__ == "__main__":
    unittest.main()
