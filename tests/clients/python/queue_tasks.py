"""The tasks that the workers of test_queues.py run: each notes in a hash how often it has run."""

import os

import celery
import redis

URL = f"redis://127.0.0.1:{os.environ['BROADLOOM_PORT']}"
app = celery.Celery("queue_tasks", broker=f"{URL}/1", backend=f"{URL}/2")
app.conf.update(
    worker_prefetch_multiplier=2,
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 60},
)
notes = redis.Redis.from_url(f"{URL}/0")


def note(kind, number):
    return notes.hincrby(kind, number, 1)


@app.task
def square(number):
    note("celery", number)
    return number * number


@app.task
def total(numbers):
    note("celery-total", len(numbers))
    return sum(numbers)


@app.task(bind=True, max_retries=1, default_retry_delay=0)
def second_try(self, number):
    if note("celery-retries", number) == 1:
        raise self.retry()
    return number


def rq_square(number):
    note("rq", number)
    return number * number


def rq_second_try(number):
    if note("rq-retries", number) == 1:
        raise ValueError("the first try fails")
    return number
