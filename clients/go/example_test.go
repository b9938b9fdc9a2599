package rosterd_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/fence"
	"github.com/rosterd/rosterd/clients/go/rosterdtest"
)

func Example() {
	w, err := rosterd.NewWorker(rosterd.WithServer("localhost:7700"), rosterd.WithSlots(8))
	if err != nil {
		log.Fatal(err)
	}
	w.Job("hello", func(_ context.Context, run *rosterd.Run) error {
		fmt.Println("item", run.Item, "of", run.Total, run.ItemParameter)
		return nil
	}, rosterd.WithConfig(rosterd.JobConfig{Items: 3, Cron: "0/30 * * * * ?"}))
	if err := w.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func ExampleDataflow() {
	orders := []string{"apples", "pears", "plums"}
	fetch := func(context.Context, *rosterd.Run) ([]string, error) {
		batch := orders[:min(2, len(orders))]
		orders = orders[len(batch):]
		return batch, nil
	}
	process := func(_ context.Context, _ *rosterd.Run, batch []string) error {
		fmt.Println(batch)
		return nil
	}
	end := rosterdtest.Call(context.Background(), rosterd.Dataflow(fetch, process), rosterdtest.Trigger{Streaming: true})
	fmt.Println(end.Outcome, end.Processed)
	// Output:
	// [apples pears]
	// [plums]
	// SUCCEEDED 3
}

func ExampleNewLogHandler() {
	withoutTime := func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return attr
	}
	text := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})
	logger := slog.New(rosterd.NewLogHandler(text))
	handler := func(ctx context.Context, _ *rosterd.Run) error {
		logger.InfoContext(ctx, "archived", "orders", 100)
		return nil
	}
	rosterdtest.Call(context.Background(), handler, rosterdtest.Trigger{Job: "billing", Item: 2, Token: 7})
	// Output: level=INFO msg=archived orders=100 job=billing item=2 token=7 instance=127.0.0.1@-@test
}

func ExampleFatal() {
	handler := func(context.Context, *rosterd.Run) error {
		return rosterd.Fatal(os.ErrNotExist)
	}
	end := rosterdtest.Call(context.Background(), handler, rosterdtest.Trigger{})
	fmt.Println(end.Outcome, end.Retryable, end.Error)
	// Output: FAILED false file does not exist
}

// A loop that never waits checks its context, which checks the lease itself.
func ExampleRun() {
	handler := func(ctx context.Context, run *rosterd.Run) error {
		for record := range 1000 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			run.Progress(record/10, "records")
			run.Count(1, 0)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	end := rosterdtest.Call(ctx, handler, rosterdtest.Trigger{})
	fmt.Println(end.Outcome, end.Processed, end.Percent)
	// Output: SUCCEEDED 1000 99
}

// A write that the database refuses from a run that another one has replaced.
func ExampleRun_token() {
	var db *sql.DB // of the program
	handler := func(ctx context.Context, run *rosterd.Run) error {
		done, err := db.ExecContext(ctx,
			"UPDATE account SET balance = balance + 1, token = $1 WHERE id = $2 AND token <= $1", run.Token, run.Item)
		if err != nil {
			return err
		}
		if rows, err := done.RowsAffected(); err == nil && rows == 0 {
			return rosterd.Fatal(fence.ErrFenced)
		}
		return nil
	}
	_ = handler
}
