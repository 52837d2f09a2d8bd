// node-redis: connecting in RESP2 and RESP3, pipelines, scans, buffers.
// Run by tests/clients/run, which sets BROADLOOM_PORT and BROADLOOM_SOCKET.
import assert from "node:assert/strict";
import { test } from "node:test";
import { RESP_TYPES, createClient } from "redis";

const url = `redis://127.0.0.1:${process.env.BROADLOOM_PORT}`;

for (const RESP of [2, 3]) {
  test(`RESP${RESP}`, async () => {
    const r = await createClient({ url, RESP, name: "tester", database: 3 }).connect();
    try {
      await r.flushDb();
      assert.equal(await r.set("k", "v", { EX: 100, NX: true }), "OK");
      assert.equal(await r.set("k", "w", { NX: true }), null);
      assert.equal(await r.get("k"), "v");
      assert.equal(await r.clientGetName(), "tester");
      const info = await r.clientInfo();
      assert.deepEqual([info.name, info.db, info.resp], ["tester", 3, RESP]);

      // Commands of one tick are sent as one pipeline.
      const replies = await Promise.all(Array.from({ length: 2000 }, (_, i) => r.set(`scan:${i}`, String(i))));
      assert.ok(replies.every((reply) => reply === "OK"));
      const found = new Set();
      for await (const keys of r.scanIterator({ MATCH: "scan:*", COUNT: 100 })) keys.forEach((key) => found.add(key));
      assert.equal(found.size, 2000);

      const large = Buffer.alloc(8 * 1024 * 1024, 7);
      await r.set("large", large);
      const buffers = r.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
      assert.ok(large.equals(await buffers.get("large")));

      assert.deepEqual(await r.mGet(["scan:1", "none"]), ["1", null]);
      assert.equal(await r.incrBy("n", 5), 5);
      assert.deepEqual({ ...(await r.configGet("maxmemory-policy")) }, { "maxmemory-policy": "noeviction" });
      await assert.rejects(r.incr("k"), /not an integer/);
      await r.flushDb();
    } finally {
      r.destroy();
    }
  });
}
