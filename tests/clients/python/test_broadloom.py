"""redis-py with hiredis: typical application use of strings, bitmaps and keys, in RESP2 and RESP3.

Run by tests/clients/run, which sets BROADLOOM_PORT and BROADLOOM_SOCKET.
"""

import os
import threading
import unittest

import hiredis
import redis

PORT = int(os.environ["BROADLOOM_PORT"])
SOCKET = os.environ["BROADLOOM_SOCKET"]


def text(reply):
    """Decodes a reply if the client has not: that depends on the protocol."""
    return reply.decode() if isinstance(reply, bytes) else reply


class Behaviour:
    """All tests, for each protocol."""

    protocol = 2

    def connect(self, **options):
        client = redis.Redis(host="127.0.0.1", port=PORT, protocol=self.protocol, socket_timeout=30, **options)
        self.addCleanup(client.close)
        return client

    def setUp(self):
        self.r = self.connect()
        self.r.flushall()

    def test_hiredis_parses(self):
        connection = self.r.connection_pool.get_connection()
        self.assertIn("Hiredis", type(connection._parser).__name__)
        self.r.connection_pool.release(connection)
        self.assertTrue(hiredis.__version__)

    def test_set_with_options(self):
        r = self.r
        self.assertTrue(r.set("k", "1"))
        self.assertIsNone(r.set("k", "2", nx=True))
        self.assertEqual(r.set("k", "3", xx=True, get=True), b"1")
        self.assertTrue(r.set("k", "4", ex=100))
        self.assertTrue(r.set("k", "5", keepttl=True))
        self.assertTrue(95 < r.ttl("k") <= 100)
        self.assertEqual(r.getex("k", persist=True), b"5")
        self.assertEqual(r.ttl("k"), -1)
        self.assertEqual(r.getdel("k"), b"5")
        self.assertIsNone(r.get("k"))

    def test_numbers(self):
        r = self.r
        self.assertEqual([r.incr("n"), r.incrby("n", 9), r.decr("n"), r.decrby("n", 10)], [1, 10, 9, -1])
        self.assertEqual(r.incrbyfloat("f", 0.1) + r.incrbyfloat("f", 0.2), 0.1 + 0.3)
        r.set("n", 2**63 - 1)
        with self.assertRaisesRegex(redis.ResponseError, "overflow"):
            r.incr("n")
        r.set("n", "x")
        with self.assertRaisesRegex(redis.ResponseError, "not an integer"):
            r.incr("n")

    def test_strings(self):
        r = self.r
        self.assertEqual(r.append("s", "Hello"), 5)
        self.assertEqual(r.setrange("s", 5, " World"), 11)
        self.assertEqual(r.getrange("s", -5, -1), b"World")
        self.assertEqual(r.strlen("s"), 11)
        self.assertTrue(r.mset({"a": 1, "b": 2}))
        self.assertFalse(r.msetnx({"b": 3, "c": 3}))
        self.assertEqual(r.mget("a", "b", "c"), [b"1", b"2", None])
        r.mset({"x": "ohmytext", "y": "mynewtext"})
        self.assertEqual(r.lcs("x", "y"), b"mytext")

    def test_every_byte_comes_back(self):
        value = bytes(range(256)) * 3
        self.r.set(value, value)
        self.assertEqual(self.r.get(value), value)
        self.assertEqual(self.r.keys(), [value])

    def test_large_values(self):
        value = os.urandom(1024) * (16 * 1024)
        self.r.set("large", value)
        self.assertEqual(self.r.get("large"), value)
        self.assertEqual(self.r.mget(["large"] * 4), [value] * 4)
        self.assertEqual(self.r.strlen("large"), len(value))

    def test_bitmaps(self):
        r = self.r
        self.assertEqual([r.setbit("b", 7, 1), r.setbit("b", 7, 1), r.getbit("b", 7)], [0, 1, 1])
        r.set("c", b"\xff\xf0\x00")
        self.assertEqual([r.bitcount("c"), r.bitcount("c", 1, 1), r.bitpos("c", 0)], [12, 4, 12])
        self.assertEqual(r.bitop("AND", "d", "b", "c"), 3)
        self.assertEqual(r.get("d"), b"\x01\x00\x00")
        field = r.bitfield("f", default_overflow="SAT").set("u8", 0, 250).incrby("u8", 0, 10).get("u8", 0)
        self.assertEqual(field.execute(), [0, 255, 255])

    def test_expiry(self):
        r = self.r
        r.set("k", "v")
        self.assertTrue(r.expire("k", 100))
        self.assertFalse(r.expire("k", 10, gt=True))
        self.assertTrue(r.expire("k", 10, lt=True))
        self.assertTrue(r.persist("k"))
        self.assertEqual(r.pttl("k"), -1)
        self.assertEqual(r.ttl("none"), -2)
        self.assertTrue(r.pexpireat("k", 4102444800000))
        self.assertEqual([r.expiretime("k"), r.pexpiretime("k")], [4102444800, 4102444800000])
        self.assertTrue(r.expire("k", -1))
        self.assertEqual(r.exists("k"), 0)

    def test_keys(self):
        r = self.r
        r.mset({"a": 1, "b": 2})
        self.assertTrue(r.rename("a", "c"))
        self.assertFalse(r.renamenx("b", "c"))
        self.assertTrue(r.copy("c", "d"))
        self.assertEqual([r.exists("a", "b", "c", "d"), r.touch("b", "c"), r.unlink("b", "x")], [3, 2, 1])
        self.assertEqual([r.type("c"), r.type("a")], [b"string", b"none"])
        self.assertTrue(r.move("c", 1))
        other = self.connect(db=1)
        self.assertEqual([r.dbsize(), other.dbsize(), other.get("c")], [1, 1, b"1"])
        r.swapdb(0, 1)
        self.assertEqual(r.get("c"), b"1")
        self.assertEqual(r.randomkey(), b"c")
        with self.assertRaisesRegex(redis.ResponseError, "no such key"):
            r.rename("none", "c")

    def test_scan(self):
        keys = {f"scan:{i}".encode() for i in range(5000)}
        with self.r.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.set(key, 1)
            pipe.execute()
        self.assertEqual(set(self.r.scan_iter(count=100)), keys)
        self.assertEqual(len(set(self.r.scan_iter(match="scan:1*", count=50))), 1111)
        self.assertEqual(list(self.r.scan_iter(_type="list")), [])
        self.assertEqual(set(self.r.keys("scan:?")), {f"scan:{i}".encode() for i in range(10)})

    def test_pipeline(self):
        pipe = self.r.pipeline(transaction=False)
        for i in range(3000):
            pipe.set(f"p:{i}", i)
            pipe.get(f"p:{i}")
        pipe.set("text", "x").incr("text").get("text")
        replies = pipe.execute(raise_on_error=False)
        self.assertEqual(replies[1:6000:2], [str(i).encode() for i in range(3000)])
        self.assertIsInstance(replies[-2], redis.ResponseError)
        self.assertEqual(replies[-1], b"x")

    def test_connection_commands(self):
        r = self.connect(client_name="tester", single_connection_client=True)
        self.assertTrue(r.ping())
        self.assertEqual(r.echo("hi"), b"hi")
        self.assertEqual(text(r.client_getname()), "tester")
        mine = [client for client in r.client_list() if int(client["id"]) == r.client_id()]
        self.assertEqual(mine[0]["name"], "tester")
        self.assertEqual(mine[0]["resp"], str(self.protocol))
        self.assertIn("redis-py", mine[0]["lib-name"])
        self.assertEqual(len(r.time()), 2)

    def test_server_commands(self):
        r = self.r
        info = r.info()
        for field in ("redis_version", "connected_clients", "used_memory", "total_commands_processed", "uptime_in_seconds"):
            self.assertIn(field, info)
        r.set("k", "v")
        self.assertEqual(r.info("keyspace")["db0"]["keys"], 1)
        self.assertIn("cmdstat_set", r.info("commandstats"))
        self.assertEqual(r.config_get("maxmemory-policy"), {"maxmemory-policy": "noeviction"})
        self.assertTrue(r.config_set("maxmemory-samples", 7))
        self.assertEqual(r.config_get("maxmemory-samples")["maxmemory-samples"], "7")
        r.config_set("maxmemory-samples", 5)
        commands = r.command()
        self.assertEqual(commands["get"]["arity"], 2)
        self.assertIn("readonly", commands["get"]["flags"])
        self.assertEqual([text(key) for key in r.command_getkeys("MSET", "a", 1, "b", 2)], ["a", "b"])
        self.assertGreater(r.memory_usage("k"), 0)
        self.assertIsInstance(r.slowlog_get(), list)

    def test_errors_are_typed(self):
        r = self.r
        with self.assertRaisesRegex(redis.ResponseError, "unknown command"):
            r.execute_command("NOSUCH", "a")
        with self.assertRaisesRegex(redis.ResponseError, "wrong number of arguments"):
            r.execute_command("GET")
        with self.assertRaises(redis.ResponseError):
            r.execute_command("SET", "k", "v", "EX", "0")
        r.config_set("requirepass", "secret")
        try:
            with self.assertRaises(redis.AuthenticationError):
                self.connect().ping()
            with self.assertRaises(redis.AuthenticationError):
                self.connect(password="wrong").ping()
            self.assertTrue(self.connect(password="secret").ping())
            self.assertTrue(self.connect(username="default", password="secret").ping())
        finally:
            r.config_set("requirepass", "")

    def test_monitor(self):
        with self.r.monitor() as monitor:
            self.r.set("watched", "a b")
            for command in monitor.listen():
                if command["command"].startswith("SET watched"):
                    break

    def test_many_threads(self):
        def work():
            for _ in range(200):
                self.r.incr("shared")

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.r.get("shared"), b"3200")

    def test_a_killed_connection_is_replaced(self):
        victim = self.connect(single_connection_client=True)
        killed = self.r.client_kill_filter(_id=victim.client_id())
        self.assertEqual(killed, 1)
        self.assertTrue(victim.ping())

    def test_unix_socket(self):
        client = redis.Redis(unix_socket_path=SOCKET, protocol=self.protocol)
        self.addCleanup(client.close)
        client.set("k", "by socket")
        self.assertEqual(self.r.get("k"), b"by socket")


class Resp2(Behaviour, unittest.TestCase):
    protocol = 2


class Resp3(Behaviour, unittest.TestCase):
    protocol = 3

    def test_hello(self):
        hello = self.r.execute_command("HELLO", 3)
        self.assertEqual(hello[b"proto"], 3)
        self.assertEqual(hello[b"role"], b"master")


if __name__ == "__main__":
    unittest.main()
