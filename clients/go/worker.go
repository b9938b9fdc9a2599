package rosterd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/clock"
	"github.com/rosterd/rosterd/clients/go/internal/driver"
	"github.com/rosterd/rosterd/clients/go/internal/machine"
	"github.com/rosterd/rosterd/clients/go/internal/wire"
)

const (
	// addressPatience is how long the search for this machine's address may take.
	addressPatience = 3 * time.Second
	// maxEarly is how often a worker may be asked to leave before it runs; more changes nothing.
	maxEarly = 64
)

// A Worker is one worker process: one stream to a coordinator carries all its jobs.
type Worker struct {
	options *options

	mutex   sync.Mutex
	jobs    []*job
	byName  map[string]*job
	defects []error
	ran     bool
	// early are the requests from before the driver exists.
	early      []machine.Event
	driver     *driver.Driver
	healthAddr net.Addr
}

// NewWorker makes a worker. Its error names every invalid option, and is an ErrInvalidOption.
func NewWorker(given ...Option) (*Worker, error) {
	options, err := resolve(given, os.Getenv)
	if err != nil {
		return nil, err
	}
	return &Worker{options: options, byName: make(map[string]*job)}, nil
}

// Job adds a job: the handler is called for every run of its items that is assigned to this worker. Run returns errors
// of its configuration.
func (w *Worker) Job(name string, handler Handler, given ...JobOption) {
	added, err := newJob(name, handler, given)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case err != nil:
	case w.ran:
		// Run has already read the jobs.
		w.options.logger.Error(invalid("job %q: jobs are added before the worker runs", name).Error(), "job", name)
		return
	case w.byName[name] != nil:
		err = invalid("job %q is there already: give another name", name)
	default:
		wrap := w.options.middleware
		for i := len(wrap) - 1; i >= 0; i-- {
			added.handler = wrap[i](added.handler)
		}
		w.jobs = append(w.jobs, added)
		w.byName[name] = added
		return
	}
	w.defects = append(w.defects, err)
}

// Run runs until the worker has left: once ctx is done, on a signal, by Stop, or when a coordinator asks for it. Then
// runs have the drain timeout, and every outcome is acknowledged before Run returns. The contexts of handlers have the
// values of ctx; they are cancelled when their runs must stop.
//
// It returns nil after that, a *RefusedError if no job is left, a *RejectedError if every coordinator rejects the
// worker, ErrLeaveTimedOut if the goodbye was not acknowledged. It does not wait for handlers that do not stop. A
// worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	o := w.options
	o.settings.Trusted = o.access.Trusts(o.settings.Servers)
	if o.settings.Address == "" {
		o.settings.Address = ownAddress(ctx, o.settings.Servers[0])
	}
	if o.health != "" {
		stop, err := w.serveHealth(o.health)
		if err != nil {
			return err
		}
		defer stop()
	}
	lines := newLines(o.logger, o.hooks)
	defer lines.close()
	// Requests from the meantime come first.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	runner := &runner{
		base: base, jobs: w.byName, log: o.logger, hooks: o.hooks, lines: lines, runs: make(map[machine.Key]*Run),
	}
	engine := w.engine(runner)
	if o.signals {
		signals := listen(func() { engine.Post(machine.Leave{Grace: -1, Signalled: true}) }, o.logger)
		defer signals.close()
	}
	defer context.AfterFunc(ctx, w.Stop)()
	end, defect := engine.Run()
	if defect != nil {
		runner.stopAll(machine.StopLease)
		text := fmt.Sprintf("internal error: its runs are no longer covered by a lease: %v", defect.Cause)
		o.logger.Error(text, "stack", string(defect.Stack))
		return errors.New("rosterd: " + text)
	}
	return errorOf(end)
}

func (w *Worker) begin() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case w.ran:
		return errors.New("rosterd: a worker runs once")
	case len(w.defects) > 0:
		return errors.Join(w.defects...)
	case len(w.jobs) == 0:
		return invalid("a worker without jobs has nothing to do: add one")
	}
	w.ran = true
	return nil
}

// engine makes the machine and its driver, and passes them earlier requests.
func (w *Worker) engine(runner *runner) *driver.Driver {
	registrations := make([]machine.Registration, 0, len(w.jobs))
	for _, job := range w.jobs {
		registrations = append(registrations, job.registration())
	}
	system := clock.System{}
	runner.state = driver.NewState(system)
	access := &w.options.access
	dial := func(number uint64, address string, earlier <-chan struct{}, feed func(machine.Event)) driver.Stream {
		return wire.Open(number, address, access, earlier, feed)
	}
	engine := driver.New(machine.New(w.options.settings, registrations, rand.Float64), system, runner.state, dial, runner)
	runner.event = engine.Post
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.driver = engine
	for _, event := range w.early {
		engine.Post(event)
	}
	w.early = nil
	return engine
}

// Stop asks the worker to leave in order; runs have the drain timeout. It does not wait.
func (w *Worker) Stop() {
	w.ask(machine.Leave{Grace: -1})
}

// StopWithin asks the worker to leave; runs have this long. It does not wait.
func (w *Worker) StopWithin(grace time.Duration) {
	w.ask(machine.Leave{Grace: max(0, grace)})
}

func (w *Worker) ask(event machine.Event) {
	w.mutex.Lock()
	engine := w.driver
	if engine == nil {
		if len(w.early) < maxEarly {
			w.early = append(w.early, event)
		}
	}
	w.mutex.Unlock()
	if engine != nil {
		engine.Post(event)
	}
}

func (w *Worker) alive() bool {
	w.mutex.Lock()
	engine := w.driver
	w.mutex.Unlock()
	if engine == nil {
		return true
	}
	select {
	case <-engine.Done():
		return false
	default:
		return true
	}
}

func (w *Worker) ready() bool {
	w.mutex.Lock()
	engine := w.driver
	w.mutex.Unlock()
	return engine != nil && engine.Ready()
}

// ownAddress is the address of this machine that faces a coordinator, or its name if there is none.
func ownAddress(ctx context.Context, server string) string {
	dialer := net.Dialer{Timeout: addressPatience}
	// A datagram socket sends nothing here: this only asks for a route.
	if conn, err := dialer.DialContext(ctx, "udp", net.JoinHostPort(wire.Host(server), "9")); err == nil {
		defer func() { _ = conn.Close() }()
		if local, is := conn.LocalAddr().(*net.UDPAddr); is {
			return local.IP.String()
		}
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}
