// ioredis: typical application use of strings, bitmaps and keys.
// Run by tests/clients/run, which sets BROADLOOM_PORT and BROADLOOM_SOCKET.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { Redis } from "ioredis";

const port = Number(process.env.BROADLOOM_PORT);
const opened = [];
const connect = (options = {}) => {
  const client = new Redis({ host: "127.0.0.1", port, ...options });
  client.on("error", () => {}); // Errors show in the commands.
  opened.push(client);
  return client;
};
let r;
before(() => (r = connect()));
beforeEach(() => r.flushall());
after(() => opened.forEach((client) => client.disconnect()));

test("the ready check passes", async () => {
  const client = connect({ enableReadyCheck: true });
  await new Promise((ready) => client.once("ready", ready));
  assert.equal(client.status, "ready");
});

test("set with options", async () => {
  assert.equal(await r.set("k", "1"), "OK");
  assert.equal(await r.set("k", "2", "NX"), null);
  assert.equal(await r.set("k", "3", "EX", 100, "GET"), "1");
  assert.ok((await r.ttl("k")) > 90);
  assert.equal(await r.getex("k", "PERSIST"), "3");
  assert.equal(await r.ttl("k"), -1);
  assert.equal(await r.getdel("k"), "3");
});

test("numbers and strings", async () => {
  assert.deepEqual([await r.incr("n"), await r.incrby("n", 9), await r.decr("n")], [1, 10, 9]);
  assert.equal(await r.incrbyfloat("f", 0.5), "0.5");
  await r.mset({ a: "1", b: "2" });
  assert.deepEqual(await r.mget("a", "b", "c"), ["1", "2", null]);
  assert.equal(await r.append("s", "Hello"), 5);
  assert.equal(await r.setrange("s", 5, " World"), 11);
  assert.equal(await r.getrange("s", -5, -1), "World");
  await assert.rejects(r.incr("s"), /not an integer/);
});

test("every byte and large values come back", async () => {
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  for (const value of [all, Buffer.concat(Array(32 * 1024).fill(all)), Buffer.alloc(0)]) {
    await r.set(all, value);
    assert.ok(value.equals(await r.getBuffer(all)));
  }
});

test("bitmaps", async () => {
  assert.equal(await r.setbit("b", 7, 1), 0);
  assert.equal(await r.getbit("b", 7), 1);
  await r.set("c", Buffer.from([0xff, 0xf0, 0]));
  assert.deepEqual([await r.bitcount("c"), await r.bitpos("c", 0), await r.bitop("OR", "d", "b", "c")], [12, 12, 3]);
  assert.deepEqual(await r.bitfield("f", "OVERFLOW", "SAT", "SET", "u8", 0, 250, "INCRBY", "u8", 0, 10), [0, 255]);
});

test("keys and expiry", async () => {
  await r.mset("a", 1, "b", 2);
  assert.equal(await r.rename("a", "c"), "OK");
  await assert.rejects(r.rename("a", "c"), /no such key/);
  assert.equal(await r.copy("c", "d"), 1);
  assert.deepEqual([await r.exists("a", "b", "c", "d"), await r.unlink("b", "x"), await r.type("c")], [3, 1, "string"]);
  assert.equal(await r.pexpireat("c", 4102444800000), 1);
  assert.equal(await r.expiretime("c"), 4102444800);
  assert.equal(await r.move("c", 1), 1);
  assert.equal(await connect({ db: 1 }).get("c"), "1");
});

test("pipelines, automatic and by hand", async () => {
  const automatic = connect({ enableAutoPipelining: true });
  const replies = await Promise.all(Array.from({ length: 2000 }, (_, i) => automatic.set(`p:${i}`, i)));
  assert.ok(replies.every((reply) => reply === "OK"));
  const [[, set], [error], [, get]] = await r.pipeline().set("text", "x").incr("text").get("text").exec();
  assert.deepEqual([set, get], ["OK", "x"]);
  assert.match(error.message, /not an integer/);
});

test("a scan stream finds every key", async () => {
  await r.mset(Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`scan:${i}`, i])));
  const found = new Set();
  for await (const keys of r.scanStream({ match: "scan:*", count: 100 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 5000);
});

test("connection and server commands", async () => {
  const client = connect({ connectionName: "tester" });
  assert.equal(await client.client("GETNAME"), "tester");
  assert.match(await client.client("INFO"), /lib-name=ioredis/);
  assert.match(await r.info("memory"), /used_memory:\d+/);
  assert.deepEqual(await r.config("GET", "maxmemory-policy"), ["maxmemory-policy", "noeviction"]);
  await assert.rejects(r.call("NOSUCH"), /unknown command/);
});

test("a killed connection is replaced", async () => {
  const victim = connect();
  const id = await victim.client("ID");
  assert.equal(await r.client("KILL", "ID", id), 1);
  assert.equal(await victim.ping(), "PONG");
});

test("monitor sees commands", async () => {
  const monitor = await r.monitor();
  const seen = new Promise((resolve) => monitor.on("monitor", (_, words) => words[0] === "set" && resolve(words)));
  await r.set("watched", "a b");
  assert.deepEqual(await seen, ["set", "watched", "a b"]);
  monitor.disconnect();
});

test("unix socket", async () => {
  await connect({ path: process.env.BROADLOOM_SOCKET }).set("k", "by socket");
  assert.equal(await r.get("k"), "by socket");
});

test("password", async () => {
  await r.config("SET", "requirepass", "secret");
  try {
    const stranger = connect({ enableReadyCheck: false, retryStrategy: null });
    await assert.rejects(stranger.get("k"), /NOAUTH/);
    assert.equal(await connect({ password: "secret" }).ping(), "PONG");
  } finally {
    await r.config("SET", "requirepass", "");
  }
});
