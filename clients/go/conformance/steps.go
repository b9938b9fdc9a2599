package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rosterd/rosterd/clients/go"
)

// gateEvery is how often a gate is checked.
const gateEvery = 5 * time.Millisecond

// A step is one word of a parameter, with its arguments.
type step func(ctx context.Context, run *rosterd.Run, rest string) error

// steps are all words but `batches`, which dataflow reads.
var steps map[string]step

func init() {
	steps = map[string]step{
		"":        func(context.Context, *rosterd.Run, string) error { return nil },
		"succeed": func(context.Context, *rosterd.Run, string) error { return nil },
		"fail":    func(_ context.Context, _ *rosterd.Run, text string) error { return errors.New(text) },
		"fatal":   func(_ context.Context, _ *rosterd.Run, text string) error { return rosterd.Fatal(errors.New(text)) },
		// Waits, and stops when told to.
		"sleep": timed(func(ctx context.Context, length time.Duration) error { return pause(ctx, length) }),
		// Spins on the processor, and stops when told to.
		"busy": timed(busy),
		// Occupies its goroutine, and never checks whether to stop.
		"block": timed(func(_ context.Context, length time.Duration) error { time.Sleep(length); return nil }),
		// Waits, and ignores being told to stop.
		"ignore":   timed(func(_ context.Context, length time.Duration) error { time.Sleep(length); return nil }),
		"progress": progress,
		"output":   func(_ context.Context, run *rosterd.Run, text string) error { run.SetOutput(text); return nil },
		"offset":   func(_ context.Context, run *rosterd.Run, text string) error { return run.SetOffset([]byte(text)) },
		"append": func(_ context.Context, run *rosterd.Run, text string) error {
			return run.SetOffset(append(append([]byte{}, run.Offset...), text...))
		},
		"count": count,
		"gate":  gate,
		"once":  once,
	}
}

func simple(ctx context.Context, run *rosterd.Run) error {
	return perform(ctx, run, run.ItemParameter)
}

// dataflow fetches as many batches of one record as `batches` says, and performs the other steps for each.
func dataflow(ctx context.Context, run *rosterd.Run) error {
	batches := 0
	var others []string
	for _, text := range strings.Split(run.ItemParameter, ";") {
		word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		if word != "batches" {
			others = append(others, text)
			continue
		}
		found, err := strconv.Atoi(rest)
		if err != nil {
			return rosterd.Fatal(err)
		}
		batches = found
	}
	fetch := func(context.Context, *rosterd.Run) ([]int, error) {
		if batches == 0 {
			return nil, nil
		}
		batches--
		return []int{batches}, nil
	}
	process := func(ctx context.Context, run *rosterd.Run, _ []int) error {
		return perform(ctx, run, strings.Join(others, ";"))
	}
	return rosterd.Dataflow(fetch, process)(ctx, run)
}

func perform(ctx context.Context, run *rosterd.Run, parameter string) error {
	for _, text := range strings.Split(parameter, ";") {
		word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		does, known := steps[word]
		if !known {
			return rosterd.Fatal(fmt.Errorf("%q is no step", word))
		}
		if err := does(ctx, run, rest); err != nil {
			return err
		}
	}
	return nil
}

func timed(does func(context.Context, time.Duration) error) step {
	return func(ctx context.Context, _ *rosterd.Run, text string) error {
		length, err := strconv.Atoi(text)
		if err != nil {
			return rosterd.Fatal(err)
		}
		return does(ctx, time.Duration(length)*time.Millisecond)
	}
}

func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func busy(ctx context.Context, length time.Duration) error {
	for end := time.Now().Add(length); time.Now().Before(end); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func progress(_ context.Context, run *rosterd.Run, rest string) error {
	number, text, _ := strings.Cut(rest, " ")
	percent, err := strconv.Atoi(number)
	if err != nil {
		return rosterd.Fatal(err)
	}
	run.Progress(percent, text)
	return nil
}

func count(_ context.Context, run *rosterd.Run, rest string) error {
	var processed, failed int
	if _, err := fmt.Sscan(rest, &processed, &failed); err != nil {
		return rosterd.Fatal(err)
	}
	run.Count(processed, failed)
	return nil
}

// gate waits until a file exists.
func gate(ctx context.Context, _ *rosterd.Run, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		if err := pause(ctx, gateEvery); err != nil {
			return err
		}
	}
}

// once performs a step if a file does not exist, and creates the file.
func once(ctx context.Context, run *rosterd.Run, rest string) error {
	path, step, _ := strings.Cut(rest, " ")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return rosterd.Fatal(err)
	}
	if err := file.Close(); err != nil {
		return rosterd.Fatal(err)
	}
	return perform(ctx, run, step)
}
