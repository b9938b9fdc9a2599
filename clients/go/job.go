package rosterd

import (
	"context"
	"os"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

const maxConfig = 64 * 1024

// A Handler is called for every run of an item that is assigned to this worker. Its context is cancelled once the run
// must stop, with the reason as its cause. If it returns an error, or panics, the attempt has failed, and another one
// follows if the job's retry policy allows it.
//
// If the run had to stop, the outcome follows from the reason, whatever the handler returns.
type Handler func(ctx context.Context, run *Run) error

// A Fire is one scheduled execution of a job, over all its items.
type Fire struct {
	Job string
	// Time is the scheduled time, in UTC.
	Time time.Time
}

// A JobOption configures a job, besides its handler.
type JobOption func(*job) error

type job struct {
	name           string
	handler        Handler
	handlerType    string
	config         string
	overwrite      bool
	onAllStarted   func(context.Context, Fire) error
	onAllCompleted func(context.Context, Fire) error
}

// WithConfig creates the job if it is absent.
func WithConfig(config JobConfig) JobOption {
	return func(j *job) error {
		text, err := config.text(j.name)
		j.config = text
		return err
	}
}

// WithConfigText is a job file, YAML or JSON, that creates the job if it is absent; at most 64 KiB.
func WithConfigText(text string) JobOption {
	return func(j *job) error {
		j.config = text
		return nil
	}
}

// WithConfigFile names a job file.
func WithConfigFile(path string) JobOption {
	return func(j *job) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return invalid("job %q: the config cannot be read: %w: name a job file", j.name, err)
		}
		j.config = string(text)
		return nil
	}
}

// WithOverwrite lets the config replace that of a job that exists.
func WithOverwrite() JobOption {
	return func(j *job) error {
		j.overwrite = true
		return nil
	}
}

// WithHandlerType names what runs the job, the same on all its workers in all languages. Default: the job's name.
func WithHandlerType(name string) JobOption {
	return func(j *job) error {
		j.handlerType = name
		return nil
	}
}

// WithOnAllStarted is called before any item of a fire runs, on one worker, if the job's guarantee requires it.
func WithOnAllStarted(callback func(ctx context.Context, fire Fire) error) JobOption {
	return func(j *job) error {
		j.onAllStarted = callback
		return nil
	}
}

// WithOnAllCompleted is called after the last item of a fire has ended, on one worker, if the job's guarantee requires
// it.
func WithOnAllCompleted(callback func(ctx context.Context, fire Fire) error) JobOption {
	return func(j *job) error {
		j.onAllCompleted = callback
		return nil
	}
}

func newJob(name string, handler Handler, given []JobOption) (*job, error) {
	if name == "" {
		return nil, invalid("a job needs a name")
	}
	if handler == nil {
		return nil, invalid("job %q: the handler is nil: give a function", name)
	}
	j := &job{name: name, handler: handler, handlerType: name}
	for _, option := range given {
		if err := option(j); err != nil {
			return nil, err
		}
	}
	if len(j.config) > maxConfig {
		return nil, invalid("job %q: the config has %d bytes, at most %d: use `rosterd jobs apply` for it", name, len(j.config), maxConfig)
	}
	return j, nil
}

func (j *job) registration() machine.Registration {
	return machine.Registration{Job: j.name, HandlerType: j.handlerType, Config: j.config, Overwrite: j.overwrite}
}

// Dataflow is a handler that fetches and processes a batch, and repeats it until fetch returns nothing if the job
// streams. It ends early if the run must stop, and cleanly between two batches if the worker is leaving. The records of
// a batch are counted as processed, unless process counts itself.
func Dataflow[T any](
	fetch func(ctx context.Context, run *Run) ([]T, error),
	process func(ctx context.Context, run *Run, batch []T) error,
) Handler {
	return func(ctx context.Context, run *Run) error {
		for {
			batch, err := fetch(ctx, run)
			if err != nil {
				return err
			}
			if len(batch) == 0 {
				return nil
			}
			before := run.counts()
			if err := process(ctx, run, batch); err != nil {
				return err
			}
			if run.counts() == before {
				run.Count(len(batch), 0)
			}
			if !run.Streaming || run.Leaving() {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
}
