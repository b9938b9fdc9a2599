// Command orders is a full example: a job that comes with the worker and archives orders, one region per item.
//
// It takes batches until none is left, continues where the last run stopped, passes its fencing token to the store that
// it writes to, stops on request, and serves health. Try it: `rosterd dev`, then `go run ./examples/orders`, then
// `rosterd jobs trigger orders`.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/fence"
)

const (
	ordersPerRegion = 250
	batchSize       = 100
)

var regions = []string{"north", "south", "west"}

type order struct {
	id     int
	region string
}

// archive stands for a database that refuses writes of a run that another one has replaced.
type archive struct {
	mutex  sync.Mutex
	tokens map[string]int64
	orders []order
}

func (a *archive) write(run *rosterd.Run, batch []order) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if seen := a.tokens[run.ItemParameter]; run.Token < seen {
		return rosterd.Fatal(&fence.FencedError{What: run.ItemParameter, Token: run.Token, Seen: seen})
	}
	a.tokens[run.ItemParameter] = run.Token
	a.orders = append(a.orders, batch...)
	return nil
}

// archiving is one run of the job.
type archiving struct {
	archive *archive
	// next is the first order that is not archived.
	next int
}

func (a *archiving) fetch(ctx context.Context, run *rosterd.Run) ([]order, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(50 * time.Millisecond):
	}
	var batch []order
	for id := a.next; id < min(a.next+batchSize, ordersPerRegion); id++ {
		batch = append(batch, order{id, run.ItemParameter})
	}
	return batch, nil
}

func (a *archiving) process(ctx context.Context, run *rosterd.Run, batch []order) error {
	if err := a.archive.write(run, batch); err != nil {
		return err
	}
	a.next += len(batch)
	run.Progress(100*a.next/ordersPerRegion, fmt.Sprintf("%d orders of %s", a.next, run.ItemParameter))
	// The ids of the run are among the fields.
	slog.InfoContext(ctx, "archived", "orders", len(batch), "until", a.next)
	return run.SetOffset([]byte(strconv.Itoa(a.next)))
}

// archiveOrders continues where the last run of the item stopped.
func archiveOrders(archive *archive) rosterd.Handler {
	return func(ctx context.Context, run *rosterd.Run) error {
		from, err := strconv.Atoi(cmp.Or(string(run.Offset), "0"))
		if err != nil {
			return rosterd.Fatal(err)
		}
		a := &archiving{archive, from}
		return rosterd.Dataflow(a.fetch, a.process)(ctx, run)
	}
}

func main() {
	slog.SetDefault(slog.New(rosterd.NewLogHandler(slog.NewJSONHandler(os.Stdout, nil))))
	if err := work(); err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
}

func work() error {
	var running, failed atomic.Int64
	w, err := rosterd.NewWorker(
		rosterd.WithLabels(map[string]string{"zone": "a"}),
		rosterd.WithDrainTimeout(10*time.Second),
		rosterd.WithHealth("127.0.0.1:"+cmp.Or(os.Getenv("HEALTH_PORT"), "0")),
		rosterd.WithHooks(rosterd.Hooks{
			RunStarted: func(*rosterd.Run) { running.Add(1) },
			RunEnded: func(_ *rosterd.Run, end rosterd.RunEnd) {
				running.Add(-1)
				if end.Err != nil && end.Stopped == nil {
					failed.Add(1)
				}
			},
		}),
	)
	if err != nil {
		return err
	}
	w.Job("orders", archiveOrders(&archive{tokens: make(map[string]int64)}),
		rosterd.WithOnAllCompleted(func(_ context.Context, fire rosterd.Fire) error {
			slog.Info("all regions are archived", "fire", fire.Time)
			return nil
		}),
		rosterd.WithConfig(rosterd.JobConfig{
			Items:          len(regions),
			ItemParameters: regions,
			Cron:           "0 0/5 * * * ?",
			TimeZone:       "Europe/Berlin",
			Kind:           "dataflow",
			Streaming:      true,
			Failover:       true,
			Timeout:        time.Minute,
			Retries:        &rosterd.Retries{MaxAttempts: 3, Backoff: 500 * time.Millisecond},
			Guarantee:      &rosterd.Guarantee{Completed: true},
		}))
	return w.Run(context.Background())
}
