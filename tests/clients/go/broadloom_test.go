// go-redis: typical application use of strings, bitmaps and keys, in RESP2 and RESP3.
// Run by tests/clients/run, which sets BROADLOOM_PORT and BROADLOOM_SOCKET.
package broadloom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func connect(t *testing.T, protocol int, change func(*redis.Options)) *redis.Client {
	t.Helper()
	options := &redis.Options{Addr: "127.0.0.1:" + os.Getenv("BROADLOOM_PORT"), Protocol: protocol}
	if change != nil {
		change(options)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// Runs a test for each protocol, on an emptied server.
func each(t *testing.T, test func(t *testing.T, r *redis.Client, protocol int)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("resp%d", protocol), func(t *testing.T) {
			r := connect(t, protocol, nil)
			ok(t, r.FlushAll(ctx).Err())
			test(t, r, protocol)
		})
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func fails(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("got error %v, want one with %q", err, text)
	}
}

func TestSetWithOptions(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, _ int) {
		ok(t, r.Set(ctx, "k", 1, 0).Err())
		equal(t, r.SetNX(ctx, "k", 2, 0).Val(), false)
		old, err := r.SetArgs(ctx, "k", 3, redis.SetArgs{Mode: "XX", Get: true}).Result()
		ok(t, err)
		equal(t, old, "1")
		ok(t, r.Set(ctx, "k", 4, 100*time.Second).Err())
		ok(t, r.Set(ctx, "k", 5, redis.KeepTTL).Err())
		if left := r.TTL(ctx, "k").Val(); left > 100*time.Second || left < 90*time.Second {
			t.Fatal(left)
		}
		equal(t, r.GetDel(ctx, "k").Val(), "5")
		if err := r.Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	})
}

func TestNumbersAndStrings(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, _ int) {
		equal(t, r.IncrBy(ctx, "n", 41).Val(), 41)
		equal(t, r.Incr(ctx, "n").Val(), 42)
		equal(t, r.IncrByFloat(ctx, "f", 1.5).Val(), 1.5)
		ok(t, r.Set(ctx, "n", "x", 0).Err())
		fails(t, r.Incr(ctx, "n").Err(), "not an integer")
		equal(t, r.Append(ctx, "s", "Hello").Val(), 5)
		equal(t, r.SetRange(ctx, "s", 5, " World").Val(), 11)
		equal(t, r.GetRange(ctx, "s", -5, -1).Val(), "World")
		ok(t, r.MSet(ctx, "a", 1, "b", 2).Err())
		equal(t, r.MSetNX(ctx, "b", 1, "c", 2).Val(), false)
		values := r.MGet(ctx, "a", "b", "c").Val()
		equal(t, fmt.Sprint(values), "[1 2 <nil>]")
		ok(t, r.MSet(ctx, "x", "ohmytext", "y", "mynewtext").Err())
		lcs, err := r.LCS(ctx, &redis.LCSQuery{Key1: "x", Key2: "y", Idx: true, WithMatchLen: true}).Result()
		ok(t, err)
		equal(t, lcs.Len, 6)
		equal(t, len(lcs.Matches), 2)
	})
}

func TestEveryByteAndLargeValues(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, _ int) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		large := bytes.Repeat(all, 32*1024)
		for _, value := range [][]byte{all, large, {}} {
			ok(t, r.Set(ctx, string(all), value, 0).Err())
			got, err := r.Get(ctx, string(all)).Bytes()
			ok(t, err)
			if !bytes.Equal(got, value) {
				t.Fatalf("%d bytes came back as %d others", len(value), len(got))
			}
		}
	})
}

func TestBitmaps(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, _ int) {
		equal(t, r.SetBit(ctx, "b", 7, 1).Val(), 0)
		equal(t, r.GetBit(ctx, "b", 7).Val(), 1)
		ok(t, r.Set(ctx, "c", "\xff\xf0\x00", 0).Err())
		equal(t, r.BitCount(ctx, "c", &redis.BitCount{Start: 1, End: 1}).Val(), 4)
		equal(t, r.BitCount(ctx, "c", &redis.BitCount{Start: 0, End: 9, Unit: "BIT"}).Val(), 10)
		equal(t, r.BitPos(ctx, "c", 0).Val(), 12)
		equal(t, r.BitOpAnd(ctx, "d", "b", "c").Val(), 3)
		fields, err := r.BitField(ctx, "f", "OVERFLOW", "SAT", "SET", "u8", 0, 250, "INCRBY", "u8", 0, 10).Result()
		ok(t, err)
		equal(t, fmt.Sprint(fields), "[0 255]")
	})
}

func TestKeysAndExpiry(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, protocol int) {
		ok(t, r.MSet(ctx, "a", 1, "b", 2).Err())
		ok(t, r.Rename(ctx, "a", "c").Err())
		fails(t, r.Rename(ctx, "a", "c").Err(), "no such key")
		equal(t, r.RenameNX(ctx, "b", "c").Val(), false)
		equal(t, r.Copy(ctx, "c", "d", 0, false).Val(), 1)
		equal(t, r.Exists(ctx, "a", "b", "c", "d").Val(), 3)
		equal(t, r.Unlink(ctx, "b", "d", "e").Val(), 2)
		equal(t, r.Type(ctx, "c").Val(), "string")
		equal(t, r.Expire(ctx, "c", 100*time.Second).Val(), true)
		equal(t, r.ExpireGT(ctx, "c", 10*time.Second).Val(), false)
		equal(t, r.ExpireLT(ctx, "c", 10*time.Second).Val(), true)
		equal(t, r.Persist(ctx, "c").Val(), true)
		equal(t, r.TTL(ctx, "c").Val(), -1)
		equal(t, r.TTL(ctx, "none").Val(), -2)
		equal(t, r.PExpireAt(ctx, "c", time.UnixMilli(4102444800000)).Val(), true)
		equal(t, r.ExpireTime(ctx, "c").Val(), 4102444800*time.Second)
		equal(t, r.Move(ctx, "c", 1).Val(), true)
		other := connect(t, protocol, func(options *redis.Options) { options.DB = 1 })
		equal(t, other.DBSize(ctx).Val(), 1)
		equal(t, r.DBSize(ctx).Val(), 0)
	})
}

func TestPipelineAndScan(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, _ int) {
		const count = 5000
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range count {
				pipe.Set(ctx, "scan:"+strconv.Itoa(i), i, 0)
			}
			return nil
		})
		ok(t, err)
		seen := map[string]bool{}
		keys := r.Scan(ctx, 0, "scan:*", 100).Iterator()
		for keys.Next(ctx) {
			seen[keys.Val()] = true
		}
		ok(t, keys.Err())
		equal(t, len(seen), count)
		replies, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "text", "x", 0)
			pipe.Incr(ctx, "text")
			pipe.Get(ctx, "text")
			return nil
		})
		fails(t, err, "not an integer")
		equal(t, replies[2].(*redis.StringCmd).Val(), "x")
	})
}

func TestManyGoroutines(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, _ int) {
		var group sync.WaitGroup
		for range 32 {
			group.Add(1)
			go func() {
				defer group.Done()
				for range 100 {
					if err := r.Incr(ctx, "shared").Err(); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		group.Wait()
		equal(t, r.Get(ctx, "shared").Val(), "3200")
	})
}

func TestConnectionAndServer(t *testing.T) {
	each(t, func(t *testing.T, _ *redis.Client, protocol int) {
		r := connect(t, protocol, func(options *redis.Options) { options.ClientName = "tester"; options.PoolSize = 1 })
		equal(t, r.ClientGetName(ctx).Val(), "tester")
		info, err := r.ClientInfo(ctx).Result()
		ok(t, err)
		equal(t, info.Resp, protocol)
		equal(t, info.LibName != "", true)
		equal(t, info.Name, "tester")
		commands, err := r.Command(ctx).Result()
		ok(t, err)
		equal(t, commands["get"].Arity, int8(2))
		equal(t, commands["mset"].StepCount, int8(2))
		equal(t, r.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"], "noeviction")
		equal(t, strings.Contains(r.Info(ctx, "server").Val(), "redis_version:"), true)
		clock, err := r.Time(ctx).Result()
		ok(t, err)
		equal(t, time.Since(clock).Abs() < time.Minute, true)
		equal(t, r.Echo(ctx, "hi").Val(), "hi")
		fails(t, r.Do(ctx, "NOSUCH", "a").Err(), "unknown command")
		fails(t, r.Do(ctx, "GET").Err(), "wrong number of arguments")
	})
}

func TestAKilledConnectionIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, protocol int) {
		victim := connect(t, protocol, func(options *redis.Options) { options.PoolSize = 1 })
		id := victim.ClientID(ctx).Val()
		equal(t, r.ClientKillByFilter(ctx, "ID", strconv.FormatInt(id, 10)).Val(), 1)
		ok(t, victim.Ping(ctx).Err())
	})
}

func TestUnixSocketAndPassword(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, protocol int) {
		socket := func(options *redis.Options) { options.Network = "unix"; options.Addr = os.Getenv("BROADLOOM_SOCKET") }
		ok(t, connect(t, protocol, socket).Set(ctx, "k", "by socket", 0).Err())
		equal(t, r.Get(ctx, "k").Val(), "by socket")
		ok(t, r.ConfigSet(ctx, "requirepass", "secret").Err())
		defer r.ConfigSet(ctx, "requirepass", "")
		fails(t, connect(t, protocol, nil).Ping(ctx).Err(), "NOAUTH")
		wrong := func(options *redis.Options) { options.Password = "wrong" }
		fails(t, connect(t, protocol, wrong).Ping(ctx).Err(), "WRONGPASS")
		right := func(options *redis.Options) { options.Username = "default"; options.Password = "secret" }
		ok(t, connect(t, protocol, right).Ping(ctx).Err())
	})
}
