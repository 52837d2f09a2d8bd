// BullMQ: several workers, delayed and repeated jobs, parents with children. Each job ends, and runs once.
// Run by tests/clients/run, which sets BROADLOOM_PORT and BROADLOOM_SOCKET.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";

const connection = { host: "127.0.0.1", port: Number(process.env.BROADLOOM_PORT), maxRetriesPerRequest: null };

// Runs jobs with several workers; the body has the queue's name, and `runs` counts the runs of each job by its name.
async function withWorkers(name, process, body) {
  const runs = new Map();
  const count = (job) => runs.set(job.name, (runs.get(job.name) ?? 0) + 1);
  const workers = [1, 2, 3].map(
    () => new Worker(name, async (job) => (count(job), process(job)), { connection, concurrency: 10 }),
  );
  const queue = new Queue(name, { connection });
  const events = new QueueEvents(name, { connection });
  try {
    await Promise.all([...workers, queue, events].map((part) => part.waitUntilReady()));
    await body(queue, events, runs);
  } finally {
    await Promise.all(workers.map((worker) => worker.close()));
    await Promise.all([queue.close(), events.close()]);
  }
}

const finish = (jobs, events) => Promise.all(jobs.map((job) => job.waitUntilFinished(events, 60_000)));

test("jobs run once each", { timeout: 90_000 }, async () => {
  const r = new Redis(connection);
  await r.flushall();
  r.disconnect();
  await withWorkers("jobs", (job) => job.data.number * 2, async (queue, events, runs) => {
    const numbers = Array.from({ length: 500 }, (_, number) => number);
    const options = (number) => ({
      ...(number % 10 === 0 && { delay: 50 }),
      ...(number % 7 === 0 && { priority: 1 + (number % 3) }),
    });
    const jobs = await queue.addBulk(
      numbers.map((number) => ({ name: `job${number}`, data: { number }, opts: options(number) })),
    );
    assert.deepEqual(await finish(jobs, events), numbers.map((number) => number * 2));
    assert.deepEqual(new Set(runs.values()), new Set([1]));
    assert.equal(runs.size, numbers.length);
    const { completed, failed, waiting, active, delayed } = await queue.getJobCounts();
    assert.deepEqual([completed, failed, waiting, active, delayed], [numbers.length, 0, 0, 0, 0]);
  });
});

test("a failed job is tried again", { timeout: 90_000 }, async () => {
  const process = (job) => {
    if (job.attemptsMade === 0) throw new Error("the first try fails");
    return job.attemptsMade;
  };
  await withWorkers("tries", process, async (queue, events, runs) => {
    const opts = { attempts: 2, backoff: { type: "fixed", delay: 20 } };
    const jobs = await queue.addBulk(
      Array.from({ length: 50 }, (_, number) => ({ name: `job${number}`, data: {}, opts })),
    );
    assert.deepEqual(new Set(await finish(jobs, events)), new Set([1]));
    assert.deepEqual(new Set(runs.values()), new Set([2]));
  });
});

test("a parent runs after its children", { timeout: 90_000 }, async () => {
  const process = async (job) =>
    job.name.startsWith("parent")
      ? Object.values(await job.getChildrenValues()).reduce((sum, value) => sum + value, 0)
      : job.data.value;
  await withWorkers("families", process, async (queue, events, runs) => {
    const flows = new FlowProducer({ connection });
    const children = Array.from({ length: 5 }, (_, value) => value);
    const trees = await flows.addBulk(
      Array.from({ length: 20 }, (_, number) => ({
        name: `parent${number}`,
        queueName: "families",
        children: children.map((value) => ({
          name: `child${number}-${value}`,
          queueName: "families",
          data: { value },
        })),
      })),
    );
    assert.deepEqual(await finish(trees.map((tree) => tree.job), events), Array(20).fill(10));
    assert.deepEqual([runs.size, new Set(runs.values())], [20 * 6, new Set([1])]);
    await flows.close();
  });
});
