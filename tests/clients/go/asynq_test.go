// asynq: several servers, repeated, delayed and unique tasks. Each task ends, and runs once.
package broadloom

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Counts how often each task has run.
type runs struct {
	mutex  sync.Mutex
	counts map[string]int
	sum    int
}

func (r *runs) add(name string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.counts[name]++
	r.sum++
	return r.counts[name]
}

func (r *runs) total() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.sum
}

func TestAsynq(t *testing.T) {
	const count, retried, delayed = 300, 30, 30
	ok(t, connect(t, 2, nil).FlushAll(ctx).Err())
	options := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Getenv("BROADLOOM_PORT")}
	done := &runs{counts: map[string]int{}}
	handler := asynq.NewServeMux()
	handler.HandleFunc("once", func(_ context.Context, task *asynq.Task) error {
		done.add(string(task.Payload()))
		return nil
	})
	handler.HandleFunc("twice", func(_ context.Context, task *asynq.Task) error {
		if done.add(string(task.Payload())) == 1 {
			return errors.New("the first try fails")
		}
		return nil
	})
	client := asynq.NewClient(options)
	defer client.Close()
	enqueue := func(kind, name string, options ...asynq.Option) {
		t.Helper()
		_, err := client.Enqueue(asynq.NewTask(kind, []byte(name)), options...)
		ok(t, err)
	}
	for number := range count {
		enqueue("once", "task"+strconv.Itoa(number), asynq.Queue([]string{"default", "urgent"}[number%2]))
	}
	for number := range retried {
		enqueue("twice", "retried"+strconv.Itoa(number), asynq.MaxRetry(3))
	}
	for number := range delayed {
		enqueue("once", "delayed"+strconv.Itoa(number), asynq.ProcessIn(100*time.Millisecond))
	}
	unique := asynq.NewTask("once", []byte("unique"))
	_, err := client.Enqueue(unique, asynq.Unique(time.Minute))
	ok(t, err)
	if _, err := client.Enqueue(unique, asynq.Unique(time.Minute)); !errors.Is(err, asynq.ErrDuplicateTask) {
		t.Fatalf("a second unique task: %v", err)
	}
	for range 2 {
		server := asynq.NewServer(options, asynq.Config{
			Concurrency: 10,
			Queues:      map[string]int{"default": 1, "urgent": 3},
			LogLevel:    asynq.FatalLevel,
			// Often, for the delayed tasks and the failed ones.
			DelayedTaskCheckInterval: 100 * time.Millisecond,
			RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 50 * time.Millisecond },
		})
		ok(t, server.Start(handler))
		defer server.Shutdown()
	}
	inspector := asynq.NewInspector(options)
	defer inspector.Close()
	wanted := count + 2*retried + delayed + 1
	for deadline := time.Now().Add(time.Minute); done.total() < wanted && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	for name, number := range done.counts {
		if expected := map[bool]int{false: 1, true: 2}[len(name) > 7 && name[:7] == "retried"]; number != expected {
			t.Errorf("%s ran %d times, not %d", name, number, expected)
		}
	}
	equal(t, len(done.counts), count+retried+delayed+1)
	equal(t, done.total(), wanted)
}

// The helpers of go-redis for scripts, used in parallel.
func TestScriptsInParallel(t *testing.T) {
	each(t, func(t *testing.T, r *redis.Client, _ int) {
		// The second key is not declared.
		move := redis.NewScript("local job = redis.call('RPOP', KEYS[1]) " +
			"if job then redis.call('HINCRBY', ARGV[1], job, 1) end return job")
		const count = 500
		for number := range count {
			ok(t, r.LPush(ctx, "jobs", number).Err())
		}
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for {
					if err := move.Run(ctx, r, []string{"jobs"}, "undeclared").Err(); err == redis.Nil {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		workers.Wait()
		jobs := r.HGetAll(ctx, "undeclared").Val()
		equal(t, len(jobs), count)
		for job, runs := range jobs {
			if runs != "1" {
				t.Errorf("job %s ran %s times", job, runs)
			}
		}
	})
}
