// Command conformance is a worker for the conformance kit: its handler does what the item's parameter says, so the kit
// writes the script.
//
// The environment has the variables that every client reads, and CONFORMANCE_JOBS, CONFORMANCE_SLOTS,
// CONFORMANCE_DRAIN_MS, CONFORMANCE_ADDRESS, CONFORMANCE_CONFIG, CONFORMANCE_NAME and CONFORMANCE_LOG. A parameter has
// steps, separated by `;`: see steps.go. The events of each run are written as one JSON object a line, in the format
// that `rosterd verify` reads.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rosterd/rosterd/clients/go"
)

func main() {
	slog.SetDefault(slog.New(rosterd.NewLogHandler(slog.NewTextHandler(os.Stderr, nil))))
	log, err := openLog()
	if err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
	if err := work(log); err != nil {
		slog.Error(err.Error())
		log.process("exit", err.Error())
		os.Exit(1)
	}
	log.process("exit", "left")
}

func work(log *lines) error {
	slots, err := number("CONFORMANCE_SLOTS", 4)
	if err != nil {
		return err
	}
	drain, err := number("CONFORMANCE_DRAIN_MS", 30_000)
	if err != nil {
		return err
	}
	options := []rosterd.Option{
		rosterd.WithSlots(slots), rosterd.WithDrainTimeout(time.Duration(drain) * time.Millisecond),
	}
	if address := os.Getenv("CONFORMANCE_ADDRESS"); address != "" {
		options = append(options, rosterd.WithAddress(address))
	}
	worker, err := rosterd.NewWorker(options...)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(environment("CONFORMANCE_JOBS", "conformance"), ",") {
		add(worker, log, strings.TrimSpace(name))
	}
	return worker.Run(context.Background())
}

func add(worker *rosterd.Worker, log *lines, name string) {
	handler := rosterd.Handler(simple)
	if strings.HasPrefix(name, "dataflow") {
		handler = dataflow
	}
	options := []rosterd.JobOption{
		rosterd.WithHandlerType("conformance"),
		rosterd.WithOnAllStarted(callback(log, name, "started")),
		rosterd.WithOnAllCompleted(callback(log, name, "completed")),
	}
	// The text of a job file.
	if text := os.Getenv("CONFORMANCE_CONFIG"); text != "" {
		options = append(options, rosterd.WithConfigText(strings.ReplaceAll(text, "NAME", name)))
	}
	worker.Job(name, written(log, handler), options...)
}

// written logs when user code begins and ends.
func written(log *lines, handler rosterd.Handler) rosterd.Handler {
	return func(ctx context.Context, run *rosterd.Run) error {
		log.run("start", "", run)
		err := handler(ctx, run)
		if ctx.Err() != nil && errors.Is(err, rosterd.ErrStopped) {
			log.run("cancel", err.Error(), run)
		}
		if err != nil {
			log.run("end", err.Error(), run)
		} else {
			log.run("end", "ok", run)
		}
		return err
	}
}

// callback does what the job's name says.
func callback(log *lines, job, which string) func(context.Context, rosterd.Fire) error {
	return func(ctx context.Context, _ rosterd.Fire) error {
		log.process("callback", which)
		if strings.Contains(job, "slow-callback") {
			if err := pause(ctx, 2*time.Second); err != nil {
				return err
			}
		}
		if strings.Contains(job, "bad-callback") {
			return errors.New("refused")
		}
		return nil
	}
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func number(name string, otherwise int) (int, error) {
	found, err := strconv.Atoi(environment(name, strconv.Itoa(otherwise)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return found, nil
}
